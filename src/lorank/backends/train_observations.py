"""Observed entries of a tensor for tensor trains, and passes over them: products of cores, one for each observation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

BLOCK = 1 << 20  # numbers of a temporary array
GROUP = 1 << 14  # observations of a block of one index


class TrainObservations:
    """Passes with NumPy and SciPy, in blocks of observations.

    Parameters
    ----------
    indices : (m, d) array
    shape : tuple of int
    """

    def __init__(self, indices: np.ndarray, shape: Sequence[int]) -> None:
        self.shape, self.indices = tuple(shape), [np.ascontiguousarray(column, np.int32) for column in indices.T]
        self._groups: dict[int, list[list[np.ndarray]]] = {}

    def chain(self, k: int, rows: np.ndarray, core: np.ndarray) -> np.ndarray:
        """``rows[p] core[:, i_k, :]`` for each observation p."""
        slices = np.ascontiguousarray(core.transpose(1, 0, 2))
        out = np.empty((len(rows), core.shape[2]), core.dtype)
        for part in self._blocks(len(rows), core.shape[0] * core.shape[2]):
            np.einsum("pa,pab->pb", rows[part], slices[self.indices[k][part]], out=out[part])
        return out

    def sums(self, k: int, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """For each index of mode k the sum of ``left[p]^T right[p]`` over its observations, an array of shape (a, n_k, b)."""
        import scipy.sparse as sp

        n, a, b = self.shape[k], left.shape[1], right.shape[1]
        total = np.zeros((n, a * b), left.dtype)
        for part in self._blocks(len(left), a * b):
            terms = (left[part, :, None] * right[part, None, :]).reshape(-1, a * b)
            m = len(terms)
            total += sp.csr_array((np.ones(m, terms.dtype), (self.indices[k][part], np.arange(m))), (n, m)) @ terms
        return total.reshape(n, a, b).transpose(1, 0, 2)

    def mode_sums(self, k: int, p: np.ndarray) -> np.ndarray:
        """For each index of mode k the sum of p over its observations, in double precision."""
        return np.bincount(self.indices[k], p, self.shape[k])

    def groups(self, k: int) -> list[list[np.ndarray]]:
        """For each index of mode k the positions of its observations, in blocks."""
        if k not in self._groups:
            order = np.argsort(self.indices[k], kind="stable")
            starts = np.searchsorted(self.indices[k][order], np.arange(self.shape[k] + 1))
            found = (order[a:b] for a, b in itertools.pairwise(starts))
            self._groups[k] = [[one[first : first + GROUP] for first in range(0, len(one), GROUP)] for one in found]
        return self._groups[k]

    def _blocks(self, m: int, width: int) -> Iterator[slice]:
        step = max(1, BLOCK // width)
        return (slice(first, first + step) for first in range(0, m, step))
