"""Fitted imputers to and from model files: dataclasses as JSON and arrays, without pickle."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..factorization import Candidate, FactorModel
from ..io.archive import plain, register_model
from .block_gaps import BlockGapModel
from .columns import Column
from .factor_analysis import FactorAnalysis
from .forest import Forest, ForestEnsemble
from .gaussian import Gaussian
from .imputer import TableImputer, check_fitted
from .kernel_ridge import KernelRidge
from .linear import LinearModel, Marginal
from .low_rank import LowRankModel
from .series_model import SeriesModel
from .stacking import Calibration
from .structural import Structural
from .table_model import TableModel
from .tensor_imputer import TensorImputer, check_tensor
from .tensor_model import TensorCandidate, TuckerPosterior, UnfoldingModel

CLASSES: dict[str, Any] = {
    c.__name__: c
    for c in (
        BlockGapModel,
        Calibration,
        Candidate,
        Column,
        FactorAnalysis,
        FactorModel,
        Forest,
        ForestEnsemble,
        Gaussian,
        KernelRidge,
        LinearModel,
        LowRankModel,
        Marginal,
        SeriesModel,
        Structural,
        TableModel,
        TensorCandidate,
        TuckerPosterior,
        UnfoldingModel,
    )
}
FITTED = (
    "means_",
    "scales_",
    "low_",
    "high_",
    "floor_",
    "ceiling_",
    "period_",
    "columns_",
    "missing_",
    "model_",
    "quality_",
    "by_mode_",
)


TENSOR_FITTED = (
    "shape_",
    "ids_",
    "names_",
    "model_",
    "curve_",
    "mean_",
    "scale_",
    "quality_",
    "heldout_",
    "scores_",
    "status_",
)


def pack(value: Any, arrays: dict[str, np.ndarray], at: str) -> Any:
    """The value for JSON; its arrays are put into ``arrays``, under names that begin with ``at``."""
    if is_dataclass(value):
        entries = {f.name: pack(getattr(value, f.name), arrays, f"{at}.{f.name}") for f in fields(value)}
        return {"class": type(value).__name__, **entries}
    if isinstance(value, np.ndarray):
        arrays[at] = value
        return {"array": at}
    if isinstance(value, list):
        return [pack(entry, arrays, f"{at}.{k}") for k, entry in enumerate(value)]
    return plain(value)


def unpack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The value that was packed."""
    if isinstance(value, list):
        return [unpack(entry, arrays) for entry in value]
    if isinstance(value, dict):
        if "array" in value:
            return arrays[value["array"]]
        return CLASSES[value["class"]](**{name: unpack(entry, arrays) for name, entry in value.items() if name != "class"})
    return value


def write_table(estimator: TableImputer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fitted TableImputer as JSON and arrays."""
    arrays: dict[str, np.ndarray] = {}
    meta = {
        "parameters": plain(estimator.get_params(deep=False)),
        "features": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        "n_features": estimator.n_features_in_,
        "fitted": {name: pack(getattr(estimator, name), arrays, name) for name in FITTED},
    }
    return meta, arrays


def read_table(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> TableImputer:
    """A fitted TableImputer from JSON and arrays."""
    estimator = TableImputer(**meta["parameters"])
    for name in FITTED:
        setattr(estimator, name, unpack(meta["fitted"][name], arrays))
    estimator.n_features_in_ = meta["n_features"]
    if meta["features"]:
        estimator.feature_names_in_ = np.array(meta["features"], object)
    check_fitted(estimator)
    return estimator


def write_tensor(estimator: TensorImputer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fitted TensorImputer as JSON and arrays."""
    arrays: dict[str, np.ndarray] = {}
    fitted = {name: pack(getattr(estimator, name), arrays, name) for name in TENSOR_FITTED}
    return {"parameters": plain(estimator.get_params(deep=False)), "fitted": fitted, "features": None}, arrays


def read_tensor(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> TensorImputer:
    """A fitted TensorImputer from JSON and arrays."""
    estimator = TensorImputer(**meta["parameters"])
    for name in TENSOR_FITTED:
        setattr(estimator, name, unpack(meta["fitted"][name], arrays))
    estimator.shape_ = tuple(estimator.shape_)
    check_tensor(estimator)
    return estimator


register_model("TableImputer", write_table, read_table)
register_model("TensorImputer", write_tensor, read_tensor)
