"""Completion with outliers: find them, and fit the other observations."""

from .plan import Robust
from .redescending_start import RobustStart
from .schedule import Schedule

__all__ = ["Robust", "RobustStart", "Schedule"]
