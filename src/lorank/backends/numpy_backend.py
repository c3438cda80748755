"""The reference backend: NumPy and SciPy only. The plain twin of the C++ kernels, and what serves without them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .hold_out import held_out
from .nonnegative import nonnegative_equations
from .normal_equations import normal_steps
from .numpy_arrays import Dense
from .protocol import Array, HostEntries, Observations

BLOCK = 1 << 16  # observations sampled at a time: bounds the memory of gathered factors
HEAD = 1 << 12  # observations that mostly tell whether all are in order


class Reference(Dense):
    """NumPy/SciPy for everything."""

    name = "reference"

    def row_major_order(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """The stable permutation that sorts observations by row, then by column."""
        return np.lexsort((cols, rows))

    def require_room(self, m: int, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """A MemoryError where m observations of such a matrix cannot fit where this backend computes."""

    def require_bytes(self, needed: int, what: str) -> None:
        """A MemoryError where so much cannot be had where this backend computes."""

    def sorted_pattern(
        self, rows: Array, cols: Array, values: Array, shape: tuple[int, int]
    ) -> tuple[Array, Array, Array, Array]:
        """Observations in row-major order: indptr, column indices, values, and the places where they stood before."""
        indptr = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=shape[0]), out=indptr[1:])
        if _in_order(rows[:HEAD], cols[:HEAD]) and _in_order(rows, cols):  # as it should be already
            return indptr, cols.astype(np.int32), values.copy(), range(len(rows))
        order = self.row_major_order(rows, cols, shape)
        return indptr, cols[order].astype(np.int32), values[order], order

    def repetitions(self, indptr: Array, indices: Array) -> Array:
        """The places k at which observation k + 1 is of the same entry."""
        alike = np.flatnonzero(indices[1:] == indices[:-1])
        row = np.searchsorted(indptr, alike, side="right")
        return alike[alike + 1 < indptr[row]]  # in the same row

    def make_observations(self, indptr: Array, indices: Array, values: Array, n2: int) -> Observations:
        return ReferenceObservations(indptr, indices, values, n2)


class ReferenceObservations:
    """Observed entries y of an n1 x n2 matrix, and the passes that solvers make over them.

    Observations are kept in row-major order; every vector of length m that comes in or goes out has that order.

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
        Of the misfit ``f(X) = 1/2 sum w |X - y|^2`` (:meth:`with_weights`); None stands for ones. ``gradient_rows``,
        ``gradient_cols``, ``line_sums``, ``normal_equations`` and ``blocks`` are those of f; all other passes know no weights.
    """

    weights: Array | None = None

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, n2: int) -> None:
        self.indptr, self.indices, self.values = indptr, indices, values
        self.shape = (len(indptr) - 1, n2)
        self.m = len(values)
        self._build()

    def _build(self) -> None:
        """Check the pattern (and make of it what a backend needs)."""
        ptr, index = self.indptr, self.indices
        if ptr[0] != 0 or ptr[-1] != len(index) or len(index) != self.m or (np.diff(ptr) < 0).any():
            raise ValueError("indptr must rise from 0 to the number of indices")
        if self.m and (index.min() < 0 or index.max() >= self.shape[1]):
            raise ValueError(f"column indices must lie in 0 .. {self.shape[1] - 1}")
        inside = np.ones(self.m, bool)
        inside[ptr[:-1][np.diff(ptr) > 0]] = False
        if (np.diff(index, prepend=0) <= 0)[inside].any():
            raise ValueError("column indices must increase within a row")

    def with_values(self, values: Array) -> Self:
        """The same pattern with other values."""
        twin = copy.copy(self)
        twin.values = values
        return twin if self.weights is None else twin.with_weights(self.weights)

    def with_weights(self, weights: Array | None) -> Self:
        """The same observations with these weights, or with none; they are kept in the precision of the values."""
        twin = copy.copy(self)
        twin.weights = None if weights is None else _weights_of(weights, self.m, self.values.real.dtype)
        return twin

    def host(self) -> HostEntries:
        return HostEntries(self.indptr, self.indices, self.values, self.weights)

    def split(self, seed: int, share: float) -> tuple[Any, Any] | None:
        taken = held_out(np.arange(self.m), seed, share)
        for index, n in ((self.rows, self.shape[0]), (self.indices, self.shape[1])):
            taken &= (np.bincount(index, ~taken, n) > 0)[index]
        return (self._part(~taken), self._part(taken)) if taken.any() else None

    def _part(self, flags: np.ndarray) -> ReferenceObservations:
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
        """The sparse matrix with the entries ``p``, as SciPy CSR."""
        import scipy.sparse

        return scipy.sparse.csr_array((p, self.indices, self.indptr), shape=self.shape)

    # -- the fused passes of a gradient at X = u diag(s) v^H: G = w (X - y) on the pattern ------------------------------
    @property
    def rough(self) -> Any:
        """These observations for passes that six digits suffice for: a backend may gather factors in float32 there."""
        return self

    def gradient_rows(self, u: Array, s: Array, v: Array) -> tuple[Array, np.ndarray, np.ndarray]:
        """``G v``, the squared row norms of G, and the sums over each row of ``w |X - y|^2``."""
        d = self.residual(u * s, v)
        if self.weights is None:
            squares = self.squares(d)[0]
            return self.times(d, v), squares, squares
        g = self.weights * d
        misfit = self.sums((g.astype(np.result_type(g, np.float64)) * d.conj()).real, 0).astype(float, copy=False)
        return self.times(g, v), self.squares(g)[0], misfit

    def gradient_cols(self, u: Array, s: Array, v: Array) -> tuple[Array, np.ndarray]:
        """``G^H u`` and the squared column norms of G."""
        d = self.residual(u * s, v)
        g = d if self.weights is None else self.weights * d
        return self.adjoint_times(g, u), self.squares(g)[1]

    # -- single passes ----------------------------------------------------------------------------------------------
    def residual(self, left: Array, right: Array) -> Array:
        """``left right^H - y`` on the pattern."""
        return self.sample(left, right) - self.values

    def sample(self, left: Array, right: Array) -> Array:
        """Entries of ``left right^H`` on the pattern."""
        out = np.empty(self.m, np.result_type(left, right))
        rows = self.rows
        for k in range(0, self.m, BLOCK):
            part = slice(k, k + BLOCK)
            out[part] = np.einsum("ij,ij->i", left[rows[part]], right[self.indices[part]].conj())
        return out

    def line_sums(self, blocks: tuple[tuple[Array, Array], tuple[Array, Array]], p: Array | None) -> tuple[float, float]:
        """``Re <p, z>`` (0 without p) and ``sum w |z|^2`` for z the sampled sum of the two blocks ``left right^H``."""
        (l1, r1), (l2, r2) = blocks
        z = self.sample(l1, r1) + self.sample(l2, r2)
        double = z.astype(np.result_type(z, np.float64))
        inner = 0.0 if p is None else float(np.vdot(p, double).real)
        return inner, float(np.vdot(double, double if self.weights is None else self.weights * double).real)

    def products(self, p: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """``v -> P v`` and ``u -> P^H u`` for P the sparse matrix of the entries ``p``: for many products with the same one."""
        return functools.partial(self.times, p), functools.partial(self.adjoint_times, p)

    def times(self, p: Array, v: Array) -> Array:
        """``P v`` for P the sparse matrix of the entries ``p``."""
        return self.matrix(p) @ v

    def adjoint_times(self, p: Array, u: Array) -> Array:
        """``P^H u``."""
        return np.ascontiguousarray(self.matrix(p).conj().T @ u)

    def blocks(self, side: int, factor: Array) -> Array:
        """Sums of ``w f_j^H f_j`` over the columns j observed in each row (side 0), or over the rows in each column (side 1).

        Parameters
        ----------
        side : {0, 1}
        factor : (n, r) array
            The other side's: rows ``f_j`` for the columns (side 0) or for the rows (side 1).

        Returns
        -------
        (rows or columns, r, r) array
        """
        p = np.ones(self.m, factor.dtype) if self.weights is None else self.weights.astype(factor.dtype)
        product = self.products(p)[side]
        r = factor.shape[1]
        return np.stack([product(factor[:, k : k + 1].conj() * factor) for k in range(r)], axis=1)

    def normal_equations(
        self,
        columns: bool,
        other: Array,
        prior: Array,
        shift: Array,
        *,
        moments: Array | None = None,
        weights: Array | None = None,
        scale: Array | None = None,
        fixed: int = -1,
        noise: float = 1.0,
        covariance: bool = False,
    ) -> tuple[Array, Array | None, np.ndarray]:
        """The normal equations of each row (column), solved: one half of a sweep of alternating least squares.

        For a row with values r_t at columns whose factors are y_t, with covariances S_t::

            A = sum_t w_t (y_t y_t^T + S_t),   b = sum_t w_t r_t y_t,   (noise A + scale P) x = noise b + scale h

        Parameters
        ----------
        columns : bool
            Solve for the columns' factors instead.
        other : (n, k) array
            The other side's factors. Real, as everything here, and in double precision.
        prior : (k, k) array
            P, the prior's precision.
        shift : (k,) array
            h, the precision times the prior's mean.
        moments : (n, k (k + 1) / 2) array, optional
            S_t, the upper triangles row by row.
        weights : (m,) array, optional
            In row-major order, in place of those of the observations.
        scale : array, optional
            A factor on the prior for each row.
        fixed : int
            The coordinate that is held at 1; none by default.
        noise : float
            The precision of the values.
        covariance : bool
            Whether to return the inverses of the matrices.

        Returns
        -------
        mean : (rows, k) array
        covariance : (rows, k (k + 1) / 2) array or None
            Zero in the fixed coordinate.
        squares : (rows,) array
            The expectation of ``sum_t w_t (r_t - x y_t)^2``.
        """
        n, k = self.shape[1 if columns else 0], other.shape[1]
        upper = np.triu_indices(k)
        major, minor = (self.indices, self.rows) if columns else (self.rows, self.indices)
        order = np.argsort(major, kind="stable")
        ends = np.cumsum(np.bincount(major, minlength=n))
        minor, r = minor[order], self.values[order]
        weights = self.weights if weights is None else weights
        w = np.ones(self.m) if weights is None else weights[order]
        mean, squares = np.empty((n, k)), np.empty(n)
        cov = np.empty((n, len(upper[0]))) if covariance else None
        for i, end in enumerate(ends):
            part = slice(ends[i - 1] if i else 0, end)
            y, wy = other[minor[part]], w[part, None] * other[minor[part]]
            A, b = wy.T @ y, wy.T @ r[part]
            if moments is not None:
                A[upper] += w[part] @ moments[minor[part]]
                A = np.triu(A) + np.triu(A, 1).T
            c = 1.0 if scale is None else scale[i]
            M, h = noise * A + c * prior, noise * b + c * shift
            free = np.arange(k) != fixed
            x, S = np.ones(k), np.zeros((k, k))
            S[np.ix_(free, free)] = np.linalg.inv(M[np.ix_(free, free)])
            x[free] = S[np.ix_(free, free)] @ (h[free] - M[free][:, ~free].sum(1))
            mean[i] = x
            squares[i] = w[part] @ r[part] ** 2 - 2 * x @ b + x @ A @ x
            if cov is not None:
                cov[i] = S[upper]
                squares[i] += (A * S).sum()
        return mean, cov, squares

    def normal_steps(self, columns: bool, other: Array, prior: Array, ridge: Array, start: Array, steps: int) -> Array:
        return normal_steps(self, columns, other, prior, ridge, start, steps)

    def nonnegative_equations(
        self,
        columns: bool,
        other: Array,
        start: Array,
        ridge: Array,
        *,
        centre: Array | None = None,
        prior: Array | None = None,
        weights: Array | None = None,
        cycles: int = 20,
        tolerance: float = 1e-3,
    ) -> tuple[Array, Array]:
        options: dict[str, Any] = {"centre": centre, "prior": prior, "weights": weights, "cycles": cycles}
        return nonnegative_equations(self, columns, other, start, ridge, tolerance=tolerance, **options)

    def squares(self, p: Array) -> tuple[np.ndarray, np.ndarray]:
        """Squared norms of the rows and of the columns of P, in double precision."""
        q = np.abs(p.astype(np.result_type(p, np.float64))) ** 2
        n1, n2 = self.shape
        rows, cols = np.bincount(self.rows, weights=q, minlength=n1), np.bincount(self.indices, weights=q, minlength=n2)
        return rows.astype(float, copy=False), cols.astype(float, copy=False)  # of nothing, bincount makes integers

    def counts(self, side: int) -> Array:
        """Observations in each row (side 0) or column (side 1)."""
        return self._column_counts if side else self._row_counts

    @functools.cached_property
    def _row_counts(self) -> Array:
        return np.diff(self.indptr)

    @functools.cached_property
    def _column_counts(self) -> Array:
        return np.bincount(self.cols, minlength=self.shape[1])

    def gathered(self, w: Array, side: int) -> Array:
        """Sums over each row (side 0) of what the (n, 1) array w has for its observed columns, or the other way round."""
        ones = np.ones(self.m, w.dtype)
        return self.adjoint_times(ones, w) if side else self.times(ones, w)

    def sums(self, p: Array, side: int) -> Array:
        """The sums of the real entries ``p`` over each row (side 0) or column (side 1), in double precision."""
        return np.bincount(self.cols if side else self.rows, p, self.shape[side])

    def outer(self, p: Array) -> tuple[Array, Array]:
        """``P P^H`` and ``P^H P`` as dense arrays."""
        g = self.matrix(p)
        h = g.conj().T
        return (g @ h).toarray(), (h @ g).toarray()


def _in_order(rows: np.ndarray, cols: np.ndarray) -> bool:
    """Whether pairs are sorted by row, then by column."""
    return bool(((rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (cols[1:] >= cols[:-1]))).all())


def _weights_of(weights: Array, m: int, dtype: np.dtype) -> np.ndarray:
    """The weights of m observations, as the passes take them."""
    found = np.ascontiguousarray(weights, dtype)
    if found.shape != (m,):
        raise ValueError(f"{m:,} observations have as many weights, got an array of shape {found.shape}")
    return found
