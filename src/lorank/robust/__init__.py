"""Robust completion: find outliers, and fit the other observations."""

from .options import SmoothingSchedule, Thresholds
from .plan import Robust, RobustStart

__all__ = ["Robust", "RobustStart", "SmoothingSchedule", "Thresholds"]
