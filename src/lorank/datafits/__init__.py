"""Datafits: how a matrix's measurements are compared with the data, one by one. A new one is one new file."""

from .base import Datafit
from .quadratic import Quadratic

__all__ = ["Datafit", "Quadratic"]
