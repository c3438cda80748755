"""``solve``, the default solver, rank selection and the noise test."""

from .auto import Auto
from .registry import SOLVERS
from .solving import solve
from .stages import Condition, Plan, Stage, Transition

__all__ = ["SOLVERS", "Auto", "Condition", "Plan", "Stage", "Transition", "solve"]
