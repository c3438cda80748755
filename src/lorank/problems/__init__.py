"""Measurement models: one per file. :class:`Problem` is what a solver sees of any of them."""

from .completion import Completion
from .counts import CountTable
from .gradient import Gradient
from .problem import Balanced, Problem, Single
from .sensing import Sensing

__all__ = ["Balanced", "Completion", "CountTable", "Gradient", "Problem", "Sensing", "Single"]
