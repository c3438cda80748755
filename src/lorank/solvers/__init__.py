"""Solvers: one loop, one algorithm per file."""

from .alternating import Alternating
from .anneal import Annealing
from .auto import Auto
from .messages import MessagePassing
from .newton import GaussNewton
from .niht import IHT, NIHT
from .phases import Phases
from .rcg import RCG, Fisher
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
    "Fisher",
    "GaussNewton",
    "MessagePassing",
    "Phases",
    "Safeguard",
    "Variational",
    "solve",
]
