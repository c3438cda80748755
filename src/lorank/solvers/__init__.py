"""Solvers: one loop, one algorithm per file."""

from .alternating import Alternating
from .anneal import Annealing
from .auto import Auto
from .newton import GaussNewton
from .niht import IHT, NIHT
from .rcg import RCG
from .rgd import RGD
from .safeguard import Fallback, Safeguard
from .solve import SOLVERS, solve
from .variational import Variational

__all__ = [
    "IHT",
    "NIHT",
    "RCG",
    "RGD",
    "SOLVERS",
    "Alternating",
    "Annealing",
    "Auto",
    "Fallback",
    "GaussNewton",
    "Safeguard",
    "Variational",
    "solve",
]
