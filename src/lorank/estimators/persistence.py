"""Fitted estimators of ratings and implicit feedback to and from model files."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse

from ..evaluation.diagnosis import Diagnosis
from ..factorization import FactorModel
from ..factorization.persistence import read_fit, read_parameters, without_objects, write_fit
from ..factorization.ranking_model import RankingModel
from ..factorization.training_data import TrainingData
from ..io.archive import plain, register_model
from ..loop.result import Status
from ..losses import loss_from
from .features import Encoder, SideTable
from .implicit_factorization import ImplicitFactorization
from .implicit_files import fill, to_archive
from .matrix_completion import MatrixCompletion
from .partitioned import KEPT
from .recommending import tasted

TASTE = ("rows", "cols", "popularity")


def write_completion(estimator: MatrixCompletion) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fitted MatrixCompletion as JSON and arrays."""
    meta, arrays = write_fit(estimator, without_objects(estimator.get_params(deep=False)))
    if estimator._memory is not None:
        arrays |= {f"seen.{name}": a for name, a in estimator._memory.arrays().items()}
    if estimator._taste is not None:
        taste = tasted(estimator)
        arrays |= {f"taste.{name}": getattr(taste, name) for name in TASTE}
        meta["taste"] = {f.name: getattr(taste, f.name) for f in fields(RankingModel) if f.name not in TASTE}
    arrays["calibration"] = estimator.calibration_
    if (outliers := getattr(estimator, "outliers_", None)) is not None:
        arrays["outliers"] = outliers
    meta["loss"] = None if estimator.loss_ is None else plain(estimator.loss_.parameters())
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
    return meta, arrays


def read_completion(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> MatrixCompletion:
    """A fitted MatrixCompletion from JSON and arrays."""
    estimator = MatrixCompletion(**read_parameters(meta))
    model = read_fit(estimator, meta, arrays)
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
        estimator._memory = TrainingData.from_arrays({k[5:]: a for k, a in arrays.items() if k.startswith("seen.")})
    if "taste.rows" in arrays:
        rows, cols, popularity = (arrays[f"taste.{name}"] for name in TASTE)
        taste = RankingModel(rows, cols, popularity, **meta.get("taste", {}))  # older files have no settings
        estimator._taste = _checked_taste(taste, model)
    estimator.calibration_, estimator.calibration_size_ = arrays["calibration"], meta["calibration_size"]
    found = meta["diagnosis"]
    estimator.diagnosis_ = Diagnosis(**{**found, "shape": tuple(found["shape"])})
    status = meta["status"]
    estimator.status_ = Status(status["name"], advice=status["advice"], success=status["success"])
    estimator.heldout_, estimator.outliers_ = None, arrays.get("outliers")
    estimator.loss_, estimator._two = loss_from(meta.get("loss")), meta.get("negative_labels", False)
    estimator._set_classes()
    estimator._set_model(model)
    ids = {side: arrays[f"ids.{side}"] for side in ("rows", "cols") if f"ids.{side}" in arrays}
    if ids:
        estimator.ids_ = ids
    return estimator


def write_implicit(estimator: ImplicitFactorization) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fitted ImplicitFactorization as JSON and arrays."""
    meta, arrays = to_archive(estimator)
    return {"parameters": plain(without_objects(estimator.get_params(deep=False)))} | meta, arrays


def read_implicit(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> ImplicitFactorization:
    """A fitted ImplicitFactorization from JSON and arrays."""
    return fill(ImplicitFactorization(**read_parameters(meta)), meta, arrays)


def _checked_taste(taste: RankingModel, model: FactorModel) -> RankingModel:
    sides = taste.rows.ndim == taste.cols.ndim == 2 and (len(taste.rows), len(taste.cols)) == model.shape
    if not sides or taste.rows.shape[1] != taste.cols.shape[1] or taste.popularity.shape != (len(taste.cols),):
        raise ValueError("the arrays of its taste do not fit together")
    return taste


register_model("MatrixCompletion", write_completion, read_completion)
register_model("ImplicitFactorization", write_implicit, read_implicit)
