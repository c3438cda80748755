"""``solve``, the default solver, rank selection and the noise test."""

from ..io.archive import register_model
from .auto import Auto
from .registry import SOLVERS
from .result_file import read_result, write_result
from .solving import solve
from .stages import Condition, Plan, Stage, Transition

register_model("Result", write_result, read_result)

__all__ = ["SOLVERS", "Auto", "Condition", "Plan", "Stage", "Transition", "solve"]
