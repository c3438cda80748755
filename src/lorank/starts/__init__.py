"""Initial points for solvers."""

from .protocol import Start
from .registry import STARTS
from .rescaled import RescaledStart
from .spectral import Spectral
from .staged import Continuation, Staged

__all__ = ["STARTS", "Continuation", "RescaledStart", "Spectral", "Staged", "Start"]
