"""Initial points for solvers, and the spectrum of the observations, by which ranks are chosen."""

from .normalized import Spectrum, spectrum
from .registry import STARTS, Start
from .spectral import Spectral
from .staged import Continuation, Staged

__all__ = ["STARTS", "Continuation", "Spectral", "Spectrum", "Staged", "Start", "spectrum"]
