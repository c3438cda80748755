"""Solvers: one loop, one algorithm per file."""

from typing import TYPE_CHECKING, Any

from .alternating import Alternating
from .auto import Auto
from .auto_phase import AutoPhase
from .gauss_newton import GaussNewton
from .irls import IRLS
from .message_passing import MessagePassing
from .niht import IHT, NIHT
from .rcg import RCG
from .registry import SOLVERS
from .reweighting import Fisher
from .rgd import RGD
from .robust import Robust
from .robust_start import RobustStart
from .safeguard import Fallback, Safeguard
from .schedule import Schedule
from .signal_cg import SignalCG
from .solve import solve
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
    "RobustStart",
    "Safeguard",
    "Schedule",
    "SignalCG",
    "Sweeps",
    "Variational",
    "solve",
]

if not TYPE_CHECKING:  # a type checker shall not find former names

    def __getattr__(name: str) -> Any:
        if name != "Annealing":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import warnings

        warnings.warn("Annealing is called IRLS since lorank 0.2; the former name goes in 0.3", FutureWarning, stacklevel=2)
        return IRLS
