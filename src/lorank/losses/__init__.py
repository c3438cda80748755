"""Datafits: how a matrix's measurements are compared with the data, one by one. A new one is one new file."""

from .absolute import Absolute
from .cauchy import Cauchy
from .huber import Huber
from .logistic import Logistic
from .loss import Loss, Weighted
from .ordinal import Ordinal
from .poisson import Poisson
from .protocol import Datafit
from .quadratic import Quadratic
from .registry import LOSSES as LOSSES
from .registry import ROBUST as ROBUST
from .registry import SQUARES as SQUARES
from .registry import loss_from as loss_from
from .registry import resolve_loss as resolve_loss
from .scaled import ScaledLoss
from .tukey import Tukey

__all__ = [
    "LOSSES",
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
]
