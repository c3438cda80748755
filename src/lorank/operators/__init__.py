"""Measurement models: one per file. :class:`Problem` is what a solver sees of any of them."""

from .base import Balanced, Problem
from .completion import Completion
from .gradient import Gradient
from .phase import PhaseRetrieval, phase_distance
from .sensing import Sensing

__all__ = ["Balanced", "Completion", "Gradient", "PhaseRetrieval", "Problem", "Sensing", "phase_distance"]
