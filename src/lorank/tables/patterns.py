"""Rows of a table grouped by which of their cells are missing, and their gaps filled under a Gaussian.

Rows with the same gaps share the matrix that fills them. The C++ pass inverts these matrices one by one; its twin in NumPy
works on those of one size together, as one batch: with gaps here and there nearly every row has a pattern of its own.
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
    """Patterns with the same number k of gaps, and their rows.

    Attributes
    ----------
    gaps : (p, k) array
        The missing columns of each pattern, increasing.
    counts : (p,) array
        How many rows have it.
    rows : (b,) array
    pattern : (b,) array
        Which pattern each row has.
    """

    gaps: np.ndarray
    counts: np.ndarray
    rows: np.ndarray
    pattern: np.ndarray

    def each(self, matrices: np.ndarray) -> np.ndarray:
        """Those of the patterns, one for each row."""
        return matrices if len(self.rows) == len(self.gaps) else matrices[self.pattern]


@dataclass(frozen=True)
class Patterns:
    """The patterns of gaps of a table, few gaps first, and their rows.

    Attributes
    ----------
    column_ptr, columns : (p + 1,) and (g,) arrays
        The missing columns of a pattern, increasing, one pattern after the other.
    row_ptr, rows : (p + 1,) and (b,) arrays
        The rows that have it.
    """

    column_ptr: np.ndarray
    columns: np.ndarray
    row_ptr: np.ndarray
    rows: np.ndarray

    @cached_property
    def batches(self) -> list[Batch]:
        """Patterns with as many gaps, together."""
        return list(self._batches())

    def _batches(self) -> Iterator[Batch]:
        sizes, counts = np.diff(self.column_ptr), np.diff(self.row_ptr)
        for size in np.unique(sizes):
            low, end = np.searchsorted(sizes, (size, size + 1))
            step = max(1, BATCH // int(size) ** 2)
            for first in range(low, end, step):
                last = min(first + step, end)
                gaps = self.columns[self.column_ptr[first] : self.column_ptr[last]].reshape(last - first, size)
                pattern = np.repeat(np.arange(last - first), counts[first:last])
                yield Batch(gaps, counts[first:last], self.rows[self.row_ptr[first] : self.row_ptr[last]], pattern)


def find_patterns(missing: np.ndarray) -> Patterns:
    """Which rows lack the same cells.

    Parameters
    ----------
    missing : (n, d) Boolean array
    """
    n, d = missing.shape
    size = missing.sum(axis=1)
    packed = np.zeros((n, 8 * -(-d // 64)), np.uint8)
    packed[:, : -(-d // 8)] = np.packbits(missing, axis=1)
    words = packed.view("<u8")
    together = (size.astype(np.uint64) << np.uint64(56)) | words[:, 0]  # the number of gaps above the bits of the pattern
    order = np.argsort(together) if d <= 56 else np.lexsort((*words.T, size))
    order = order[np.searchsorted(size[order], 1) :]  # rows without gaps come first
    if not len(order):
        none = np.zeros(0, np.int64)
        return Patterns(np.zeros(1, np.int64), none.astype(np.int32), np.zeros(1, np.int64), none)
    sorted_words = words[order]
    first = np.flatnonzero(np.concatenate([[True], (sorted_words[1:] != sorted_words[:-1]).any(axis=1)]))
    lacking = missing[order[first]]
    column_ptr = np.concatenate([[0], np.cumsum(size[order[first]])]).astype(np.int64)
    row_ptr = np.append(first, len(order)).astype(np.int64)
    return Patterns(column_ptr, np.nonzero(lacking)[1].astype(np.int32), row_ptr, order.astype(np.int64))


def fill_gaps(
    K: np.ndarray,
    G: np.ndarray,
    Z: np.ndarray,
    patterns: Patterns,
    *,
    deviations: np.ndarray | None = None,
    moments: np.ndarray | None = None,
    native: bool = NATIVE,
) -> None:
    """Conditional means ``-inv(K_mm) g_m`` in the gaps m of rows under a centred Gaussian, written into Z.

    Parameters
    ----------
    K : (d, d) array
        Inverse of the covariance.
    G : (n, d) array
        The rows' known cells times K.
    Z : (n, d) array
        Changed in the gaps.
    patterns : Patterns
    deviations : (n, d) array, optional
        Changed in the gaps: standard deviations.
    moments : (d, d) array, optional
        The conditional covariances of all rows are added to it.
    native : bool
        By the C++ pass.
    """
    if native:
        _kernels.fill_gaps(K, patterns.column_ptr, patterns.columns, patterns.row_ptr, patterns.rows, G, Z, deviations, moments)
        return
    d = len(K)
    for batch in patterns.batches:
        gaps = batch.gaps
        inverse = np.linalg.inv(K[gaps[:, :, None], gaps[:, None, :]])
        where = batch.rows[:, None], gaps[batch.pattern]
        Z[where] = -(batch.each(inverse) @ G[where][:, :, None])[:, :, 0]
        if deviations is not None:
            variance = np.sqrt(np.maximum(np.diagonal(inverse, axis1=1, axis2=2), 0))
            deviations[where] = variance[batch.pattern]
        if moments is not None:
            flat = gaps[:, :, None].astype(np.int64) * d + gaps[:, None, :]
            weighted = inverse * batch.counts[:, None, None]
            moments += np.bincount(flat.ravel(), weighted.ravel(), d * d).reshape(d, d)
