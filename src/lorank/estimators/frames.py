"""Data frames of pandas and polars, and the ids of rows and columns that they contain."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..common.checks import ParameterError, counted, shown
from ..io.header import COL_NAMES, ROW_NAMES, VALUE_NAMES, plain_name

PACKAGES = ("pandas", "polars")
MAX_LISTED = 8  # columns in a message
ROLES = ("rows", "cols", "values")


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas or polars: an object with named columns."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__")


def column_names(X: Any) -> list[str]:
    return list(X.columns)


def column(X: Any, name: Any) -> np.ndarray:
    """One column as an array."""
    return np.asarray(X[name].to_numpy())


def resolve_columns(X: Any, given: Sequence[Any], roles: Sequence[str], required: int) -> list[Any]:
    """Names of the columns with these roles: the given ones, or the columns in this order where none is given.

    Parameters
    ----------
    X : data frame
    given : sequence
        A name or None for each role.
    roles : sequence of str
        Parameter names of the roles, for messages.
    required : int
        Number of roles that need a column; the others are None where there is none.
    """
    names = column_names(X)
    listed = _listed(names)
    for name, role in zip(given, roles, strict=True):
        if name is not None and name not in names:
            raise ValueError(f"{role}={name!r}: the data frame has no such column; its columns are {listed}")
    if all(name is None for name in given):
        if not required <= len(names) <= len(roles):
            raise ValueError(
                f"which column is which? Name them, {', '.join(f'{role}=...' for role in roles[:required])}, or select the "
                f"columns {', '.join(roles[:required])} in this order: the data frame has {listed}{_pivoted(X)}"
            )
        return [*names, *[None] * (len(roles) - len(names))]
    missing = [role for name, role in zip(given[:required], roles[:required], strict=True) if name is None]
    if missing:
        raise ValueError(f"{missing[0]}=... is missing: which of {listed} is it?")
    twice = [name for k, name in enumerate(given) if name is not None and name in given[:k]]
    if twice:
        raise ValueError(f"the column {twice[0]!r} is asked for twice")
    return list(given)


def known_columns(X: Any, names: Sequence[Any]) -> Sequence[Any]:
    """Columns of rows, columns and values by their usual names, as the commands find them, where the order leaves a choice.

    ``names`` are returned where some are given, and where a usual name is missing.
    """
    there = column_names(X)
    if any(name is not None for name in names) or len(there) <= len(ROLES):
        return names
    found: list[Any] = []
    for words in (ROW_NAMES, COL_NAMES, VALUE_NAMES):
        match = [name for name in there if plain_name(str(name)) in words and name not in found]
        found += [min(match, key=lambda name: words.index(plain_name(str(name))))] if match else []
    return found if len(found) == len(ROLES) else names


def _pivoted(X: Any) -> str:
    """Advice for a data frame with a column for each item, as the end of a message."""
    names = column_names(X)
    if len(names) <= 4 or not all(column(X, name).dtype.kind in "iuf" for name in names[1:]):
        return ""
    index = getattr(getattr(X, "index", None), "name", None)  # of X.pivot(...)
    melt = f"X.melt(id_vars={names[0]!r}" if index is None else f"X.reset_index().melt(id_vars={index!r}"
    return (
        f". A table with a column for each item needs one line for each value: {melt}, var_name='item', "
        "value_name='value').dropna() in pandas, X.unpivot(index=...).drop_nulls() in polars"
    )


def _listed(names: Sequence[Any]) -> str:
    """The first names, and how many others there are."""
    more = len(names) - MAX_LISTED
    return ", ".join(map(repr, names[:MAX_LISTED])) + (f" and {counted(more, 'other')}" if more > 0 else "")


def without_column(X: Any, name: Any, names: Sequence[Any]) -> Any:
    """A data frame without the column ``name`` unless it is among ``names``; any other X as it is."""
    if not is_frame(X) or not isinstance(name, str) or name in names or name not in column_names(X):
        return X
    return X[[other for other in column_names(X) if other != name]]


def named_column(given: Any, X: Any, parameter: str) -> Any:
    """The column of a data frame where ``given`` is its name; anything else as it is."""
    if not isinstance(given, str) or not is_frame(X):
        return given
    if given not in column_names(X):
        raise ValueError(f"{parameter}={given!r}: the data frame has no such column")
    return column(X, given)


def unique_names(names: Sequence[Any], more: Sequence[str]) -> list[str]:
    """Names for more columns, with an underscore appended where a column has that name already."""
    found: list[str] = []
    for name in more:
        while name in names or name in found:
            name += "_"
        found.append(name)
    return found


def make_frame(package: str, columns: dict[str, np.ndarray]) -> Any:
    """A data frame of ``"pandas"`` or ``"polars"``."""
    if package not in PACKAGES:
        raise ParameterError("as_frame", f"must be 'pandas', 'polars' or None, got {shown(package)}")
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"as_frame={package!r} needs {package}: pip install {package}", name=package) from None
    return module.DataFrame({name: a.tolist() if a.dtype.kind == "O" else a for name, a in columns.items()})


def pair_columns(X: Any, values: Any, names: Sequence[Any] = (None, None, None)) -> tuple[Any, Any, Any]:
    """Two columns of ids from a data frame, a list of pairs or an (m, 2) array, and the values (None where there are none)."""
    if is_frame(X):
        first, second, third = resolve_columns(X, names, ROLES, 2)
        if third is not None and values is not None:
            raise ValueError(f"values are given twice: in the column {third!r}, and as an argument")
        return column(X, first), column(X, second), values if third is None else column(X, third)
    if isinstance(X, (list, tuple)) and X and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in X):
        users, items = zip(*X, strict=True)  # users may be text and items numbers
        return np.array(users), np.array(items), values
    try:
        a = np.asarray(X)
    except (TypeError, ValueError):
        a = np.empty(0, object)
    if a.ndim != 2 or a.shape[1] != 2 or np.ma.isMaskedArray(X):
        raise ParameterError(
            "X",
            f"must be an (m, 2) array of user and item ids, a sparse matrix (users by items) or a data frame: got {shown(X)}",
        )
    return a[:, 0], a[:, 1], values


# ----------------------------------------------------------------------------------------------------------------------- ids


def as_ids(a: Any, what: str) -> np.ndarray:
    """Ids as an array of whole numbers (int64) or of text; a ValueError names an id that is neither."""
    a = np.asarray(a)
    if a.dtype.kind == "O" or a.dtype.kind == "T":
        items = a.tolist() if a.ndim == 1 else []
        if items and all(isinstance(x, str) for x in items):
            return np.array(items, dtype=np.str_)
        if items and all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in items):
            return np.array(items, dtype=np.int64)
        bad = [k for k, x in enumerate(items) if not isinstance(x, (str, int, np.integer)) or isinstance(x, bool)]
        got = f"{shown(items[bad[0]])} at position {bad[0]}" if bad else "a mixture of numbers and text" if items else shown(a)
        raise ValueError(f"{what} ids must be whole numbers or text, got {got}")
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


def encode_ids(a: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ids in ascending order, and the position of each given id among them."""
    items = a.tolist() if getattr(getattr(a, "dtype", None), "kind", "") == "O" and a.ndim == 1 else []
    if items and all(isinstance(x, str) for x in items):  # not as an array of text: one long id would widen all of them
        names = sorted(set(items))
        position = {x: k for k, x in enumerate(names)}
        return np.array(names, np.str_), np.fromiter(map(position.__getitem__, items), np.int64, len(items))
    ids, codes = np.unique(as_ids(a, what), return_inverse=True)
    return ids, codes.ravel().astype(np.int64)


def positions_of(wanted: Any, known: np.ndarray, what: str) -> np.ndarray:
    """Positions of ids among the known ones, which ascend; ``len(known)`` for an unknown id.

    Text where the known ids are numbers, and numbers where they are text, is an error: such ids could never be found.
    """
    ids = as_ids(np.atleast_1d(np.asarray(wanted)) if not isinstance(wanted, (str, bytes)) else np.array([wanted]), what)
    if ids.ndim != 1:
        raise ValueError(f"{what}s must be one id or a list of ids, got {shown(wanted)}")
    if not len(ids) or not len(known):
        return np.full(len(ids), len(known), np.int64)
    if (ids.dtype.kind in "iu") != (known.dtype.kind in "iu"):
        raise ValueError(f"{what} ids are {_kind(known)} in this model, got {shown(wanted)}")
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, at, len(known)).astype(np.int64)


def union_ids(old: np.ndarray, new: np.ndarray, what: str) -> np.ndarray:
    """The distinct ids of both, in ascending order."""
    if len(old) and len(new) and (old.dtype.kind in "iu") != (new.dtype.kind in "iu"):
        raise ValueError(f"{what} ids were {_kind(old)} in fit, and are {_kind(new)} now")
    return np.union1d(old, new)


def ids_at(positions: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The ids at these positions; at position -1, -1 for numbers and None for text."""
    if ids.dtype.kind in "iu":
        return np.where(positions >= 0, ids[positions], -1)
    found = ids[positions].astype(object)
    found[positions < 0] = None
    return found


def _kind(ids: np.ndarray) -> str:
    return "whole numbers" if ids.dtype.kind in "iu" else "text"
