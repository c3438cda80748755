"""Observed entries as NumPy arrays, and the passes over them by NumPy and SciPy."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from .normal_equations import NonnegativeSystems, RowSystems, descend, solve_systems
from .observations import Array, HostEntries, Observations, held_out

BLOCK = 1 << 16  # observations sampled at a time: bounds the memory of gathered factors
CHUNK = 1 << 22  # numbers in the matrices of normal equations that are held at a time


class NumpyObservations(Observations):
    """Observed entries of an n1 x n2 matrix.

    Parameters
    ----------
    indptr : (n1 + 1,) int64 array
    indices : (m,) int32 array
        Strictly increasing within each row.
    values : (m,) array
    n2 : int

    Attributes
    ----------
    weights : (m,) real array or None
        ``gradient_rows``, ``gradient_cols``, ``line_sums``, ``blocks`` and the normal equations use them; other passes do not.
    """

    weights: Array | None = None

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, n2: int) -> None:
        self.indptr, self.indices, self.values = indptr, indices, values
        self.shape = (len(indptr) - 1, n2)
        self.m = len(values)
        self._build()

    def _build(self) -> None:
        """Check the pattern; subclasses derive further arrays from it."""
        ptr, index = self.indptr, self.indices
        if ptr[0] != 0 or ptr[-1] != len(index) or len(index) != self.m or (np.diff(ptr) < 0).any():
            raise ValueError("indptr must increase from 0 to the number of indices")
        if self.m and (index.min() < 0 or index.max() >= self.shape[1]):
            raise ValueError(f"column indices must lie in 0 .. {self.shape[1] - 1}")
        inside = np.ones(self.m, bool)
        inside[ptr[:-1][np.diff(ptr) > 0]] = False
        if (np.diff(index, prepend=0) <= 0)[inside].any():
            raise ValueError("column indices must increase within a row")

    def with_values(self, values: Array) -> Self:
        twin = copy.copy(self)
        twin.values = values
        return twin if self.weights is None else twin.with_weights(self.weights)

    def with_weights(self, weights: Array | None) -> Self:
        twin = copy.copy(self)
        twin.weights = None if weights is None else _weights_of(weights, self.m, self.values.real.dtype)
        return twin

    def host(self) -> HostEntries:
        return HostEntries(self.indptr, self.indices, self.values, self.weights)

    def split(self, seed: int, share: float) -> tuple[Any, Any] | None:
        taken = held_out(np.arange(self.m), seed, share)
        for index, n in ((self.rows, self.shape[0]), (self.indices, self.shape[1])):
            taken &= (np.bincount(index, ~taken, n) > 0)[index]
        return (self.part(~taken), self.part(taken)) if taken.any() else None

    def part(self, flags: np.ndarray) -> NumpyObservations:
        indptr = np.concatenate([[0], np.cumsum(flags)])[self.indptr]
        part = type(self)(indptr, self.indices[flags], self.values[flags], self.shape[1])
        return part if self.weights is None else part.with_weights(self.weights[flags])

    @property
    def rows(self) -> np.ndarray:
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.indptr))

    @property
    def cols(self) -> np.ndarray:
        return self.indices

    def matrix(self, p: Array) -> Any:
        import scipy.sparse

        return scipy.sparse.csr_array((p, self.indices, self.indptr), shape=self.shape)

    # -- the fused passes of a gradient at X = u diag(s) v^H: G = w (X - y) on the pattern ------------------------------
    def gradient_rows(self, u: Array, s: Array, v: Array) -> tuple[Array, np.ndarray, np.ndarray]:
        d = self.residual(u * s, v)
        if self.weights is None:
            squares = self.squares(d)[0]
            return self.times(d, v), squares, squares
        g = self.weights * d
        misfit = self.sums((g.astype(np.result_type(g, np.float64)) * d.conj()).real, 0).astype(float, copy=False)
        return self.times(g, v), self.squares(g)[0], misfit

    def gradient_cols(self, u: Array, s: Array, v: Array) -> tuple[Array, np.ndarray]:
        d = self.residual(u * s, v)
        g = d if self.weights is None else self.weights * d
        return self.adjoint_times(g, u), self.squares(g)[1]

    # -- single passes ----------------------------------------------------------------------------------------------
    def residual(self, left: Array, right: Array) -> Array:
        return self.sample(left, right) - self.values

    def sample(self, left: Array, right: Array) -> Array:
        out = np.empty(self.m, np.result_type(left, right))
        rows = self.rows
        for k in range(0, self.m, BLOCK):
            part = slice(k, k + BLOCK)
            out[part] = np.einsum("ij,ij->i", left[rows[part]], right[self.indices[part]].conj())
        return out

    def line_sums(self, blocks: tuple[tuple[Array, Array], tuple[Array, Array]], p: Array | None) -> tuple[float, float]:
        (l1, r1), (l2, r2) = blocks
        z = self.sample(l1, r1) + self.sample(l2, r2)
        double = z.astype(np.result_type(z, np.float64))
        inner = 0.0 if p is None else float(np.vdot(p, double).real)
        return inner, float(np.vdot(double, double if self.weights is None else self.weights * double).real)

    def times(self, p: Array, v: Array) -> Array:
        return self.matrix(p) @ v

    def adjoint_times(self, p: Array, u: Array) -> Array:
        return np.ascontiguousarray(self.matrix(p).conj().T @ u)

    def blocks(self, side: int, factor: Array) -> Array:
        p = np.ones(self.m, factor.dtype) if self.weights is None else self.weights.astype(factor.dtype)
        product = self.products(p)[side]
        r = factor.shape[1]
        return np.stack([product(factor[:, k : k + 1].conj() * factor) for k in range(r)], axis=1)

    def _normal_equations(self, columns: bool, given: RowSystems) -> tuple[Array, Array | None, np.ndarray]:
        n, k = self.shape[1 if columns else 0], given.other.shape[1]
        mean, squares = np.empty((n, k)), np.empty(n)
        cov = np.empty((n, k * (k + 1) // 2))
        c = np.ones(n) if given.scale is None else given.scale
        for rows, A, b, total in self._normal_sums(columns, given.other, given.weights, given.moments):
            mean[rows], cov[rows], squares[rows] = solve_systems(A, b, total, c[rows], given)
        return mean, cov if given.covariance else None, squares

    def _nonnegative_equations(self, columns: bool, given: NonnegativeSystems) -> tuple[Array, Array]:
        x, squares = np.array(given.start, float), np.empty(len(given.start))
        for rows, A, b, total in self._normal_sums(columns, given.other, given.weights):
            M = A + given.ridge[rows, None, None] * np.eye(len(b.T)) + (0.0 if given.prior is None else given.prior)
            h = b if given.centre is None else b + given.ridge[rows, None] * given.centre
            found = descend(M, h, x[rows], given.cycles, given.tolerance)
            squares[rows] = total + (found * (np.einsum("nij,nj->ni", A, found) - 2 * b)).sum(1)
        return x, squares

    def _normal_sums(
        self, columns: bool, other: Array, weights: Array | None, moments: Array | None = None
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
        """A group of rows (columns), and for each of them ``sum_t w_t (y_t y_t^T + S_t)``, ``sum_t w_t r_t y_t`` and
        ``sum_t w_t r_t^2``.
        """
        n, k = self.shape[1 if columns else 0], other.shape[1]
        major, minor = (self.indices, self.rows) if columns else (self.rows, self.indices)
        order = np.argsort(major, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(major, minlength=n))])
        weights = self.weights if weights is None else weights
        w = np.ones(self.m) if weights is None else weights[order].astype(float)
        minor, r, upper = minor[order], self.values[order].astype(float), np.triu_indices(k)
        step = max(1, CHUNK // max(k * k, 1))
        for first in range(0, n, step):
            rows = slice(first, min(first + step, n))
            A, b, total = np.empty((rows.stop - first, k, k)), np.empty((rows.stop - first, k)), np.empty(rows.stop - first)
            for at in range(rows.stop - first):
                part = slice(ends[first + at], ends[first + at + 1])
                y, wr = other[minor[part]], w[part] * r[part]
                A[at], b[at], total[at] = (y.T * w[part]) @ y, y.T @ wr, wr @ r[part]
                if moments is not None:
                    A[at][upper] += w[part] @ moments[minor[part]]
                    A[at] = np.triu(A[at]) + np.triu(A[at], 1).T
            yield rows, A, b, total

    def squares(self, p: Array) -> tuple[np.ndarray, np.ndarray]:
        q = np.abs(p.astype(np.result_type(p, np.float64))) ** 2
        n1, n2 = self.shape
        rows, cols = np.bincount(self.rows, weights=q, minlength=n1), np.bincount(self.indices, weights=q, minlength=n2)
        return rows.astype(float, copy=False), cols.astype(float, copy=False)  # bincount of an empty array has integers

    def counts(self, side: int) -> Array:
        return self._column_counts if side else self._row_counts

    @functools.cached_property
    def _row_counts(self) -> Array:
        return np.diff(self.indptr)

    @functools.cached_property
    def _column_counts(self) -> Array:
        return np.bincount(self.cols, minlength=self.shape[1])

    def gathered(self, w: Array, side: int) -> Array:
        ones = np.ones(self.m, w.dtype)
        return self.adjoint_times(ones, w) if side else self.times(ones, w)

    def sums(self, p: Array, side: int) -> Array:
        return np.bincount(self.cols if side else self.rows, p, self.shape[side])

    def outer(self, p: Array) -> tuple[Array, Array]:
        g = self.matrix(p)
        h = g.conj().T
        return (g @ h).toarray(), (h @ g).toarray()


def _weights_of(weights: Array, m: int, dtype: np.dtype) -> np.ndarray:
    """Weights of m observations as a contiguous array."""
    found = np.ascontiguousarray(weights, dtype)
    if found.shape != (m,):
        raise ValueError(f"weights must have shape ({m},), one for each observation; got {found.shape}")
    return found
