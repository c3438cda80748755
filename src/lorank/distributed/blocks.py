"""The arrays of a block of rows, made from its observations in any order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import HostEntries, get_backend
from .folder import PADDING, BlockArrays


def block_arrays(entries: HostEntries, n2: int) -> BlockArrays:
    """Observations row by row as they stand, and again column by column."""
    indptr, indices, values, weights = entries
    n1, m = len(indptr) - 1, len(values)
    rows = np.repeat(np.arange(n1, dtype=np.int32), np.diff(indptr))
    columns = np.ascontiguousarray(indices[:m], np.int32)
    order = _row_major(columns, rows, (n2, n1))
    colptr = np.zeros(n2 + 1, np.int64)
    np.cumsum(np.bincount(columns, minlength=n2), out=colptr[1:])
    return BlockArrays(
        np.ascontiguousarray(indptr, np.int64),
        padded(columns),
        np.ascontiguousarray(values),
        colptr,
        padded(rows[order]),
        order.astype(np.int32 if m <= 2**31 - 1 else np.int64),
        np.ascontiguousarray(values[order].conj()),
        None if weights is None else np.ascontiguousarray(weights),
        None if weights is None else np.ascontiguousarray(weights[order]),
    )


def host_entries(block: BlockArrays) -> HostEntries:
    """The observations of a block row by row, without padding."""
    return HostEntries(block.indptr, block.indices[: len(block.values)], block.values, block.weights)


def padded(index: np.ndarray) -> np.ndarray:
    """Indices with zeros behind them, which kernels may fetch."""
    return np.concatenate([index, np.zeros(PADDING, np.int32)]).astype(np.int32, copy=False)


def row_edges(counts: np.ndarray, partitions: int) -> np.ndarray:
    """Where to cut rows into blocks with about as many observations each, and at least one row with one observation.

    Parameters
    ----------
    counts : (n1,) array
        Observations in each row.
    partitions : int

    Returns
    -------
    (partitions + 1,) array
    """
    seen = np.flatnonzero(counts)
    if partitions < 1 or partitions > len(seen):
        raise ValueError(f"partitions={partitions}: rows with observations are {len(seen):,}, and no partition may be empty")
    total = np.cumsum(counts[seen])
    last = np.searchsorted(total, total[-1] * np.arange(1, partitions) / partitions)  # among the rows seen, of each block
    for k in range(len(last)):  # each block has its own row, and leaves one for each block that follows
        last[k] = max(last[k], last[k - 1] + 1 if k else 0)
    last = np.minimum(last, len(seen) - 1 - np.arange(len(last), 0, -1))
    return np.concatenate([[0], seen[last] + 1, [len(counts)]]).astype(np.int64)


def _row_major(rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    backend: Any = get_backend()
    return np.asarray(backend.row_major_order(rows, cols, shape))
