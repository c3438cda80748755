"""Tables with gaps: models of their rows, and their choice on held-out cells."""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError('lorank.tables needs scikit-learn: pip install "lorank[sklearn]"', name="sklearn") from None

from . import persistence  # noqa: F401  (registers the formats of model files)
from .columns import Column, describe, encode, frame_kind, restore
from .factor_analysis import FactorAnalysis, fit_factor_analysis
from .forest import Forest
from .gaussian import Gaussian, fit_gaussian
from .imputer import TableImputer
from .linear import Linear
from .low_rank import LowRankImputer
from .packing import pack, unpack
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
    "LowRankImputer",
    "Neighbours",
    "SeriesModel",
    "TableImputer",
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
