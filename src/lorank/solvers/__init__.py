"""Solvers: one loop, one algorithm per file."""

from .niht import IHT, NIHT
from .rgd import RGD
from .safeguard import Fallback, Safeguard
from .solve import SOLVERS, solve

__all__ = ["IHT", "NIHT", "RGD", "SOLVERS", "Fallback", "Safeguard", "solve"]
