"""Tensor completion in Tucker form."""

from ..metrics import Counts
from ..plans.registry import register_default
from ..solvers import RCG
from .problem import TensorCompletion, TensorGradient
from .start import TensorStart

__all__ = ["TensorCompletion", "TensorGradient", "TensorStart"]

register_default(lambda problem, rank: isinstance(problem, TensorCompletion), lambda: RCG(Counts()))
