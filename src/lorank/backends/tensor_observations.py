"""Observed entries of a tensor, and passes over them.

The two shortest modes are *inner*, the others *outer*. A slice is a combination of outer indices that was observed;
observations are sorted by slice. A point gives factors U (n1 x a) and V (n2 x b) of the inner modes, and for each slice an
a x b matrix M_s, so that an entry with inner indices i, j is ``U[i] M_s V[j]^T``: a b multiplications per observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from .observations import Array, Vector

BLOCK = 1 << 22  # numbers of a temporary array


class TensorObservations(Protocol):
    """Observed entries of a tensor, sorted by slice."""

    inner: tuple[int, int]  # modes
    outer: tuple[int, ...]

    def values(self, U: Array, V: Array, M: Array) -> Vector:
        """``U[i] M_s V[j]^T`` of each observation; M has shape (slices, a b)."""
        ...

    def adjoint(self, p: Vector, U: Array, V: Array, M: Array) -> tuple[Array, Array, Array]:
        """Sums of ``p V[j] M_s^T`` for each i, of ``p U[i] M_s`` for each j, and of ``p U[i]^T V[j]`` for each slice.

        Arrays of shapes (n1, a), (n2, b) and (slices, a b).
        """
        ...

    def outer_products(self, factors: Sequence[Array]) -> Array:
        """For each slice the Kronecker product of the rows of the outer factors."""
        ...

    def outer_adjoint(self, T: Array, factors: Sequence[Array]) -> list[Array]:
        """Derivative of ``<T, outer_products(factors)>`` in each factor."""
        ...

    def mode_sums(self, k: int, p: Vector) -> Array:
        """For each index of mode k the sum of p over its observations, in double precision."""
        ...


class NumpyTensorObservations:
    """Passes with NumPy and SciPy, in blocks of observations.

    Parameters
    ----------
    indices : (m, d) array
        Sorted by slice (:func:`slice_order`).
    shape : tuple of int
    """

    def __init__(self, indices: np.ndarray, shape: Sequence[int]) -> None:
        self.shape, self.inner, self.outer = tuple(shape), *split_modes(shape)
        self.indices = [np.ascontiguousarray(indices[:, k], np.int32) for k in range(len(shape))]
        if len(self.outer) == 1:  # one slice for each index, observed or not
            self.slice_indices, self.slices = [np.arange(shape[self.outer[0]])], self.indices[self.outer[0]]
            counts = np.bincount(self.slices, minlength=shape[self.outer[0]])
        else:
            outer = indices[:, list(self.outer)]
            first = np.ones(len(outer), bool)
            first[1:] = (outer[1:] != outer[:-1]).any(1)
            starts = np.flatnonzero(first)
            self.slice_indices = [outer[starts, k] for k in range(outer.shape[1])]
            self.slices = (np.cumsum(first) - 1).astype(np.int32)
            counts = np.diff(np.append(starts, len(outer)))
        self.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def values(self, U: Array, V: Array, M: Array) -> Vector:
        return self._joined([self._values(part, U, V, M) for part in self._blocks(M)], M)

    def adjoint(self, p: Vector, U: Array, V: Array, M: Array) -> tuple[Array, Array, Array]:
        i, j = (self.indices[k] for k in self.inner)
        sums = 0 * U, 0 * V, 0 * M
        for part in self._blocks(M):
            matrices = M[self.slices[part]].reshape(-1, U.shape[1], V.shape[1])
            u, v = U[i[part]], p[part, None] * V[j[part]]
            terms = (
                (matrices * v[:, None, :]).sum(2),
                p[part, None] * (u[:, :, None] * matrices).sum(1),
                (u[:, :, None] * v[:, None, :]).reshape(len(u), -1),
            )
            for total, index, rows in zip(sums, (i, j, self.slices), terms, strict=True):
                total += self._sum_rows(index[part], rows, len(total))
        return sums

    def outer_products(self, factors: Sequence[Array]) -> Array:
        if len(factors) == 1:
            return factors[0]
        rows = [u[index] for u, index in zip(factors, self.slice_indices, strict=True)]
        out = rows[0]
        for one in rows[1:]:
            out = (out[:, :, None] * one[:, None, :]).reshape(len(out), -1)
        return out

    def outer_adjoint(self, T: Array, factors: Sequence[Array]) -> list[Array]:
        if len(factors) == 1:
            return [T]
        rows = [u[index] for u, index in zip(factors, self.slice_indices, strict=True)]
        letters = "abcdefgh"[: len(rows)]
        T, found = T.reshape(len(T), *(one.shape[1] for one in rows)), []
        for k, u in enumerate(factors):
            others = [j for j in range(len(rows)) if j != k]
            terms = ",".join([f"s{letters}", *(f"s{letters[j]}" for j in others)])
            sums = self._einsum(f"{terms}->s{letters[k]}", T, *(rows[j] for j in others))
            found.append(self._sum_rows(self.slice_indices[k], sums, len(u)))
        return found

    def mode_sums(self, k: int, p: Vector) -> Array:
        return np.bincount(self.indices[k], p, self.shape[k])

    def _values(self, part: slice, U: Array, V: Array, M: Array) -> Vector:
        i, j = (self.indices[k][part] for k in self.inner)
        left = (U[i][:, :, None] * M[self.slices[part]].reshape(-1, U.shape[1], V.shape[1])).sum(1)
        return (left * V[j]).sum(1)

    def _blocks(self, M: Array) -> list[slice]:
        step = max(1, BLOCK // M.shape[1])
        return [slice(first, first + step) for first in range(0, len(self.slices), step)]

    def _joined(self, parts: list[Vector], like: Array) -> Vector:
        return np.concatenate(parts) if parts else np.zeros(0, like.dtype)

    def _einsum(self, terms: str, *arrays: Array) -> Array:
        return np.einsum(terms, *arrays, optimize=True)

    def _sum_rows(self, index: Any, rows: Array, n: int) -> Array:
        """Sums of the rows with equal index."""
        import scipy.sparse as sp

        m = len(index)
        return sp.csr_array((np.ones(m, rows.dtype), (index, np.arange(m))), (n, m)) @ rows


class TorchTensorObservations(NumpyTensorObservations):
    """The same passes with PyTorch on a device."""

    def __init__(self, indices: np.ndarray, shape: Sequence[int], device: Any) -> None:
        import torch

        super().__init__(indices, shape)
        self._torch = torch
        self.indices, self.slice_indices, (self.slices, self.indptr) = (
            [torch.from_numpy(np.asarray(a, np.int64)).to(device) for a in arrays]
            for arrays in (self.indices, self.slice_indices, (self.slices, self.indptr))
        )

    def mode_sums(self, k: int, p: Vector) -> Array:
        return self._sum_rows(self.indices[k], p.double(), self.shape[k])

    def _joined(self, parts: list[Vector], like: Array) -> Vector:
        return self._torch.cat(parts) if parts else like.new_zeros(0)

    def _einsum(self, terms: str, *arrays: Array) -> Array:
        return self._torch.einsum(terms, *arrays)

    def _sum_rows(self, index: Any, rows: Array, n: int) -> Array:
        return rows.new_zeros((n, *rows.shape[1:])).index_add_(0, index, rows)


def split_modes(shape: Sequence[int]) -> tuple[tuple[int, int], tuple[int, ...]]:
    """The two shortest modes, and the others; both in increasing order."""
    shortest = sorted(range(len(shape)), key=lambda k: shape[k])[:2]
    i, j = sorted(shortest)
    return (i, j), tuple(k for k in range(len(shape)) if k not in shortest)


def slice_order(indices: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The permutation that sorts observations by slice, then by their inner indices."""
    (i, j), outer = split_modes(shape)
    return np.lexsort([indices[:, k] for k in (j, i, *reversed(outer))])
