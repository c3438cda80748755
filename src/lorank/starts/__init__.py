"""Starting points, one kind a file."""

from .balanced import BalancedStart
from .base import Start
from .continuation import Continuation
from .growth import fit, grow
from .resolve import STARTS, check_point, resolve_start
from .spectral import Spectral, leading
from .staged import Staged

__all__ = [
    "STARTS",
    "BalancedStart",
    "Continuation",
    "Spectral",
    "Staged",
    "Start",
    "check_point",
    "fit",
    "grow",
    "leading",
    "resolve_start",
]
