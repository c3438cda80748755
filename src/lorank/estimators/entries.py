"""Observed entries from index pairs, sparse matrices, pairs of ids and data frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.checks import ParameterError, counted, shown
from ..problems.input_checks import as_shape
from .frames import chosen, column, column_names, is_frame, pair_columns
from .ids import find_ids, numbered, places
from .inputs import check_pairs, check_positions, check_values

ROLES = ("rows", "cols", "values")


@dataclass(frozen=True)
class Entries:
    """``values[k]`` in row ``rows[k]`` and column ``cols[k]``.

    Attributes
    ----------
    rows, cols : (m,) int64 arrays
    values : (m,) array
    shape : (int, int) or None
        Where the data say it.
    ids : dict or None
        The users' own names of ``"rows"`` and ``"cols"``, in rising order; None where data come with index pairs.
    labels : dict or None
        The names of the columns of a data frame: ``"row"``, ``"col"`` and ``"value"``.
    """

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray
    shape: tuple[int, int] | None = None
    ids: dict[str, np.ndarray] | None = None
    labels: dict[str, Any] | None = None


def read_entries(X: Any, y: Any, names: Sequence[Any] = (None, None, None)) -> Entries:
    """What :meth:`MatrixCompletion.fit` takes.

    Parameters
    ----------
    X : (m, 2) array, list of pairs, sparse matrix or data frame
        Whole numbers in an array or a list are indices. Text, and whatever stands in a data frame, are ids.
    y : (m,) array or None
    names : sequence
        The columns of a data frame with rows, columns and values, each perhaps None.
    """
    if not is_frame(X) and any(name is not None for name in names):
        raise ValueError(f"rows, cols and values are the names of columns of a data frame: X is {shown(X)}")
    if hasattr(X, "tocoo") and y is None:
        coo = X.tocoo()
        if coo.ndim != 2:
            raise ParameterError("X", f"is a sparse array of shape {coo.shape}: a matrix has two dimensions")
        rows, cols = coo.row.astype(np.int64), coo.col.astype(np.int64)
        return Entries(rows, cols, check_values(coo.data, "X"), coo.shape)
    labels = None
    if is_frame(X):
        row, col, value = chosen(X, names, ROLES, 2)
        labels = {"row": row, "col": col, "value": value}
    elif not _has_text(X):
        values, pairs = check_values(y), check_pairs(X)
        return Entries(pairs[:, 0], pairs[:, 1], _as_many(values, len(pairs)))
    first, second, given = pair_columns(X, y, names)
    (row_ids, rows), (col_ids, cols) = numbered(first, "row"), numbered(second, "column")
    values = _as_many(check_values(given), len(rows))
    shape = len(row_ids), len(col_ids)
    return Entries(rows, cols, values, shape, {"rows": row_ids, "cols": col_ids}, labels)


def find_pairs(X: Any, ids: dict[str, np.ndarray] | None, labels: dict[str, Any] | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of a fitted model at index pairs, pairs of ids or in a data frame; ids that the model does not know are
    beyond the last.
    """
    if is_frame(X):
        known = column_names(X)
        by_name = labels is not None and labels["row"] in known and labels["col"] in known
        names = (labels["row"], labels["col"]) if by_name and labels is not None else (None, None)
        if not by_name and len(known) > 2:
            names = tuple(chosen(X, (None, None), ROLES[:2], 2)[:2])  # says that it cannot tell
        first, second, _ = pair_columns(X, None, (*names, None))
        if ids is None:
            X = np.column_stack([first, second])
    elif ids is not None:
        first, second, _ = pair_columns(X, None)
    if ids is None:
        if _has_text(X):
            raise ValueError("this model was fitted to index pairs, and X has text: pass rows and columns, counted from 0")
        pairs = check_pairs(X)
        return pairs[:, 0], pairs[:, 1]
    return places(first, ids["rows"], "row"), places(second, ids["cols"], "column")


def find_side(wanted: Any, ids: dict[str, np.ndarray] | None, side: str) -> np.ndarray:
    """Places of some rows (columns): indices as they are, or those of ids; unknown ones are beyond the last."""
    what = "row" if side == "rows" else "column"
    if ids is not None:
        return places(wanted, ids[side], what)
    found = check_positions(wanted, side)
    if found.dtype.kind not in "iu" or found.ndim != 1 or (len(found) and found.min() < 0):
        raise ValueError(f"{side} must be whole numbers from 0 on")
    return np.minimum(found, np.iinfo(np.int64).max).astype(np.int64)  # larger ones are unknown, too


def find_known(wanted: Any, ids: dict[str, np.ndarray] | None, side: str, size: int) -> np.ndarray:
    """The same, with a ValueError for what is unknown."""
    if ids is not None:
        return find_ids(wanted, ids[side], "row" if side == "rows" else "column")
    found = find_side(wanted, None, side)
    if len(found) and found.max() >= size:
        raise ValueError(f"{side} must lie in 0 .. {size - 1}, got {found.max()}")
    return found


def read_weights(sample_weight: Any, X: Any) -> Any:
    """The weights themselves, where a data frame's column is named."""
    if isinstance(sample_weight, str) and is_frame(X):
        if sample_weight not in column_names(X):
            raise ValueError(f"sample_weight={sample_weight!r}: the data frame has no such column")
        return column(X, sample_weight)
    return sample_weight


def full_shape(entries: Entries, shape: Any) -> tuple[int, int]:
    """The shape of the matrix: the one asked for, that of the data, or just large enough for the indices."""
    if entries.ids is not None:
        if shape is not None:
            raise ParameterError(
                "shape", "is for index pairs: rows and columns with ids are as many as there are ids; leave it out"
            )
        assert entries.shape is not None
        return entries.shape
    n1, n2 = int(entries.rows.max()) + 1, int(entries.cols.max()) + 1
    asked = entries.shape if shape is None else shape
    if asked is not None:
        given = as_shape(asked)
        if given[0] < n1 or given[1] < n2:
            raise ValueError(f"shape {given} does not hold row {n1 - 1} and column {n2 - 1}")
        n1, n2 = given
    if max(n1, n2) > 1000 + 100 * len(entries.rows):
        raise ValueError(
            f"indices (or shape) reach {max(n1, n2) - 1:,} for {counted(len(entries.rows), 'observation')}: map ids to "
            "0 .. n-1 first, e.g. with numpy.unique(ids, return_inverse=True), or fit a data frame, whose ids may be any"
        )
    return n1, n2


def _as_many(values: np.ndarray, m: int) -> np.ndarray:
    if len(values) != m:
        raise ValueError(f"X and y must be alike in length: got {counted(m, 'pair')} and {counted(len(values), 'value')}")
    return values


def _has_text(X: Any) -> bool:
    """Whether X is pairs of ids some of which are text."""
    if isinstance(X, (list, tuple)):
        return (
            bool(X)
            and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in X)
            and any(isinstance(one, str) for pair in X for one in pair)
        )
    kind = getattr(getattr(X, "dtype", None), "kind", "f")
    if getattr(X, "ndim", 0) != 2 or X.shape[1] != 2 or kind not in "UTO" or np.ma.isMaskedArray(X):
        return False
    return kind != "O" or any(isinstance(one, str) for one in X.ravel().tolist())
