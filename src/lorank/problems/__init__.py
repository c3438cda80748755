"""Measurement models, one per file, their gradients, and their optional capabilities."""

from . import capabilities
from .completion import Completion
from .counts import CountTable
from .gradient import Gradient, GradientBase
from .hankel import HankelCompletion
from .pauli import PauliTomography
from .problem import MatrixProblem, Problem
from .sensing import Sensing
from .units import Units

__all__ = [
    "Completion",
    "CountTable",
    "Gradient",
    "GradientBase",
    "HankelCompletion",
    "MatrixProblem",
    "PauliTomography",
    "Problem",
    "Sensing",
    "Units",
    "capabilities",
]
