"""Tables with gaps: models of their rows, and their choice on held-out cells."""

from .archive import pack, unpack
from .columns import Column, describe, encode, frame_kind, restore
from .factor_analysis import FactorAnalysis, fit_factor_analysis
from .forest import Forest
from .gaussian import Gaussian, fit_gaussian
from .linear import Linear
from .series import Neighbours, find_period
from .series_model import SeriesModel, fit_series
from .standard import column_moments, standardised
from .table_model import TableModel, fit_table

__all__ = [
    "Column",
    "FactorAnalysis",
    "Forest",
    "Gaussian",
    "Linear",
    "Neighbours",
    "SeriesModel",
    "TableModel",
    "column_moments",
    "describe",
    "encode",
    "find_period",
    "fit_factor_analysis",
    "fit_gaussian",
    "fit_series",
    "fit_table",
    "frame_kind",
    "pack",
    "restore",
    "standardised",
    "unpack",
]
