"""Measurement models: one per file. :class:`Problem` is what a solver sees of any of them."""

from .base import Gradient, Problem
from .completion import Completion

__all__ = ["Completion", "Gradient", "Problem"]
