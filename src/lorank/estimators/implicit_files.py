"""A fitted ImplicitFactorization as numbers and arrays, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from ..factor_models.implicit_choice import ImplicitCandidate
from .implicit import ImplicitFactorization

NAMES = ("user_ids", "item_ids", "user_factors", "item_factors")


def to_archive(estimator: ImplicitFactorization) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a model file holds beside the parameters."""
    arrays = {name: getattr(estimator, f"{name}_") for name in NAMES}
    arrays |= {"seen.indptr": estimator._seen[0], "seen.indices": estimator._seen[1], "seen.counts": estimator._counts}
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
    indptr, indices, counts = (arrays[f"seen.{name}"] for name in ("indptr", "indices", "counts"))
    users, items = arrays["user_factors"], arrays["item_factors"]
    right = (
        users.ndim == items.ndim == 2 and users.shape[1] == items.shape[1] and indptr.ndim == indices.ndim == counts.ndim == 1
    )
    if not right or len(users) != len(arrays["user_ids"]) or len(items) != len(arrays["item_ids"]):
        raise ValueError("its arrays do not fit together")
    inside = not len(indices) or (indices.min() >= 0 and indices.max() < len(items))
    rising = len(indptr) == len(users) + 1 and indptr[0] == 0 and indptr[-1] == len(indices) and (np.diff(indptr) >= 0).all()
    if not inside or not rising or len(counts) != len(indices):
        raise ValueError("its pattern is damaged")
    estimator._seen, estimator._counts = (indptr, indices), counts
    estimator.zeros_, estimator.regularization_ = float(meta["zeros"]), float(meta["regularization"])
    estimator.n_iter_, estimator.status_ = int(meta["n_iter"]), str(meta["status"])
    estimator.curve_ = [ImplicitCandidate(**c) for c in meta["curve"]]
    return estimator
