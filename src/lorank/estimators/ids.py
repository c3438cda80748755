"""The users' own ids, whole numbers or text, and their places in a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.checks import shown


def as_ids(a: Any, what: str) -> np.ndarray:
    """Ids as an array of whole numbers (int64) or of text; a ValueError names what is neither."""
    a = np.asarray(a)
    if a.dtype.kind == "O" or a.dtype.kind == "T":
        items = a.tolist() if a.ndim == 1 else []
        if items and all(isinstance(x, str) for x in items):
            return np.array(items, dtype=np.str_)
        if items and all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in items):
            return np.array(items, dtype=np.int64)
        bad = [k for k, x in enumerate(items) if not isinstance(x, (str, int, np.integer)) or isinstance(x, bool)]
        said = f"{shown(items[bad[0]])} at place {bad[0]}" if bad else "a mixture of numbers and text" if items else shown(a)
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


def numbered(a: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Ids once each in rising order, and the place of each given one among them."""
    if (
        getattr(getattr(a, "dtype", None), "kind", "") == "O"
        and a.ndim == 1
        and a.size
        and all(isinstance(x, str) for x in a.tolist())
    ):
        items = a.tolist()  # not as an array of text: one long id would make all of them as long
        names = sorted(set(items))
        place = {x: k for k, x in enumerate(names)}
        return np.array(names, np.str_), np.fromiter(map(place.__getitem__, items), np.int64, len(items))
    ids, codes = np.unique(as_ids(a, what), return_inverse=True)
    return ids, codes.ravel().astype(np.int64)


def places(wanted: Any, known: np.ndarray, what: str) -> np.ndarray:
    """Where ids stand among the known ones, which rise: ``len(known)`` for one that is not there.

    Text where numbers are known, and numbers where text is, is an error: such ids could never be found.
    """
    ids = as_ids(np.atleast_1d(np.asarray(wanted)) if not isinstance(wanted, (str, bytes)) else np.array([wanted]), what)
    if ids.ndim != 1:
        raise ValueError(f"{what}s must be one id or a list of ids, got {shown(wanted)}")
    if not len(ids) or not len(known):
        return np.full(len(ids), len(known), np.int64)
    if (ids.dtype.kind in "iu") != (known.dtype.kind in "iu"):
        raise ValueError(f"{what} ids are {kind_of(known)} in this model, got {shown(wanted)}")
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, at, len(known)).astype(np.int64)


def find_ids(wanted: Any, known: np.ndarray, what: str) -> np.ndarray:
    """Where ids stand among the known ones: a ValueError names one that does not."""
    at = places(wanted, known, what)
    bad = np.flatnonzero(at == len(known))
    if len(bad):
        missing = wanted if isinstance(wanted, (str, bytes)) else np.atleast_1d(np.asarray(wanted))[bad[0]]
        missing = missing.item() if isinstance(missing, np.generic) else missing
        raise ValueError(f"unknown {what} {missing!r}: it was not in the data of the fit")
    return at


def united_ids(old: np.ndarray, new: np.ndarray, what: str) -> np.ndarray:
    """Both together, once each and rising."""
    if len(old) and len(new) and (old.dtype.kind in "iu") != (new.dtype.kind in "iu"):
        raise ValueError(f"{what} ids were {kind_of(old)} in fit, and are {kind_of(new)} now")
    return np.union1d(old, new)


def named(at: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Ids at places; where a place is -1, -1 for numbers and None for text."""
    if ids.dtype.kind in "iu":
        return np.where(at >= 0, ids[at], -1)
    found = ids[at].astype(object)
    found[at < 0] = None
    return found


def kind_of(ids: np.ndarray) -> str:
    return "whole numbers" if ids.dtype.kind in "iu" else "text"
