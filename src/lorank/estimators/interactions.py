"""Who took what, from pairs, sparse matrices and data frames, with the users' own ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..parameter_checks import shown


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
    """

    users: np.ndarray
    items: np.ndarray
    counts: np.ndarray
    user_ids: np.ndarray
    item_ids: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.user_ids), len(self.item_ids)


def read_interactions(X: Any, counts: Any = None) -> Interactions:
    """From a sparse matrix (users by items), an (m, 2) array of ids, or a data frame of two or three columns."""
    if hasattr(X, "tocoo"):
        if counts is not None:
            raise ValueError("a sparse matrix comes with its own counts: leave y out")
        if len(X.shape) != 2:
            raise ValueError(f"X is a sparse array of shape {X.shape}: users by items has two dimensions")
        coo = X.tocoo()
        users, items, counts = coo.row.astype(np.int64), coo.col.astype(np.int64), coo.data
        ids = np.arange(X.shape[0]), np.arange(X.shape[1])
    else:
        first, second, counts = pair_columns(X, counts)
        ids, codes = zip(
            *(np.unique(_ids(a, name), return_inverse=True) for a, name in ((first, "user"), (second, "item"))), strict=True
        )
        users, items = (code.ravel().astype(np.int64) for code in codes)
    return merged(users, items, _counts(counts, len(users)), *ids)


def merged(
    users: np.ndarray, items: np.ndarray, counts: np.ndarray, user_ids: np.ndarray, item_ids: np.ndarray
) -> Interactions:
    """Each pair once, its counts added up; pairs of count 0 are none."""
    width = max(len(item_ids), 1)
    there = counts > 0
    keys, place = np.unique(users[there] * width + items[there], return_inverse=True)
    total = np.bincount(place.ravel(), counts[there], len(keys))
    return Interactions(keys // width, keys % width, total, user_ids, item_ids)


def united(old: Interactions, new: Interactions) -> Interactions:
    """Both together."""
    sides = []
    for name in ("user_ids", "item_ids"):
        one, two = getattr(old, name), getattr(new, name)
        if (one.dtype.kind in "iu") != (two.dtype.kind in "iu"):
            raise ValueError(f"{name[:4]} ids were {_kind(one)} in fit, and are {_kind(two)} now")
        sides.append(np.union1d(one, two))
    users, items = (
        np.concatenate([np.searchsorted(ids, getattr(part, name + "_ids"))[getattr(part, name + "s")] for part in (old, new)])
        for ids, name in zip(sides, ("user", "item"), strict=True)
    )
    return merged(users, items, np.concatenate([old.counts, new.counts]), *sides)


def find_ids(wanted: Any, known: np.ndarray, what: str) -> np.ndarray:
    """Where ids stand among the known ones: a ValueError names one that does not."""
    ids = _ids(np.atleast_1d(np.asarray(wanted)) if not isinstance(wanted, (str, bytes)) else np.array([wanted]), what)
    if ids.ndim != 1:
        raise ValueError(f"{what}s must be one id or a list of ids, got {shown(wanted)}")
    if not len(ids):
        return np.empty(0, np.int64)
    if (ids.dtype.kind in "iu") != (known.dtype.kind in "iu"):
        raise ValueError(f"{what} ids are {_kind(known)} in this model, got {shown(wanted)}")
    at = np.minimum(np.searchsorted(known, ids), max(len(known) - 1, 0))
    bad = np.flatnonzero(known[at] != ids) if len(known) else np.arange(len(ids))
    if len(bad):
        raise ValueError(f"unknown {what} {ids[bad[0]].item()!r}: it was not in the data of the fit")
    return at.astype(np.int64)


def named(places: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Ids at places; where a place is -1, -1 for numbers and None for text."""
    if ids.dtype.kind in "iu":
        return np.where(places >= 0, ids[places], -1)
    found = ids[places].astype(object)
    found[places < 0] = None
    return found


def pair_columns(X: Any, counts: Any) -> tuple[Any, Any, Any]:
    """Users, items and counts."""
    names = getattr(X, "columns", None)
    if names is not None and hasattr(X, "__getitem__"):  # pandas, polars
        names = list(names)
        if len(names) not in (2, 3) or (len(names) == 3 and counts is not None):
            raise ValueError(
                f"a data frame has the columns user, item and perhaps count, in this order: got {', '.join(map(repr, names))}; "
                "select them first"
            )
        parts = [np.asarray(X[name].to_numpy()) for name in names]
        return parts[0], parts[1], parts[2] if len(names) == 3 else counts
    if isinstance(X, (list, tuple)) and X and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in X):
        users, items = zip(*X, strict=True)  # users may be text and items numbers
        return np.array(users), np.array(items), counts
    try:
        a = np.asarray(X)
    except (TypeError, ValueError):
        a = np.empty(0, object)
    if a.ndim != 2 or a.shape[1] != 2 or np.ma.isMaskedArray(X):
        raise ValueError(
            f"X must be an (m, 2) array of user and item ids, a sparse matrix (users by items) or a data frame: got {shown(X)}"
        )
    return a[:, 0], a[:, 1], counts


def _ids(a: np.ndarray, what: str) -> np.ndarray:
    """Ids as whole numbers or as text."""
    a = np.asarray(a)
    if a.dtype.kind == "O" or a.dtype.kind == "T":
        items = a.tolist() if a.ndim == 1 else []
        if items and all(isinstance(x, str) for x in items):
            return np.array(items, dtype=np.str_)
        if items and all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in items):
            return np.array(items, dtype=np.int64)
        bad = [x for x in items if not isinstance(x, (str, int, np.integer)) or isinstance(x, bool)]
        said = shown(bad[0]) if bad else "a mixture of numbers and text" if items else shown(a)
        raise ValueError(f"{what} ids must be whole numbers or text, got {said}")
    if a.dtype.kind == "f":
        bad_ones = np.flatnonzero(~((a == np.floor(a)) & (abs(a) < 2**53)))  # nan and inf, too
        if len(bad_ones):
            raise ValueError(f"{what} ids must be whole numbers or text, got {a.ravel()[bad_ones[0]]}")
        return a.astype(np.int64)
    if a.dtype.kind not in "iuU":
        raise ValueError(f"{what} ids must be whole numbers or text, got {a.dtype}")
    if a.dtype.kind == "u" and a.size and a.max() >= 2**63:
        raise ValueError(f"{what} id {a.max()} is beyond 64 bits")
    return a if a.dtype.kind == "U" else a.astype(np.int64)


def _counts(counts: Any, m: int) -> np.ndarray:
    if counts is None:
        return np.ones(m)
    try:
        found = np.asarray(counts)
        if found.dtype.kind not in "biuf":
            raise TypeError
        found = found.astype(float)
    except (TypeError, ValueError):
        raise ValueError(f"counts must be numbers, got {shown(counts)}") from None
    if found.shape != (m,):
        raise ValueError(f"counts must be one number for each of {m:,} pairs, got an array of shape {found.shape}")
    bad = np.flatnonzero(~np.isfinite(found) | (found < 0))
    if len(bad):
        raise ValueError(
            f"counts[{bad[0]}] = {found[bad[0]]:g}: how often something was taken is a finite number, 0 or more; leave out "
            "what was disliked, or fit MatrixCompletion to ratings"
        )
    return found


def _kind(ids: np.ndarray) -> str:
    return "whole numbers" if ids.dtype.kind in "iu" else "text"
