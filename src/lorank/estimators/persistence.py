"""Model files of MatrixCompletion, ImplicitFactorization and EASE."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from ..evaluation.diagnosis import Diagnosis
from ..factorization import Candidate, FactorModel
from ..factorization.implicit import ImplicitSettings
from ..factorization.implicit_selection import ImplicitCandidate
from ..factorization.item_model import ItemModel
from ..factorization.order_selection import ItemSettings, OrderCandidate
from ..factorization.ranking_model import RankingModel
from ..factorization.training_data import TrainingData
from ..io.archive import plain, register_model
from ..loop.result import History, Status
from ..losses import Loss, loss_from
from ..starts import Spectrum
from .ease import EASE
from .features import Encoder, SideTable
from .implicit_factorization import ImplicitFactorization
from .implicit_state import ImplicitState, Pattern
from .matrix_completion import MatrixCompletion
from .ratings_state import RatingsState

RANKING_ARRAYS = ("rows", "cols", "popularity")
SPARSE = ("data", "indices", "indptr")
MODEL_SCALARS = ("model.mean", "model.biases", "model.noise", "model.nonnegative")
STATE_SCALARS = ("calibration_size", "count_scaling", "negative_labels")
IMPLICIT_ARRAYS = ("user_ids", "item_ids", "user_counts", "item_counts")


def write_ratings(estimator: MatrixCompletion) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fitted MatrixCompletion as JSON and arrays."""
    state, status, spectrum = estimator.state_, estimator.status_, estimator.spectrum_
    model = {f"model.{name}": value for name, value in state.model.arrays().items()}
    scalars = {name: model.pop(name) for name in MODEL_SCALARS if name in model}
    history = {f"history.{name}": value for name, value in estimator.history_.to_dict().items()}
    arrays = model | history | {"calibration": state.calibration}
    meta: dict[str, Any] = {
        "parameters": write_parameters(estimator),
        "n_iter": estimator.n_iter_,
        "regularization": estimator.regularization_,
        "curve": [asdict(c) for c in estimator.curve_],
        "features": None,
    } | scalars
    meta["state"] = plain({name: getattr(state, name) for name in STATE_SCALARS} | {"labels": state.labels})
    meta["state"]["bounds"] = None if state.bounds is None else [float(bound) for bound in state.bounds]
    meta["state"]["loss"] = None if state.loss is None else plain(state.loss.parameters())
    meta["diagnosis"] = {f.name: getattr(estimator.diagnosis_, f.name) for f in fields(Diagnosis) if f.compare}
    meta["status"] = {"name": str(status), "advice": status.advice, "success": status.success}
    meta["spectrum"] = None if spectrum is None else asdict(spectrum) | {"values": spectrum.values.tolist()}
    if estimator.outliers_ is not None:
        arrays["outliers"] = estimator.outliers_
    if state.training is not None:
        arrays |= {f"training.{name}": a for name, a in state.training.arrays().items()}
    if state.ranking is not None:
        arrays |= {f"ranking.{name}": getattr(state.ranking, name) for name in RANKING_ARRAYS}
        settings = state.ranking.settings
        meta["ranking"] = {"zeros": settings.zeros, "regularization": settings.regularization}
        meta["ranking"] |= {"disliked": state.ranking.disliked} | _write_order(state.ranking, arrays)
    meta["encoders"] = {side: table.encoder.columns for side, table in state.features.items()}
    for side, table in state.features.items():
        arrays |= {f"features.{side}.{name}": getattr(table.numbers, name) for name in SPARSE}
    return meta, arrays | {f"ids.{side}": ids for side, ids in (state.ids or {}).items()}


def read_ratings(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> MatrixCompletion:
    """A fitted MatrixCompletion from JSON and arrays; a KeyError or ValueError where they are incomplete or inconsistent."""
    estimator = MatrixCompletion(**read_parameters(meta))
    scalars = {name.removeprefix("model."): meta[name] for name in MODEL_SCALARS if name in meta}
    model = _check_model(FactorModel(**_under("model.", arrays), **scalars))
    stored, training = dict(meta["state"]), _under("training.", arrays)
    features = {}
    for side, columns in meta["encoders"].items():
        encoder = Encoder(columns)
        parts = tuple(arrays[f"features.{side}.{name}"] for name in SPARSE)
        features[side] = SideTable(encoder, scipy.sparse.csr_array(parts, (model.shape[side == "col"], encoder.width)))
    bounds = stored.pop("bounds")
    estimator.state_ = RatingsState(
        model,
        loss=loss_from(stored.pop("loss")),
        bounds=None if bounds is None else (float(bounds[0]), float(bounds[1])),
        ids=_under("ids.", arrays) or None,
        training=TrainingData.from_arrays(training) if training else None,
        features=features,
        ranking=_read_ranking(meta["ranking"], arrays, model) if "ranking" in meta else None,
        calibration=arrays["calibration"].astype(np.float64, casting="safe"),
        calibration_size=int(stored.pop("calibration_size")),
        count_scaling=float(stored.pop("count_scaling")),
        **stored,
    )
    estimator.n_features_in_, estimator.n_iter_ = 2, int(meta["n_iter"])
    estimator.history_ = History()
    for row in zip(*(arrays[f"history.{name}"].tolist() for name in History.columns), strict=True):
        estimator.history_.append(*row)
    regularization = meta["regularization"]
    estimator.regularization_ = regularization if regularization == "learned" else float(regularization)
    estimator.curve_ = [Candidate(**c) for c in meta["curve"]]
    estimator.diagnosis_ = Diagnosis(**{**meta["diagnosis"], "shape": tuple(meta["diagnosis"]["shape"])})
    str(estimator.diagnosis_)  # raises an error if something else stands for a number
    status, spectrum = meta["status"], meta["spectrum"]
    estimator.status_ = Status(status["name"], advice=status["advice"], success=status["success"])
    estimator.spectrum_ = spectrum and Spectrum(np.array(spectrum["values"]), spectrum["edge"], spectrum["fitted"])
    estimator.heldout_, estimator.outliers_ = None, arrays.get("outliers")
    return estimator


def write_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Parameters for JSON, a loss as its name and numbers."""
    return plain({name: a.parameters() if isinstance(a, Loss) else a for name, a in estimator.get_params(deep=False).items()})


def read_parameters(meta: dict[str, Any]) -> dict[str, Any]:
    """Parameters as an estimator takes them."""
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in meta["parameters"].items()}
    if isinstance(parameters.get("loss"), dict):
        parameters["loss"] = loss_from(dict(parameters["loss"]))
    return parameters


def _under(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The arrays whose names have this prefix, without it."""
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def _check_model(model: FactorModel) -> FactorModel:
    """The model; a ValueError where its arrays are inconsistent."""
    k = model.rows.shape[1]
    right = model.rows.ndim == model.cols.ndim == 2 and model.cols.shape[1] == k and model.row_precision.shape == (k, k)
    counts = len(model.row_counts) == len(model.rows) and len(model.col_counts) == len(model.cols)
    if not right or not counts or model.col_precision.shape != (k, k):
        raise ValueError("its arrays are inconsistent")
    for name, value in model.arrays().items():
        if not np.isfinite(np.asarray(value, np.float64)).all():
            raise ValueError(f"{name} is not finite")
    return model


def _read_ranking(meta: dict[str, Any], arrays: dict[str, np.ndarray], model: FactorModel) -> RankingModel:
    rows, cols, popularity = (arrays[f"ranking.{name}"] for name in RANKING_ARRAYS)
    settings = ImplicitSettings(cols.shape[-1], meta["zeros"], meta["regularization"])
    ranking = RankingModel(rows, cols, popularity, settings, meta["disliked"], **_read_order(meta, arrays, len(cols)))
    sides = ranking.rows.ndim == ranking.cols.ndim == 2 and (len(ranking.rows), len(ranking.cols)) == model.shape
    if not sides or ranking.rows.shape[1] != ranking.cols.shape[1] or ranking.popularity.shape != (len(ranking.cols),):
        raise ValueError("the arrays of its ranking model are inconsistent")
    return ranking


def _write_order(ranking: RankingModel, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The order of recommendations as JSON; its item-to-item model is added to the arrays."""
    if ranking.items is not None:
        arrays |= {f"items.{name}": a for name, a in ranking.items.arrays().items()}
    return {
        "order": ranking.order,
        "candidates": [asdict(one) for one in ranking.candidates],
        "item_settings": None if ranking.item_settings is None else asdict(ranking.item_settings),
    }


def _read_order(meta: dict[str, Any], arrays: dict[str, np.ndarray], n_items: int) -> dict[str, Any]:
    """The order of recommendations as fields of a ranking model; by affinity in files without orders."""
    if "order" not in meta:
        return {}
    settings = meta["item_settings"]
    items = _under("items.", arrays)
    return {
        "order": str(meta["order"]),
        "candidates": tuple(OrderCandidate(**one) for one in meta["candidates"]),
        "item_settings": None if settings is None else ItemSettings(**settings),
        "items": ItemModel.from_arrays(items, n_items) if items else None,
    }


def write_implicit(estimator: ImplicitFactorization | EASE) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fitted estimator of implicit feedback as JSON and arrays."""
    state = estimator.state_
    factors = {"user_factors": state.ranking.rows, "item_factors": state.ranking.cols}
    arrays = factors | {name: getattr(state, name) for name in IMPLICIT_ARRAYS}
    if state.training is not None:
        arrays |= {f"training.{name}": a for name, a in state.training._asdict().items() if a is not None}
    meta: dict[str, Any] = {
        "parameters": write_parameters(estimator),
        "settings": asdict(state.ranking.settings),
        "confidence": state.confidence,
        "ranking": _write_order(state.ranking, arrays),
    }
    if isinstance(estimator, ImplicitFactorization):
        curve = [asdict(c) for c in estimator.curve_]
        meta |= {"n_iter": estimator.n_iter_, "status": estimator.status_, "curve": curve}
    return meta, arrays


def read_implicit(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> ImplicitFactorization:
    """A fitted ImplicitFactorization from JSON and arrays; a KeyError or ValueError as in :func:`read_ratings`."""
    estimator = ImplicitFactorization(**read_parameters(meta))
    estimator.state_ = _read_implicit_state(meta, arrays)
    estimator.n_iter_, estimator.status_ = int(meta["n_iter"]), str(meta["status"])
    estimator.curve_ = [ImplicitCandidate(**c) for c in meta["curve"]]
    return estimator


def read_ease(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> EASE:
    """A fitted EASE from JSON and arrays; a KeyError or ValueError as in :func:`read_ratings`."""
    estimator = EASE(**read_parameters(meta))
    estimator.state_ = _read_implicit_state(meta, arrays)
    return estimator


def _read_implicit_state(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> ImplicitState:
    parts = {name: arrays[name] for name in IMPLICIT_ARRAYS}
    users, items = arrays["user_factors"], arrays["item_factors"]
    alike = users.ndim == items.ndim == 2 and users.shape[1] == items.shape[1]
    lengths = {"user": len(users), "item": len(items)}
    if not alike or any(parts[f"{side}_{what}"].shape != (n,) for side, n in lengths.items() for what in ("ids", "counts")):
        raise ValueError("its arrays are inconsistent")
    training = None
    if "training.indptr" in arrays:
        stored = {name: arrays[f"training.{name}"] for name in ("indptr", "indices", "counts")}
        training = _check_pattern(Pattern(**stored, weights=arrays.get("training.weights")), len(users), len(items))
    popularity = parts["item_counts"].astype(float)
    order = _read_order(meta.get("ranking", {}), arrays, len(items))
    ranking = RankingModel(users, items, popularity, ImplicitSettings(**meta["settings"]), **order)
    return ImplicitState(ranking=ranking, confidence=str(meta["confidence"]), training=training, **parts)


def _check_pattern(pattern: Pattern, users: int, items: int) -> Pattern:
    """The pattern; a ValueError where it is damaged."""
    indptr, indices, counts, weights = pattern
    flat = indptr.ndim == indices.ndim == counts.ndim == 1 and len(indptr) == users + 1
    if not flat or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError("its pattern is damaged")
    if len(indices) and (indices.min() < 0 or indices.max() >= items):
        raise ValueError("its pattern is damaged")
    if any(a is not None and a.shape != indices.shape for a in (counts, weights)):
        raise ValueError("its pattern and counts are inconsistent")
    return pattern


register_model("MatrixCompletion", write_ratings, read_ratings)
register_model("ImplicitFactorization", write_implicit, read_implicit)
register_model("EASE", write_implicit, read_ease)
