"""Losses and objectives: how predictions are compared with observed values."""

from .discrete import Logistic, Ordinal, Poisson
from .loss import Loss, SquaredLoss
from .objective import Objective
from .registry import LOSSES as LOSSES
from .registry import ROBUST as ROBUST
from .registry import SQUARES as SQUARES
from .registry import loss_from as loss_from
from .registry import register_loss as register_loss
from .registry import resolve_loss as resolve_loss
from .robust import Absolute, Cauchy, Huber, ScaledLoss, Tukey

__all__ = [
    "LOSSES",
    "Absolute",
    "Cauchy",
    "Huber",
    "Logistic",
    "Loss",
    "Objective",
    "Ordinal",
    "Poisson",
    "ScaledLoss",
    "SquaredLoss",
    "Tukey",
    "register_loss",
]
