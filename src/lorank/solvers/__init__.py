"""Optimization algorithms, one per file; :func:`lorank.loop.runner.run` iterates them."""

from .als import ALS
from .factored import Factored
from .families import families
from .gauss_newton import GaussNewton
from .iht import IHT, NIHT
from .irls import IRLS
from .rcg import RCG
from .rgd import RGD
from .safeguard import Fallback, Safeguard

__all__ = ["ALS", "IHT", "IRLS", "NIHT", "RCG", "RGD", "Factored", "Fallback", "GaussNewton", "Safeguard", "families"]
