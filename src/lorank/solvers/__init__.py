"""Optimization algorithms, one per file; :func:`lorank.loop.runner.run` iterates them."""

from .als import ALS
from .cgiht import CGIHT
from .factored import Factored
from .families import families
from .gauss_newton import GaussNewton
from .gnmr import GNMR, R2RILS
from .iht import IHT, NIHT
from .irls import IRLS
from .lmafit import LMaFit
from .rcg import RCG
from .rgd import RGD
from .rtrmc import RTRMC
from .safeguard import Fallback, Safeguard
from .soft_impute import SoftImpute

__all__ = [
    "ALS",
    "CGIHT",
    "GNMR",
    "IHT",
    "IRLS",
    "NIHT",
    "R2RILS",
    "RCG",
    "RGD",
    "RTRMC",
    "Factored",
    "Fallback",
    "GaussNewton",
    "LMaFit",
    "Safeguard",
    "SoftImpute",
    "families",
]
