"""Missingness patterns: rows grouped by their missing columns, and conditional means of a Gaussian for each group.

Rows with the same pattern share the matrix that fills them. The C++ kernel inverts these matrices one by one; the NumPy version
batches patterns of the same size, since with values missing at random nearly every row has its own pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

try:
    from .. import _kernels  # type: ignore[attr-defined]
except ImportError:  # pragma: no cover - where the extension was not built
    _kernels = None
NATIVE = _kernels is not None

BATCH = 1 << 21  # numbers in a batch of matrices


@dataclass(frozen=True)
class Batch:
    """Patterns of k missing columns, and their rows."""

    columns: np.ndarray  # (p, k): the missing columns of each pattern, increasing
    counts: np.ndarray  # (p,): number of rows with it
    rows: np.ndarray  # (b,)
    pattern: np.ndarray  # (b,): index of each row's pattern

    def each(self, matrices: np.ndarray) -> np.ndarray:
        """Matrices of the patterns, repeated for each row."""
        return matrices if len(self.rows) == len(self.columns) else matrices[self.pattern]


@dataclass(frozen=True)
class Patterns:
    """Missingness patterns of a table and their rows in compressed sparse row form, ordered by size."""

    column_ptr: np.ndarray  # (p + 1,)
    columns: np.ndarray  # missing columns of a pattern, increasing
    row_ptr: np.ndarray  # (p + 1,)
    rows: np.ndarray  # rows that have the pattern

    @cached_property
    def batches(self) -> list[Batch]:
        """Patterns of equal size, together."""
        return list(self._batches())

    def _batches(self) -> Iterator[Batch]:
        sizes, counts = np.diff(self.column_ptr), np.diff(self.row_ptr)
        for size in np.unique(sizes):
            low, end = np.searchsorted(sizes, (size, size + 1))
            step = max(1, BATCH // int(size) ** 2)
            for first in range(low, end, step):
                last = min(first + step, end)
                columns = self.columns[self.column_ptr[first] : self.column_ptr[last]].reshape(last - first, size)
                pattern = np.repeat(np.arange(last - first), counts[first:last])
                yield Batch(columns, counts[first:last], self.rows[self.row_ptr[first] : self.row_ptr[last]], pattern)


def find_patterns(missing: np.ndarray) -> Patterns:
    """Missingness patterns of an (n, d) Boolean array; rows without missing values are left out."""
    n, d = missing.shape
    size = missing.sum(axis=1)
    packed = np.zeros((n, 8 * -(-d // 64)), np.uint8)
    packed[:, : -(-d // 8)] = np.packbits(missing, axis=1)
    words = packed.view("<u8")
    keys = (size.astype(np.uint64) << np.uint64(56)) | words[:, 0]  # the number of missing values above the pattern's bits
    order = np.argsort(keys) if d <= 56 else np.lexsort((*words.T, size))
    order = order[np.searchsorted(size[order], 1) :]  # complete rows come first
    if not len(order):
        none = np.zeros(0, np.int64)
        return Patterns(np.zeros(1, np.int64), none.astype(np.int32), np.zeros(1, np.int64), none)
    sorted_words = words[order]
    first = np.flatnonzero(np.concatenate([[True], (sorted_words[1:] != sorted_words[:-1]).any(axis=1)]))
    column_ptr = np.concatenate([[0], np.cumsum(size[order[first]])]).astype(np.int64)
    columns = np.nonzero(missing[order[first]])[1].astype(np.int32)
    return Patterns(column_ptr, columns, np.append(first, len(order)).astype(np.int64), order.astype(np.int64))


def fill_missing(
    K: np.ndarray,
    G: np.ndarray,
    Z: np.ndarray,
    patterns: Patterns,
    *,
    deviations: np.ndarray | None = None,
    moments: np.ndarray | None = None,
    native: bool = NATIVE,
) -> None:
    """Write the conditional means ``-inv(K_mm) g_m`` of a centered Gaussian into Z.

    Parameters
    ----------
    K : (d, d) array
        Inverse of the covariance.
    G : (n, d) array
        Observed values of the rows times K.
    Z : (n, d) array
        Changed where values are missing.
    patterns : Patterns
    deviations : (n, d) array, optional
        Conditional standard deviations are written into it.
    moments : (d, d) array, optional
        The conditional covariances of all rows are added to it.
    native : bool
        Use the C++ kernel.
    """
    if native:
        _kernels.fill_gaps(K, patterns.column_ptr, patterns.columns, patterns.row_ptr, patterns.rows, G, Z, deviations, moments)
        return
    d = len(K)
    for batch in patterns.batches:
        columns = batch.columns
        inverse = np.linalg.inv(K[columns[:, :, None], columns[:, None, :]])
        where = batch.rows[:, None], columns[batch.pattern]
        Z[where] = -(batch.each(inverse) @ G[where][:, :, None])[:, :, 0]
        if deviations is not None:
            own = np.sqrt(np.maximum(np.diagonal(inverse, axis1=1, axis2=2), 0))
            deviations[where] = own[batch.pattern]
        if moments is not None:
            flat = columns[:, :, None].astype(np.int64) * d + columns[:, None, :]
            weighted = inverse * batch.counts[:, None, None]
            moments += np.bincount(flat.ravel(), weighted.ravel(), d * d).reshape(d, d)
