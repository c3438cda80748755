"""Who took what, from pairs, sparse matrices and data frames, with the users' own ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.checks import ParameterError, counted, shown
from .entries import read_weights
from .frames import pair_columns, without_named
from .ids import numbered, united_ids
from .inputs import check_weights


@dataclass(frozen=True)
class Interactions:
    """``counts[k]`` of user ``user_ids[users[k]]`` and item ``item_ids[items[k]]``, each pair once, user by user.

    Attributes
    ----------
    users, items : (m,) int64 arrays
    counts : (m,) array
        Positive.
    user_ids, item_ids : arrays
        In rising order.
    weights : (m,) array or None
        Positive: factors on how much each pair counts.
    """

    users: np.ndarray
    items: np.ndarray
    counts: np.ndarray
    user_ids: np.ndarray
    item_ids: np.ndarray
    weights: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.user_ids), len(self.item_ids)


def read_interactions(
    X: Any, counts: Any = None, names: Sequence[Any] = (None, None, None), weights: Any = None
) -> Interactions:
    """From a sparse matrix (users by items), an (m, 2) array of ids, or a data frame: its columns by name or in order."""
    if hasattr(X, "tocoo"):
        if counts is not None:
            raise ValueError("a sparse matrix comes with its own counts: leave y out")
        if len(X.shape) != 2:
            raise ParameterError("X", f"is a sparse array of shape {X.shape}: users by items has two dimensions")
        coo = X.tocoo()
        users, items, counts = coo.row.astype(np.int64), coo.col.astype(np.int64), coo.data
        ids = np.arange(X.shape[0]), np.arange(X.shape[1])
    else:
        first, second, counts = pair_columns(without_named(X, (weights,), names), counts, names)
        (user_ids, users), (item_ids, items) = numbered(first, "user"), numbered(second, "item")
        ids = user_ids, item_ids
    factors = check_weights(read_weights(weights, X), len(users))
    return merged(users, items, _counts(counts, len(users)), *ids, factors)


def merged(
    users: np.ndarray,
    items: np.ndarray,
    counts: np.ndarray,
    user_ids: np.ndarray,
    item_ids: np.ndarray,
    weights: np.ndarray | None = None,
) -> Interactions:
    """Each pair once, its counts added up and its weight their mean; pairs of count or weight 0 are none."""
    width = max(len(item_ids), 1)
    there = counts > 0 if weights is None else (counts > 0) & (weights > 0)
    keys, place = np.unique(users[there] * width + items[there], return_inverse=True)
    total = np.bincount(place.ravel(), counts[there], len(keys))
    if weights is not None:
        weights = np.bincount(place.ravel(), counts[there] * weights[there], len(keys)) / total
    return Interactions(keys // width, keys % width, total, user_ids, item_ids, weights)


def united(old: Interactions, new: Interactions) -> Interactions:
    """Both together."""
    sides = [united_ids(getattr(old, f"{name}_ids"), getattr(new, f"{name}_ids"), name) for name in ("user", "item")]
    users, items = (
        np.concatenate([np.searchsorted(ids, getattr(part, name + "_ids"))[getattr(part, name + "s")] for part in (old, new)])
        for ids, name in zip(sides, ("user", "item"), strict=True)
    )
    weights = None
    if old.weights is not None or new.weights is not None:
        weights = np.concatenate([np.ones(len(part.users)) if part.weights is None else part.weights for part in (old, new)])
    return merged(users, items, np.concatenate([old.counts, new.counts]), sides[0], sides[1], weights)


def _counts(counts: Any, m: int) -> np.ndarray:
    if counts is None:
        return np.ones(m)
    try:
        found = np.asarray(counts)
        if found.dtype.kind not in "biuf":
            raise TypeError
        found = found.astype(float)
    except (TypeError, ValueError):
        raise ParameterError("counts", f"must be numbers, got {shown(counts)}") from None
    if found.shape != (m,):
        raise ParameterError(
            "counts", f"must be one number for each of {counted(m, 'pair')}, got an array of shape {found.shape}"
        )
    bad = np.flatnonzero(~np.isfinite(found) | (found < 0))
    if len(bad):
        raise ValueError(
            f"counts[{bad[0]}] = {found[bad[0]]:g}: how often something was taken is a finite number, 0 or more; leave out "
            "what was disliked, or fit MatrixCompletion to ratings"
        )
    return found
