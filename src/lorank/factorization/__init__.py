"""Factor models of noisy data: fitting, selection of rank and regularization, and prediction."""

from .als import RegularizedALS
from .fit import Fit, Settings, centred_problem, fit_factors, unfitted
from .model import FactorModel
from .selection import Candidate, Selection, select
from .variational import VariationalALS

__all__ = [
    "Candidate",
    "FactorModel",
    "Fit",
    "RegularizedALS",
    "Selection",
    "Settings",
    "VariationalALS",
    "centred_problem",
    "fit_factors",
    "select",
    "unfitted",
]
