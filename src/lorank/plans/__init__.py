"""``solve``, the default solver, rank selection and the noise test."""

from .auto import Auto
from .registry import SOLVERS
from .solving import solve

__all__ = ["SOLVERS", "Auto", "solve"]
