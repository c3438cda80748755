"""Starting points, one kind a file."""

from .continuation import Continuation
from .protocol import Start
from .registry import STARTS
from .rescaled import RescaledStart
from .spectral import Spectral
from .staged import Staged

__all__ = ["STARTS", "Continuation", "RescaledStart", "Spectral", "Staged", "Start"]
