"""Solvers: one loop, one algorithm per file."""

from .alternating import Alternating
from .auto import Auto
from .niht import IHT, NIHT
from .rcg import RCG
from .rgd import RGD
from .safeguard import Fallback, Safeguard
from .solve import SOLVERS, solve
from .variational import Variational

__all__ = ["IHT", "NIHT", "RCG", "RGD", "SOLVERS", "Alternating", "Auto", "Fallback", "Safeguard", "Variational", "solve"]
