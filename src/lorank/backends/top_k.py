"""Largest scores of each row, computed in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .observations import Array
from .protocol import Arrays

BLOCK = 1 << 22  # numbers of a block in main memory
DEVICE_BLOCK = 1 << 28  # numbers of a block on a device


def top_columns(
    backend: Arrays,
    left: Array,
    right: Array,
    n: int,
    *,
    seen: tuple[np.ndarray, np.ndarray] | None = None,
    never: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The n largest entries of each row of ``left right^T``; see :func:`top_scores`."""
    other = right.T
    shape = len(left), len(right)
    return top_scores(backend, lambda rows: left[rows.start : rows.stop] @ other, shape, n, seen=seen, never=never)


def top_scores(
    backend: Arrays,
    scores: Callable[[range], Array],
    shape: tuple[int, int],
    n: int,
    *,
    seen: tuple[np.ndarray, np.ndarray] | None = None,
    never: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The n largest scores of each row; among equal ones the smaller column first.

    Parameters
    ----------
    backend : Arrays
        Backend of the scores.
    scores : callable
        The scores of a range of rows, (rows, n2).
    shape : (int, int)
        (k, n2).
    n : int
    seen : (indptr, indices), optional
        Columns to exclude for each of the k rows, as NumPy arrays in CSR order.
    never : (n2,) bool array, optional
        Columns to exclude in all rows.

    Returns
    -------
    cols : (k, n) int64 array
        -1 where fewer than n columns remain.
    scores : (k, n) array
        nan there.
    """
    k, n2 = shape
    cols, values = np.full((k, n), -1, np.int64), np.full((k, n), np.nan)
    take = min(n, n2)
    if not k or not take:
        return cols, values
    step = max(16, (BLOCK if backend.in_main_memory else DEVICE_BLOCK) // n2)
    hidden = np.empty(0, np.int64) if never is None else np.flatnonzero(never)
    for begin in range(0, k, step):
        end = min(begin + step, k)
        i, j = _repeated(end - begin, hidden) if len(hidden) else (np.empty(0, np.int64),) * 2
        if seen is not None:
            indptr = seen[0][begin : end + 1]
            i = np.concatenate([i, np.repeat(np.arange(end - begin), np.diff(indptr))])
            j = np.concatenate([j, seen[1][indptr[0] : indptr[-1]]])
        found, value = backend.top_k(scores(range(begin, end)), take, (i, j))
        there = np.isfinite(value)
        cols[begin:end, :take] = np.where(there, found, -1)
        values[begin:end, :take] = np.where(there, value, np.nan)
    return cols, values


def _repeated(rows: int, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(rows), len(columns)), np.tile(columns, rows)


def rows_of(indptr: np.ndarray, indices: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a CSR pattern, as a pattern; rows beyond the last are empty."""
    inside = rows < len(indptr) - 1
    at = np.where(inside, rows, 0)
    begin, count = indptr[at], np.where(inside, indptr[at + 1] - indptr[at], 0)
    ptr = np.concatenate([[0], np.cumsum(count)])
    return ptr, indices[np.repeat(begin - ptr[:-1], count) + np.arange(ptr[-1])]
