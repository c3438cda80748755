"""Fitted imputers to and from model files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..factorization.persistence import read_fit, read_parameters, write_fit
from ..io.archive import plain, register_model
from .imputer import TableImputer
from .low_rank import LowRankImputer
from .packing import pack, unpack
from .series_model import SeriesModel

TABLE = (
    "means_",
    "scales_",
    "low_",
    "high_",
    "floor_",
    "ceiling_",
    "period_",
    "columns_",
    "model_",
)  # all that a fitted TableImputer has


def write_table(estimator: TableImputer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fitted TableImputer as JSON and arrays."""
    arrays: dict[str, np.ndarray] = {}
    meta = {
        "parameters": plain(estimator.get_params(deep=False)),
        "features": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        "n_features": estimator.n_features_in_,
        "fitted": {name: pack(getattr(estimator, name), arrays, name) for name in TABLE},
    }
    return meta, arrays


def read_table(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> TableImputer:
    """A fitted TableImputer from JSON and arrays."""
    estimator = TableImputer(**meta["parameters"])
    for name in TABLE:
        setattr(estimator, name, unpack(meta["fitted"][name], arrays))
    model = estimator.model_
    if isinstance(model, SeriesModel) and model.weights.shape[-1] in (4, 6):  # files of before factors were smoothed along time
        estimator.model_ = replace(model, weights=np.insert(model.weights, 4, 0.0, axis=-1))
    estimator.n_features_in_ = meta["n_features"]
    if meta["features"]:
        estimator.feature_names_in_ = np.array(meta["features"], object)
    return estimator


def write_low_rank(estimator: LowRankImputer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fitted LowRankImputer as JSON and arrays."""
    meta, arrays = write_fit(estimator, estimator.get_params(deep=False))
    return meta, arrays | {"means": estimator.means_, "scales": estimator.scales_}


def read_low_rank(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> LowRankImputer:
    """A fitted LowRankImputer from JSON and arrays."""
    estimator = LowRankImputer(**read_parameters(meta))
    model = read_fit(estimator, meta, arrays)
    estimator.means_, estimator.scales_ = arrays["means"], arrays["scales"]
    estimator.n_features_in_ = len(estimator.means_)
    estimator._keep(model)
    return estimator


register_model("TableImputer", write_table, read_table)
register_model("LowRankImputer", write_low_rank, read_low_rank)
