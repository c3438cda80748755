"""Parts of model files that estimators with a factor model share."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np

from ..io.archive import plain
from ..loop.result import History
from ..losses import Loss
from .model import FactorModel
from .selection import Candidate

SCALARS = ("mean", "biases", "noise", "nonnegative")


def write_fit(estimator: Any, parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Parameters, factor model, history and curve of a fitted estimator as JSON and arrays."""
    model: FactorModel | None = estimator.model_
    arrays: dict[str, np.ndarray] = {}
    meta = {
        "parameters": plain(parameters),
        "n_iter": estimator.n_iter_,
        "regularization": estimator.regularization_,
        "curve": [asdict(c) for c in estimator.curve_],
        "features": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
    }
    if model is not None:
        for name, value in model.arrays().items():
            if name in SCALARS:
                meta[f"model.{name}"] = value
            else:
                arrays[f"model.{name}"] = value
    arrays.update({f"history.{name}": value for name, value in estimator.history_.to_dict().items()})
    return meta, arrays


def read_fit(estimator: Any, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> FactorModel | None:
    """Set what :func:`write_fit` wrote on an estimator, and return its factor model."""
    model = None
    if "model.rows" in arrays:
        given: dict[str, Any] = {f.name: arrays[f"model.{f.name}"] for f in fields(FactorModel) if f"model.{f.name}" in arrays}
        model = FactorModel(**given, **{name: meta[f"model.{name}"] for name in SCALARS if f"model.{name}" in meta})
        _check(model)
    estimator.history_ = history = History()
    for row in zip(*(arrays[f"history.{name}"].tolist() for name in History.columns), strict=True):
        history.append(*row)
    strength = meta["regularization"]
    estimator.n_iter_, estimator.regularization_ = int(meta["n_iter"]), strength if strength == "learned" else float(strength)
    estimator.curve_ = [Candidate(**c) for c in meta["curve"]]
    if meta["features"]:
        estimator.feature_names_in_ = np.array(meta["features"], object)
    return model


def without_objects(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters with a loss replaced by its name and numbers."""
    return {name: a.parameters() if isinstance(a, Loss) else a for name, a in parameters.items()}


def read_parameters(meta: dict[str, Any]) -> dict[str, Any]:
    """Parameters as an estimator takes them."""
    from ..losses import loss_from

    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in meta["parameters"].items()}
    if isinstance(parameters.get("loss"), dict):
        parameters["loss"] = loss_from(dict(parameters["loss"]))
    return parameters


def _check(model: FactorModel) -> None:
    k = model.rows.shape[1]
    right = model.rows.ndim == model.cols.ndim == 2 and model.cols.shape[1] == k and model.row_precision.shape == (k, k)
    counts = len(model.row_counts) == len(model.rows) and len(model.col_counts) == len(model.cols)
    if not right or not counts or model.col_precision.shape != (k, k):
        raise ValueError("its arrays are inconsistent")
    for name, value in model.arrays().items():
        if not np.isfinite(np.asarray(value, np.float64)).all():
            raise ValueError(f"{name} is not finite")
