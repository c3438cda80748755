"""Data frames of pandas and polars, in and out, without importing either where it is not used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..common.checks import ParameterError, shown

PACKAGES = ("pandas", "polars")


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, of pandas or polars: something with named columns."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not hasattr(X, "tocoo")


def column_names(X: Any) -> list[str]:
    return list(X.columns)


def column(X: Any, name: Any) -> np.ndarray:
    """One column as an array."""
    return np.asarray(X[name].to_numpy())


def chosen(X: Any, given: Sequence[Any], roles: Sequence[str], least: int) -> list[Any]:
    """The names of the columns with these roles: those given, or the first columns in this order where none is.

    Parameters
    ----------
    X : data frame
    given : sequence
        A name or None for each role.
    roles : sequence of str
        What the names are called where they are given.
    least : int
        Roles that must be filled; others are None where there is no column for them.
    """
    names = column_names(X)
    listed = ", ".join(map(repr, names))
    for name, role in zip(given, roles, strict=True):
        if name is not None and name not in names:
            raise ValueError(f"{role}={name!r}: the data frame has no such column; its columns are {listed}")
    if all(name is None for name in given):
        if not least <= len(names) <= len(roles):
            raise ValueError(
                f"which column is which? Name them, {', '.join(f'{role}=...' for role in roles[:least])}, or select the "
                f"columns {', '.join(roles[:least])} in this order: the data frame has {listed}"
            )
        return [*names, *[None] * (len(roles) - len(names))]
    missing = [role for name, role in zip(given[:least], roles[:least], strict=True) if name is None]
    if missing:
        raise ValueError(f"{missing[0]}=... is missing: which of {listed} is it?")
    twice = [name for k, name in enumerate(given) if name is not None and name in given[:k]]
    if twice:
        raise ValueError(f"the column {twice[0]!r} is asked for twice")
    return list(given)


def without_named(X: Any, others: Sequence[Any], names: Sequence[Any] = ()) -> Any:
    """A data frame without the columns that were named as times or weights: those are no values. Anything else as it is.

    Parameters
    ----------
    X : data frame, or other data
    others : sequence
        Names, among them perhaps None or arrays.
    names : sequence
        Columns that stay all the same.
    """
    if not is_frame(X):
        return X
    gone = [name for name in others if isinstance(name, str) and name in column_names(X) and name not in names]
    return X[[name for name in column_names(X) if name not in gone]] if gone else X


def beside(names: Sequence[Any], more: Sequence[str]) -> list[str]:
    """What more columns are called: as they should be, with a line below where a column has that name already."""
    found: list[str] = []
    for name in more:
        while name in names or name in found:
            name += "_"
        found.append(name)
    return found


def make_frame(package: str, columns: dict[str, np.ndarray]) -> Any:
    """A data frame of ``"pandas"`` or ``"polars"``."""
    if package not in PACKAGES:
        raise ValueError(f"as_frame must be 'pandas', 'polars' or None, got {shown(package)}")
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"as_frame={package!r} needs {package}: pip install {package}", name=package) from None
    return module.DataFrame({name: a.tolist() if a.dtype.kind == "O" else a for name, a in columns.items()})


def pair_columns(X: Any, values: Any, names: Sequence[Any] = (None, None, None)) -> tuple[Any, Any, Any]:
    """The two columns of ids in a data frame, a list of pairs or an (m, 2) array, and the values beside them (None without)."""
    if is_frame(X):
        first, second, third = chosen(X, names, ("rows", "cols", "values"), 2)
        if third is not None and values is not None:
            raise ValueError(f"values are given twice: in the column {third!r}, and beside the data frame")
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
