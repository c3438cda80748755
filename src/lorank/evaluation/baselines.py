"""Baselines for recommendations: popularity and item means."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import get_backend
from ..backends.top_k import rows_of, top_columns
from ..common.checks import NOT_NEGATIVE, ParameterError, check, counted, shown, whole


class _Constant:
    """The same order of items for every user, without the user's items of the training data."""

    def __init__(self, users: np.ndarray, items: np.ndarray, scores: np.ndarray, there: np.ndarray) -> None:
        n_users = int(users.max(initial=-1)) + 1
        order = np.lexsort((items, users))
        self.item_scores, self.there = scores, there
        self._indptr = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=n_users))])
        self._indices = items[order]
        rank = np.empty(len(scores))
        rank[np.argsort(-scores, kind="stable")] = np.arange(len(scores), 0, -1)  # ties: the smaller index first
        self._rank = rank[:, None]

    def recommend(self, rows: Any, n: int = 10, exclude_seen: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The first n items of each user: (k, n) arrays of items and scores, -1 and nan where fewer are left."""
        check("n", n, whole(1))
        rows = np.atleast_1d(np.asarray(rows))
        if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size) or (rows.size and rows.min() < 0):
            raise ParameterError("rows", f"must be whole numbers from 0 on, got {shown(rows)}")
        seen = rows_of(self._indptr, self._indices, rows.astype(np.int64)) if exclude_seen else None
        cols, _ = top_columns(get_backend(), np.ones((len(rows), 1)), self._rank, n, seen=seen, never=~self.there)
        return cols, np.where(cols >= 0, self.item_scores[cols], np.nan)


class Popularity(_Constant):
    """Recommend the most popular items to every user.

    Parameters
    ----------
    users, items : (m,) integer arrays
        Training data.
    n_items : int, optional
        Number of items; by default the smallest one that contains ``items``.

    Examples
    --------
    >>> from lorank.evaluation import Popularity
    >>> Popularity([0, 1, 1, 2], [1, 1, 0, 2]).recommend([0], n=2)[0].tolist()
    [[0, 2]]
    """

    def __init__(self, users: Any, items: Any, n_items: int | None = None) -> None:
        users, items, n_items = _pairs(users, items, n_items)
        counts = np.bincount(items, minlength=n_items).astype(float)
        super().__init__(users, items, counts, counts > 0)


class ItemMean(_Constant):
    """Recommend the items with the highest mean rating to every user.

    Parameters
    ----------
    users, items : (m,) integer arrays
        Training data.
    values : (m,) array
        Ratings.
    n_items : int, optional
        Number of items; by default the smallest one that contains ``items``.
    shrinkage : float
        Number of ratings at the overall mean that are added to each item, so that items with few ratings are not on top.

    Examples
    --------
    >>> from lorank.evaluation import ItemMean
    >>> ItemMean([0, 1, 1, 2], [1, 1, 0, 2], [5, 5, 1, 3]).recommend([3], n=2)[0].tolist()
    [[1, 2]]
    """

    def __init__(self, users: Any, items: Any, values: Any, n_items: int | None = None, shrinkage: float = 5.0) -> None:
        check("shrinkage", shrinkage, NOT_NEGATIVE)
        users, items, n_items = _pairs(users, items, n_items)
        values = np.asarray(values)
        if values.shape != items.shape or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise ParameterError(
                "values", f"must be finite numbers, one for each of {counted(len(items), 'pair')}: got {shown(values)}"
            )
        counts, mean = np.bincount(items, minlength=n_items), float(values.mean())
        sums = np.bincount(items, values - mean, n_items)
        super().__init__(users, items, mean + sums / np.maximum(counts + shrinkage, 1e-300), counts > 0)

    def predict(self, items: Any) -> np.ndarray:
        """The mean rating of each item."""
        return np.asarray(self.item_scores[np.asarray(items)])


def _pairs(users: Any, items: Any, n_items: int | None) -> tuple[np.ndarray, np.ndarray, int]:
    found = []
    for name, one in (("users", users), ("items", items)):
        index = np.asarray(one)
        if index.ndim != 1 or index.dtype.kind not in "iu" or not len(index) or int(index.min()) < 0:
            raise ParameterError(name, f"must be whole numbers from 0 on, one for each observation: got {shown(one)}")
        found.append(index.astype(np.int64))
    if len(found[0]) != len(found[1]):
        raise ValueError(f"users and items must be alike in length: got {len(found[0]):,} and {len(found[1]):,}")
    most = int(found[1].max()) + 1
    if n_items is not None:
        check("n_items", n_items, whole(1))
        if n_items < most:
            raise ParameterError("n_items", f"is {n_items}, and items reach {most - 1}")
    return found[0], found[1], most if n_items is None else int(n_items)
