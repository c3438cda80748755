"""Tensor completion in Tucker and tensor-train form."""

from ..metrics import Counts
from ..plans.registry import register_default
from ..solvers import RCG
from .problem import TensorCompletion, TensorGradient
from .start import TensorStart
from .train_als import TrainALS
from .train_start import TrainStart

__all__ = ["TensorCompletion", "TensorGradient", "TensorStart", "TrainALS", "TrainStart"]


register_default(lambda problem, rank: isinstance(problem, TensorCompletion) and problem.format == "train", TrainALS)
register_default(lambda problem, rank: isinstance(problem, TensorCompletion), lambda: RCG(Counts()))
