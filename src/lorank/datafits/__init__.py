"""Datafits: how a matrix's measurements are compared with the data, one by one. A new one is one new file."""

from .absolute import Absolute
from .base import Datafit
from .cauchy import Cauchy
from .huber import Huber
from .logistic import Logistic
from .loss import Loss, Weighted
from .ordinal import Ordinal
from .poisson import Poisson
from .quadratic import Quadratic
from .registry import LOSSES, ROBUST, SQUARES, loss_from, resolve_loss
from .scaled import ScaledLoss
from .tukey import Tukey

__all__ = [
    "LOSSES",
    "ROBUST",
    "SQUARES",
    "Absolute",
    "Cauchy",
    "Datafit",
    "Huber",
    "Logistic",
    "Loss",
    "Ordinal",
    "Poisson",
    "Quadratic",
    "ScaledLoss",
    "Tukey",
    "Weighted",
    "loss_from",
    "resolve_loss",
]
