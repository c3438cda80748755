"""Factor models of noisy data: how to fit one, choose its rank and strength, and predict with it."""

from .choose import Candidate, Choice, choose
from .fit import Fit, Settings, centred_problem, fit_factors, unfitted
from .model import FactorModel

__all__ = ["Candidate", "Choice", "FactorModel", "Fit", "Settings", "centred_problem", "choose", "fit_factors", "unfitted"]
