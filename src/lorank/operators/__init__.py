"""Measurement models: one per file. :class:`Problem` is what a solver sees of any of them."""

from .base import Balanced, Problem, Single
from .completion import Completion
from .count_table import CountTable
from .gradient import Gradient
from .phase import PhaseRetrieval, phase_distance
from .sensing import Sensing

__all__ = [
    "Balanced",
    "Completion",
    "CountTable",
    "Gradient",
    "PhaseRetrieval",
    "Problem",
    "Sensing",
    "Single",
    "phase_distance",
]
