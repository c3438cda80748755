"""Starting points, one kind a file."""

from .continuation import Continuation
from .protocol import Start
from .registry import STARTS
from .rescaled import BalancedStart
from .spectral import Spectral
from .staged import Staged

__all__ = ["STARTS", "BalancedStart", "Continuation", "Spectral", "Staged", "Start"]
