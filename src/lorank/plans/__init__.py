"""``solve``, the default solver, rank selection and the noise test."""

from .auto import Auto
from .phases import Condition, Phase, Plan, Transition
from .registry import SOLVERS
from .solving import solve

__all__ = ["SOLVERS", "Auto", "Condition", "Phase", "Plan", "Transition", "solve"]
