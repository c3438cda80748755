"""Measurement models, one per file, their gradients, and their optional capabilities."""

from . import capabilities
from .completion import Completion
from .counts import CountTable
from .gradient import Gradient
from .problem import MatrixProblem, Problem
from .sensing import Sensing
from .units import RescaledProblem, SinglePrecisionProblem

__all__ = [
    "Completion",
    "CountTable",
    "Gradient",
    "MatrixProblem",
    "Problem",
    "RescaledProblem",
    "Sensing",
    "SinglePrecisionProblem",
    "capabilities",
]
