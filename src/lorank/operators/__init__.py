"""Measurement models: one per file. :class:`Problem` is what a solver sees of any of them."""

from .base import Balanced, Gradient, Problem
from .completion import Completion

__all__ = ["Balanced", "Completion", "Gradient", "Problem"]
