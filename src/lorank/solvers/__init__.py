"""Solvers: one loop, one algorithm per file."""

from .alternating import Alternating
from .auto import Auto
from .auto_phase import AutoPhase
from .gauss_newton import GaussNewton
from .irls import IRLS
from .message_passing import MessagePassing
from .niht import IHT, NIHT
from .rcg import RCG, Fisher
from .rgd import RGD
from .robust import Robust
from .safeguard import Fallback, Safeguard
from .schedule import Schedule
from .signal_cg import SignalCG
from .solve import SOLVERS, solve
from .sweeps import Sweeps
from .variational import Variational

__all__ = [
    "IHT",
    "IRLS",
    "NIHT",
    "RCG",
    "RGD",
    "SOLVERS",
    "Alternating",
    "Auto",
    "AutoPhase",
    "Fallback",
    "Fisher",
    "GaussNewton",
    "MessagePassing",
    "Robust",
    "Safeguard",
    "Schedule",
    "SignalCG",
    "Sweeps",
    "Variational",
    "solve",
]
