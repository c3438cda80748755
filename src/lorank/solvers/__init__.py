"""Solvers: one loop, one algorithm per file."""

from .anneal import Annealing
from .auto import Auto
from .newton import GaussNewton
from .niht import IHT, NIHT
from .rcg import RCG
from .rgd import RGD
from .safeguard import Fallback, Safeguard
from .solve import SOLVERS, solve

__all__ = ["IHT", "NIHT", "RCG", "RGD", "SOLVERS", "Annealing", "Auto", "Fallback", "GaussNewton", "Safeguard", "solve"]
