"""Imputation of missing values in tables, time series and tensors."""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError('lorank.tables needs scikit-learn: pip install "lorank[sklearn]"', name="sklearn") from None

from . import persistence  # noqa: F401  (registers the format of model files)
from .imputer import TableImputer
from .tensor_imputer import TensorImputer

__all__ = ["TableImputer", "TensorImputer"]
