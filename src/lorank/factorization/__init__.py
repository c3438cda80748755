"""Factor models of noisy data: how to fit one, choose its rank and strength, and predict with it."""

from .als import Alternating
from .fit import Fit, Settings, centred_problem, fit_factors, unfitted
from .model import FactorModel
from .selection import Candidate, Choice, choose
from .variational import Variational

__all__ = [
    "Alternating",
    "Candidate",
    "Choice",
    "FactorModel",
    "Fit",
    "Settings",
    "Variational",
    "centred_problem",
    "choose",
    "fit_factors",
    "unfitted",
]
