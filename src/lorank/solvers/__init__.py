"""Solvers: one loop, one algorithm per file."""

from .als import Sweeps
from .gauss_newton import GaussNewton
from .iht import IHT, NIHT
from .irls import IRLS
from .rcg import RCG
from .rgd import RGD
from .safeguard import Fallback, Safeguard

__all__ = ["IHT", "IRLS", "NIHT", "RCG", "RGD", "Fallback", "GaussNewton", "Safeguard", "Sweeps"]
