"""Held-out items of each user, and their comparison with recommendations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.checks import ParameterError, check, counted, shown, whole


@dataclass(frozen=True)
class HeldOutItems:
    """Held-out items by user, as a sparse matrix.

    Attributes
    ----------
    indptr : (users + 1,) int64 array
    items : (m,) int64 array
        Strictly increasing for each user.

    Examples
    --------
    >>> from lorank.evaluation import HeldOutItems
    >>> HeldOutItems.of([[4, 1], [], [2]]).counts.tolist()
    [2, 0, 1]
    """

    indptr: np.ndarray
    items: np.ndarray

    @classmethod
    def of(cls, held: Any) -> HeldOutItems:
        """From a SciPy sparse matrix (users by items) or a list with an array for each user."""
        if isinstance(held, cls):
            return held
        if hasattr(held, "tocoo"):
            if len(held.shape) != 2:
                raise ParameterError("held", f"is a sparse array of shape {held.shape}: users by items has two dimensions")
            coo = held.tocoo()
            return cls.from_pairs(np.asarray(coo.row, np.int64), np.asarray(coo.col, np.int64), int(held.shape[0]))
        try:
            lists = [np.atleast_1d(np.asarray(one)) for one in held]
        except (TypeError, ValueError):
            raise ParameterError(
                "held", f"must be a sparse matrix or a list with the items of each user, got {shown(held)}"
            ) from None
        for user, one in enumerate(lists):
            if one.ndim != 1 or (len(one) and (one.dtype.kind not in "iu" or int(one.min()) < 0)):
                raise ValueError(f"held[{user}] must be a list of item numbers, 0 or more: got {shown(one)}")
        users = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
        items = np.concatenate([one.astype(np.int64) for one in lists]) if lists else np.empty(0, np.int64)
        return cls.from_pairs(users, items, len(lists))

    @classmethod
    def from_pairs(cls, users: np.ndarray, items: np.ndarray, n_users: int) -> HeldOutItems:
        """From index pairs; repeated pairs count once."""
        width = int(items.max(initial=0)) + 1
        keys = np.unique(users.astype(np.int64) * width + items)
        indptr = np.zeros(n_users + 1, np.int64)
        np.cumsum(np.bincount(keys // width, minlength=n_users), out=indptr[1:])
        return cls(indptr, keys % width)

    @property
    def counts(self) -> np.ndarray:
        """Number of held-out items of each user."""
        return np.diff(self.indptr)

    def hits(self, recommended: np.ndarray) -> np.ndarray:
        """Flags of the recommendations that are held-out items."""
        width = max(int(self.items.max(initial=0)), int(recommended.max(initial=0))) + 1
        users = np.arange(len(self.counts), dtype=np.int64)
        own = np.repeat(users, self.counts) * width + self.items  # ascending
        wanted = users[:, None] * width + recommended
        if not len(own):
            return np.zeros(recommended.shape, bool)
        at = np.minimum(np.searchsorted(own, wanted), len(own) - 1)
        return np.asarray((own[at] == wanted) & (recommended >= 0))


def check_lists(recommended: Any, held: Any, n: Any) -> tuple[np.ndarray, HeldOutItems]:
    """The first n recommendations, and the held-out items."""
    check("n", n, whole(1))
    lists = check_recommended(recommended)
    found = HeldOutItems.of(held)
    if len(found.counts) != len(lists):
        raise ParameterError(
            "recommended",
            f"has {counted(len(lists), 'row')}, and held has {counted(len(found.counts), 'user')}: one row for each user",
        )
    return lists[:, : int(n)], found


def check_recommended(recommended: Any) -> np.ndarray:
    """Item indices, best first, -1 where fewer are left; no item twice in a row."""
    try:
        lists = np.asarray(recommended)
    except (TypeError, ValueError):
        lists = np.empty(0, object)
    if lists.ndim != 2 or (lists.dtype.kind not in "iu" and lists.size):
        raise ParameterError("recommended", f"must be a (users, n) array of item numbers, got {shown(recommended)}")
    lists = lists.astype(np.int64)
    if lists.size and lists.min() < -1:
        raise ParameterError("recommended", f"holds {lists.min()}: items count from 0, and -1 stands for none")
    ordered = np.sort(lists, axis=1)
    twice = np.argwhere((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0))
    if len(twice):
        user, at = twice[0]
        raise ValueError(f"recommended[{user}] names item {ordered[user, at]} twice")
    return lists
