"""Estimators to and from model files."""

from __future__ import annotations

import os
from dataclasses import asdict, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from ..datafits import Loss, loss_from
from ..diagnosis import Diagnosis
from ..factor_models import Candidate, FactorModel
from ..factor_models.memory import Memory
from ..factor_models.taste import Taste
from ..files import FileError, read_archive, write_archive
from ..imputation import SeriesModel, pack, unpack
from ..parameter_checks import PATH, check
from ..result import History, Status
from .completion import MatrixCompletion
from .decay import Decay, check_half_life
from .features import Encoder, SideTable
from .implicit import ImplicitFactorization
from .implicit_files import fill, to_archive
from .imputer import LowRankImputer
from .partitioned import KEPT
from .recommending import tasted
from .table_imputer import TableImputer

CLASSES: dict[str, type] = {
    one.__name__: one for one in (MatrixCompletion, LowRankImputer, ImplicitFactorization, TableImputer)
}
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
TASTE = ("rows", "cols", "popularity")
SCALARS = ("mean", "offsets", "noise", "nonnegative")


def save_estimator(estimator: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted estimator."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    if isinstance(estimator, TableImputer):
        return _save_table(estimator, path)
    if isinstance(estimator, ImplicitFactorization):
        meta, arrays = to_archive(estimator)
        head = {"class": type(estimator).__name__, "parameters": _plain(_without_objects(estimator.get_params(deep=False)))}
        return write_archive(path, "model", head | meta, arrays)
    model: FactorModel | None = estimator.model_
    arrays = {}
    meta = {
        "class": type(estimator).__name__,
        "parameters": _plain(_without_objects(estimator.get_params(deep=False))),
        "n_iter": estimator.n_iter_,
        "regularization": estimator.regularization_,
        "curve": [asdict(c) for c in estimator.curve_],
        "labels": _plain(getattr(estimator, "labels_", None)),
        "features": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
    }
    if model is not None:
        for name, value in model.arrays().items():
            if name in SCALARS:
                meta[f"model.{name}"] = value
            else:
                arrays[f"model.{name}"] = value
    history = estimator.history_
    arrays.update({f"history.{name}": value for name, value in history.to_dict().items()})
    if isinstance(estimator, MatrixCompletion):
        if estimator._memory is not None:
            arrays |= {f"seen.{name}": a for name, a in estimator._memory.arrays().items()}
        if estimator._taste is not None:
            taste = tasted(estimator)
            arrays |= {f"taste.{name}": getattr(taste, name) for name in TASTE}
            meta["taste"] = {f.name: getattr(taste, f.name) for f in fields(Taste) if f.name not in TASTE}
        arrays["calibration"] = estimator.calibration_
        if (outliers := getattr(estimator, "outliers_", None)) is not None:
            arrays["outliers"] = outliers
        if estimator._decay is not None:
            meta["decay"] = _plain(estimator._decay.plain())
        meta["half_lives"] = _plain(getattr(estimator, "half_lives_", []))
        meta["loss"] = None if estimator.loss_ is None else _plain(estimator.loss_.parameters())
        meta["negative_labels"] = estimator._two
        meta["calibration_size"] = int(getattr(estimator, "calibration_size_", 0))
        meta["diagnosis"] = {f.name: getattr(estimator.diagnosis_, f.name) for f in fields(Diagnosis)}
        meta["status"] = {
            "name": str(estimator.status_),
            "advice": estimator.status_.advice,
            "success": estimator.status_.success,
        }
        meta["sides"] = {side: table.encoder.columns for side, table in estimator._sides.items()}
        for side, table in estimator._sides.items():
            arrays |= {f"side.{side}.{name}": getattr(table.numbers, name) for name in ("data", "indices", "indptr")}
        for side, names in (estimator.ids_ or {}).items():
            arrays[f"ids.{side}"] = names
    else:
        arrays["means"], arrays["scales"] = estimator.means_, estimator.scales_
    return write_archive(path, "model", meta, arrays)


def _save_table(estimator: TableImputer, path: str | os.PathLike[str]) -> Path:
    arrays: dict[str, np.ndarray] = {}
    meta = {
        "class": "TableImputer",
        "parameters": _plain(estimator.get_params(deep=False)),
        "features": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        "n_features": estimator.n_features_in_,
        "fitted": {name: pack(getattr(estimator, name), arrays, name) for name in TABLE},
    }
    return write_archive(path, "model", meta, arrays)


def _load_table(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> TableImputer:
    estimator = TableImputer(**meta["parameters"])
    for name in TABLE:
        setattr(estimator, name, unpack(meta["fitted"][name], arrays))
    model = estimator.model_
    if isinstance(model, SeriesModel) and model.weights.shape[-1] in (4, 6):  # of before factors were smoothed along time
        estimator.model_ = replace(model, weights=np.insert(model.weights, 4, 0.0, axis=-1))
    estimator.n_features_in_ = meta["n_features"]
    if meta["features"]:
        estimator.feature_names_in_ = np.array(meta["features"], object)
    return estimator


def load_estimator(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator.

    Parameters
    ----------
    path : path
        That :meth:`MatrixCompletion.save`, :meth:`ImplicitFactorization.save`, :meth:`TableImputer.save` or
        :meth:`LowRankImputer.save` wrote.

    Returns
    -------
    MatrixCompletion, ImplicitFactorization, TableImputer or LowRankImputer

    Raises
    ------
    FileError
        A ValueError, where the file is not there, is cut off or changed, or is no model.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import lorank as lr
    >>> pairs, values = [[0, 0], [0, 1], [1, 0], [1, 1]], [1.0, 2.0, 2.0, 3.0]
    >>> model = lr.MatrixCompletion(rank=0, regularization=1.0).fit(pairs, values)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = model.save(pathlib.Path(folder) / "model.lorank")
    ...     again = lr.load(path)
    >>> bool((again.predict(pairs) == model.predict(pairs)).all())
    True
    """
    check("path", path, PATH)
    _, meta, arrays = read_archive(path, "model")
    try:
        return _build(meta, arrays)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FileError(
            f"{path} is not complete, or from another version of lorank: {error!r}; fit and save again, "
            "or read it with the version that wrote it"
        ) from None


def _build(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    if meta["class"] == "TableImputer":
        return _load_table(meta, arrays)
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in meta["parameters"].items()}
    if isinstance(parameters.get("loss"), dict):
        parameters["loss"] = loss_from(dict(parameters["loss"]))
    estimator = CLASSES[meta["class"]](**parameters)
    if isinstance(estimator, ImplicitFactorization):
        return fill(estimator, meta, arrays)
    model = None
    if "model.rows" in arrays:
        given: dict[str, Any] = {f.name: arrays[f"model.{f.name}"] for f in fields(FactorModel) if f"model.{f.name}" in arrays}
        model = FactorModel(**given, **{name: meta[f"model.{name}"] for name in SCALARS if f"model.{name}" in meta})
        _check(model)
    estimator.history_ = history = History()
    for row in zip(*(arrays[f"history.{name}"].tolist() for name in History.columns), strict=True):
        history.append(*row)
    estimator.n_iter_, estimator.regularization_ = meta["n_iter"], meta["regularization"]
    estimator.curve_ = [Candidate(**c) for c in meta["curve"]]
    if meta["features"]:
        estimator.feature_names_in_ = np.array(meta["features"], object)
    if isinstance(estimator, MatrixCompletion):
        if model is None:
            raise KeyError("model.rows")
        estimator.n_features_in_ = 2
        estimator._sides = {}
        for side, columns in meta.get("sides", {}).items():
            encoder = Encoder(columns)
            parts = tuple(arrays[f"side.{side}.{name}"] for name in ("data", "indices", "indptr"))
            numbers = scipy.sparse.csr_array(parts, (model.shape[side == "col"], encoder.width))
            estimator._sides |= {side: SideTable(encoder, numbers)}
        estimator._memory = None
        if "seen.indptr" in arrays or model.row_counts.sum() <= KEPT:  # others were fitted to partitions
            estimator._memory = Memory.from_arrays({k[5:]: a for k, a in arrays.items() if k.startswith("seen.")})
        if "taste.rows" in arrays:
            rows, cols, popularity = (arrays[f"taste.{name}"] for name in TASTE)
            taste = Taste(rows, cols, popularity, **meta.get("taste", {}))  # older files have no settings
            estimator._taste = _checked_taste(taste, model)
        estimator.calibration_, estimator.calibration_size_ = arrays["calibration"], meta["calibration_size"]
        found = meta["diagnosis"]
        estimator.diagnosis_ = Diagnosis(**{**found, "shape": tuple(found["shape"])})
        status = meta["status"]
        estimator.status_ = Status(status["name"], advice=status["advice"], success=status["success"])
        estimator.heldout_, estimator.outliers_ = None, arrays.get("outliers")
        estimator._decay = Decay(**meta["decay"]) if "decay" in meta else None
        estimator.half_lives_ = [tuple(one) for one in meta.get("half_lives", [])]
        estimator.loss_, estimator._two = loss_from(meta.get("loss")), meta.get("negative_labels", False)
        estimator._set_classes()
        estimator._set_model(model)
        ids = {side: arrays[f"ids.{side}"] for side in ("rows", "cols") if f"ids.{side}" in arrays}
        if ids:
            estimator.ids_ = ids
    else:
        estimator.means_, estimator.scales_ = arrays["means"], arrays["scales"]
        estimator.n_features_in_ = len(estimator.means_)
        estimator._keep(model)
    if meta["labels"] is not None:
        estimator.labels_ = meta["labels"]
    return estimator


def _check(model: FactorModel) -> None:
    k = model.rows.shape[1]
    right = model.rows.ndim == model.cols.ndim == 2 and model.cols.shape[1] == k and model.row_precision.shape == (k, k)
    counts = len(model.row_counts) == len(model.rows) and len(model.col_counts) == len(model.cols)
    if not right or not counts or model.col_precision.shape != (k, k):
        raise ValueError("its arrays do not fit together")


def _without_objects(parameters: dict[str, Any]) -> dict[str, Any]:
    """A loss by its name and numbers, and a duration in seconds."""
    found = {name: a.parameters() if isinstance(a, Loss) else a for name, a in parameters.items()}
    span = found.get("half_life")
    return found | {"half_life": f"{check_half_life(span):f}s"} if isinstance(span, (timedelta, np.timedelta64)) else found


def _checked_taste(taste: Taste, model: FactorModel) -> Taste:
    sides = taste.rows.ndim == taste.cols.ndim == 2 and (len(taste.rows), len(taste.cols)) == model.shape
    if not sides or taste.rows.shape[1] != taste.cols.shape[1] or taste.popularity.shape != (len(taste.cols),):
        raise ValueError("the arrays of its taste do not fit together")
    return taste


def _plain(value: Any) -> Any:
    """As JSON takes it."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"a model file holds numbers and text, not {value!r}: set that parameter to a number")
