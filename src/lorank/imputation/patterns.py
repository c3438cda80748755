"""Rows of a table grouped by which of their cells are missing.

Rows with the same gaps share the matrix that fills them. Patterns with the same number of gaps are worked on together, as one
batch of small matrices: with gaps here and there nearly every row has a pattern of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

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


def batches(missing: np.ndarray) -> list[Batch]:
    """The rows with gaps.

    Parameters
    ----------
    missing : (n, d) Boolean array
    """
    return list(_batches(missing))


def _batches(missing: np.ndarray) -> Iterator[Batch]:
    k = missing.sum(axis=1)
    for count in np.unique(k[k > 0]):
        rows = np.flatnonzero(k == count)
        packed = np.packbits(missing[rows], axis=1)
        _, first, pattern, counts = np.unique(
            np.ascontiguousarray(packed).view([("", packed.dtype)] * packed.shape[1]).ravel(),
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        order = np.argsort(pattern, kind="stable")
        rows, pattern = rows[order], pattern[order]
        gaps = np.nonzero(missing[rows[np.concatenate([[0], np.cumsum(counts)[:-1]])]])[1].reshape(len(first), count)
        step = max(1, BATCH // int(count) ** 2)
        ends = np.cumsum(counts)
        for low in range(0, len(first), step):
            high = min(low + step, len(first))
            at = slice(int(ends[low] - counts[low]), int(ends[high - 1]))
            many = slice(low, high)
            yield Batch(gaps[many], counts[many], rows[at], pattern[at] - low)
