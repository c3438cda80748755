"""Starting points, one kind a file."""

from .balanced import BalancedStart
from .base import Start
from .continuation import Continuation
from .growth import fit as fit
from .growth import grow as grow
from .resolve import STARTS
from .resolve import check_point as check_point
from .resolve import resolve_start as resolve_start
from .spectral import Spectral
from .spectral import leading as leading
from .staged import Staged

__all__ = [
    "STARTS",
    "BalancedStart",
    "Continuation",
    "Spectral",
    "Staged",
    "Start",
]
