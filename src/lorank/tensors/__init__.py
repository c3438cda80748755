"""Tensor completion in Tucker and tensor-train form."""

from typing import Any

from ..metrics import Counts
from ..plans.registry import register_default
from ..problems import Problem
from ..solvers import RCG
from .problem import TensorCompletion, TensorGradient
from .start import TensorStart
from .train_als import TrainALS
from .train_start import TrainStart

__all__ = ["TensorCompletion", "TensorGradient", "TensorStart", "TrainALS", "TrainStart"]


def _is_fitted_by_als(problem: Problem, rank: Any) -> bool:
    return isinstance(problem, TensorCompletion) and problem.format == "train" and problem.objective.is_quadratic


register_default(_is_fitted_by_als, TrainALS)
register_default(lambda problem, rank: isinstance(problem, TensorCompletion), lambda: RCG(Counts()))
