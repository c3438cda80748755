"""A fitted ImplicitFactorization as numbers and arrays, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from ..factorization.implicit_selection import ImplicitCandidate
from .implicit_factorization import ImplicitFactorization

NAMES = ("user_ids", "item_ids", "user_factors", "item_factors")


def to_archive(estimator: ImplicitFactorization) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a model file holds beside the parameters."""
    arrays = {name: getattr(estimator, f"{name}_") for name in NAMES}
    if estimator._seen is None:  # fitted to more pairs than a model remembers
        arrays |= {"totals.users": estimator._totals[0], "totals.items": estimator._totals[1]}
    else:
        arrays |= {"seen.indptr": estimator._seen[0], "seen.indices": estimator._seen[1], "seen.counts": estimator._counts}
        arrays |= {} if estimator._factors is None else {"seen.weights": estimator._factors}
    meta = {
        "zeros": estimator.zeros_,
        "regularization": estimator.regularization_,
        "n_iter": estimator.n_iter_,
        "status": estimator.status_,
        "curve": [asdict(c) for c in estimator.curve_],
    }
    return meta, arrays


def fill(estimator: ImplicitFactorization, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> ImplicitFactorization:
    """The estimator with what was fitted; a ValueError or KeyError where something is missing or does not fit together."""
    for name in NAMES:
        setattr(estimator, f"{name}_", arrays[name])
    users, items = arrays["user_factors"], arrays["item_factors"]
    right = users.ndim == items.ndim == 2 and users.shape[1] == items.shape[1]
    if not right or len(users) != len(arrays["user_ids"]) or len(items) != len(arrays["item_ids"]):
        raise ValueError("its arrays do not fit together")
    if "totals.users" in arrays:
        _fill_totals(estimator, arrays["totals.users"], arrays["totals.items"])
    else:
        parts = [arrays[f"seen.{name}"] for name in ("indptr", "indices", "counts")]
        _fill_pattern(estimator, parts[0], parts[1], parts[2], arrays.get("seen.weights"))
    estimator.zeros_, estimator.regularization_ = float(meta["zeros"]), float(meta["regularization"])
    estimator.n_iter_, estimator.status_ = int(meta["n_iter"]), str(meta["status"])
    estimator.curve_ = [ImplicitCandidate(**c) for c in meta["curve"]]
    return estimator


def _fill_pattern(
    estimator: ImplicitFactorization,
    indptr: np.ndarray,
    indices: np.ndarray,
    counts: np.ndarray,
    weights: np.ndarray | None = None,
) -> None:
    if not indptr.ndim == indices.ndim == counts.ndim == 1:
        raise ValueError("its arrays do not fit together")
    inside = not len(indices) or (indices.min() >= 0 and indices.max() < len(estimator.item_factors_))
    whole = len(indptr) == len(estimator.user_factors_) + 1 and indptr[0] == 0 and indptr[-1] == len(indices)
    if not inside or not whole or not (np.diff(indptr) >= 0).all() or len(counts) != len(indices):
        raise ValueError("its pattern is damaged")
    if weights is not None and weights.shape != counts.shape:
        raise ValueError("its weights do not fit its pattern")
    estimator._remember(indptr, indices, counts, weights)


def _fill_totals(estimator: ImplicitFactorization, users: np.ndarray, items: np.ndarray) -> None:
    if users.shape != (len(estimator.user_factors_),) or items.shape != (len(estimator.item_factors_),):
        raise ValueError("its arrays do not fit together")
    estimator._forget(users, items)
