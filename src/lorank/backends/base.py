"""Base class of backends: the members that follow from others, the algebra of small NumPy arrays, and Cholesky QR."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .observations import Array
from .protocol import Arrays

GATHERED = 1 << 22  # numbers of covariances that are gathered at a time


class BackendBase:
    """Default implementations of :class:`~lorank.backends.protocol.Backend`.

    A backend supplies the others: creation, ``norm``, ``inner``, ``product``, ``gram`` and so on, and the making of
    observations. It overrides the defaults for which it has something faster.
    """

    # -- creation ----------------------------------------------------------------------------------------------------
    def asarrays(self, *arrays: Array) -> tuple[Array, ...]:
        return arrays

    def asmatrix(self, matrix: Any) -> Any:
        return matrix

    def asindex(self, a: Array) -> Array:
        return a

    def detached(self, a: Array) -> Array:
        return a

    def is_complex(self: Arrays, a: Array) -> bool:
        return self.dtype(a).kind == "c"

    def release(self) -> None:
        pass

    def check_memory(self, m: int, shape: tuple[int, ...], dtype: np.dtype) -> None:
        pass

    def check_bytes(self, needed: int, what: str) -> None:
        pass

    # -- several at once ---------------------------------------------------------------------------------------------
    def norms(self: Arrays, arrays: Sequence[Array]) -> list[float]:
        return [self.norm(a) for a in arrays]

    def inners(self: Arrays, pairs: Sequence[tuple[Array, Array]]) -> list[float]:
        return [self.inner(a, b) for a, b in pairs]

    def gram_pairs(self: Arrays, pairs: Sequence[tuple[Array, Array]]) -> list[Array]:
        return [self.gram(a, b) for a, b in pairs]

    def prepare_grams(self, *sides: Sequence[Array]) -> None:
        pass

    def qrs(self: Arrays, arrays: Sequence[Array]) -> list[tuple[Array, np.ndarray]]:
        return [self.qr(a) for a in arrays]

    def extend_bases(self: Arrays, pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, np.ndarray]] | None:
        found = []
        for u, y in pairs:
            one = self.extend_basis(u, y)
            if one is None:
                return None
            found.append(one)
        return found

    # -- tall arrays -------------------------------------------------------------------------------------------------
    def squared_norm(self: Arrays, a: Array) -> float:
        return self.norm(a) ** 2

    def median(self: Arrays, a: Array) -> float:
        return self.percentiles(a, [50])[0]

    def column_means(self, a: Array) -> Array:
        return a.mean(0)

    def variances(self: Arrays, x: Array, S: Array, y: Array, T: Array, rows: Array, cols: Array) -> Array:
        # y^T S y + x^T T x + trace(S T) is trace((S + x x^T) (T + y y^T)) - (x y)^2: entries of products of tall arrays.
        a, b = np.triu_indices(x.shape[1])
        twice = self.asarray(np.where(a == b, 1.0, np.sqrt(2.0)))  # entries off the diagonal count twice
        left, right = ((packed + z[:, a] * z[:, b]) * twice for z, packed in ((x, S), (y, T)))
        step = max(1, GATHERED // len(a))
        parts = [
            self.entries(left, right, rows[at : at + step], cols[at : at + step]) for at in range(0, max(len(rows), 1), step)
        ]
        return (self.concat(parts, axis=0) - self.entries(x, y, rows, cols) ** 2).clip(0)

    def project_out(self: Arrays, basis: Array, y: Array) -> tuple[Array, np.ndarray]:
        first = self.gram(basis, y)
        y = self.minus(y, basis, first)
        second = self.gram(basis, y)  # a second projection removes the rounding errors of the first
        return self.minus(y, basis, second), first + second

    def extend_basis(self: Arrays, u: Array, y: Array) -> tuple[Array, np.ndarray] | None:
        """By two Gram/Cholesky passes, several times faster than Householder reflections; by one where the columns of y are
        at large angles.
        """
        overlap = in_double(self.gram(u, y))
        first = first_pass(in_double(self.gram(y, y)) - overlap.conj().T @ overlap)
        if first is None:
            return None
        k, inverse = first
        overlap = overlap @ inverse
        a, b = inverse.astype(y.dtype), -overlap.astype(y.dtype)
        q = self.plus(y, a, u, b) if len(b) else self.product(y, a)
        if at_large_angles(k, inverse, y) and abs(overlap).max(initial=0) < 0.1:
            return q, k.astype(y.dtype)
        q = self.minus(q, u, self.gram(u, q))
        second = second_pass(self.gram(q, q))
        if second is None:
            return None
        return self.product(q, second[1].astype(y.dtype)), (second[0] @ k).astype(y.dtype)

    def basis(self: Arrays, n: int, width: int, dtype: Any) -> Any:
        return Basis(self, n, width, dtype)

    def orthonormalize(self: Arrays, y: Array) -> Array:
        extended = self.extend_basis(y[:, :0], y)
        return self.qr(y)[0] if extended is None else extended[0]

    # -- small arrays ------------------------------------------------------------------------------------------------
    def small(self, a: Array) -> np.ndarray:
        return a

    def values(self, s: Array) -> Array:
        return s

    def svd(self: Arrays, a: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        a = self.to_numpy(a)
        if not np.isfinite(a).all():
            return _nan_svd(a)
        try:
            u, s, vh = np.linalg.svd(a, full_matrices=False)
        except np.linalg.LinAlgError:  # gesdd failed; gesvd is slower and more reliable
            import scipy.linalg

            try:
                u, s, vh = scipy.linalg.svd(a, full_matrices=False, lapack_driver="gesvd")
            except np.linalg.LinAlgError:
                return _nan_svd(a)
        return u, s, vh.conj().T

    def eigh(self: Arrays, a: Array) -> tuple[np.ndarray, np.ndarray]:
        a = self.to_numpy(a)
        try:
            values, vectors = np.linalg.eigh(a)
        except np.linalg.LinAlgError:
            return np.full(len(a), np.nan, a.real.dtype), np.full_like(a, np.nan)
        return values[::-1], vectors[:, ::-1]

    def inverse(self: Arrays, m: Array) -> np.ndarray:
        m = self.to_numpy(m)
        try:
            return np.linalg.inv(m)
        except np.linalg.LinAlgError:
            return np.full_like(m, np.nan)

    def block_solver(self: Arrays, stack: Array) -> Callable[[Array], Array]:
        inverses = self.inverses(stack)
        return lambda a: (a[:, None, :] @ inverses)[:, 0, :]

    def add_diagonal(self, m: Array, d: Array) -> np.ndarray:
        m[np.diag_indices(len(d))] += d
        return m


class Basis:
    """Orthonormal columns, appended in blocks.

    Parameters
    ----------
    backend : Arrays
    n, width : int
        Length of the columns, and how many are allocated.
    dtype : dtype
    """

    def __init__(self, backend: Arrays, n: int, width: int, dtype: Any) -> None:
        self.backend, self._all, self._start, self._end = backend, backend.zeros((n, width), dtype), 0, 0

    @property
    def columns(self) -> Array:
        """All columns."""
        return self._all[:, : self._end]

    @property
    def last(self) -> Array:
        """The block that was appended last."""
        return self._all[:, self._start : self._end]

    def append(self, q: Array) -> None:
        """Append orthonormal columns that are orthogonal to the basis."""
        self._start, self._end = self._end, self._end + q.shape[1]
        self.last[...] = q

    def project_out(self, y: Array) -> tuple[Array, Array]:
        """``y`` minus its projection on the basis, and the coefficients of the projection."""
        return self.backend.project_out(self.columns, y)

    def extend(self, y: Array) -> Array:
        """Append an orthonormal q with ``y = q k``, for y orthogonal to the basis; return k."""
        extended = self.backend.extend_basis(self.columns, y)
        if extended is None:  # dependent columns: where k is zero, any q that is orthogonal to the basis will do
            q, k = self.backend.qr(y)
            q, change = self.backend.qr(self.project_out(q)[0])
            extended = q, change @ k
        self.append(extended[0])
        return extended[1]

    def product(self, p: Array) -> Array:
        """The basis times a small p."""
        return self.backend.product(self.columns, p)

    def restart(self, q: Array) -> None:
        """Replace the basis by these columns."""
        self._end = 0
        self.append(q)

    def first(self, count: int) -> Array:
        """Copy of the first columns."""
        return self.backend.copy(self._all[:, :count])


def in_double(a: Array) -> np.ndarray:
    """NumPy array in double precision; no copy where it is."""
    a = np.asarray(a)
    if a.dtype == np.float64 or a.dtype == np.complex128:  # the common case, several times a step
        return a
    return a.astype(np.result_type(a, np.float64), copy=False)


def _nan_svd(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    k = min(a.shape)
    return (
        np.full((a.shape[0], k), np.nan, a.dtype),
        np.full(k, np.nan, a.real.dtype),
        np.full((a.shape[1], k), np.nan, a.dtype),
    )


# -- Cholesky QR: factors of tall arrays from their Gram matrices, with checks of accuracy --------------------------------
def first_pass(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """From ``y^H y``: k and its inverse with ``y = q k`` and q nearly orthonormal; None where y is nearly dependent."""
    diagonal = np.diagonal(squares).real
    if not (len(diagonal) == 0 or 0 < diagonal.min() <= diagonal.max() < np.inf):  # also catches nan
        return None
    scale = np.sqrt(diagonal)
    found = _cholesky(squares / np.outer(scale, scale))
    return None if found is None else (found[0] * scale, found[1] / scale[:, None])


def at_large_angles(k: np.ndarray, inverse: np.ndarray, y: Array) -> bool:
    """One Cholesky pass loses less than a digit: the columns of ``y = q k`` are far from dependent.

    The criterion is the inverse of k for columns of unit length. False where squares may have underflowed.
    """
    size = abs(k).max(0, initial=0)  # norms of the columns, within a factor: prevents overflow of squares
    numbers = np.finfo(y.dtype)
    if size.min(initial=np.inf) < np.sqrt(len(y) * numbers.tiny / numbers.eps):
        return False
    return float((abs(k / size) ** 2).sum(0) @ (abs(inverse * size[:, None]) ** 2).sum(1)) < len(k) + 8


def second_pass(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The same from ``q^H q`` of a nearly orthonormal q; None where it is not."""
    if not abs(squares - np.eye(len(squares))).max(initial=0) < 0.1:  # also catches nan
        return None
    return _cholesky(squares)


def _cholesky(a: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Upper triangular k with ``a = k^H k`` and its inverse, in double precision; None where a is not positive definite.

    Calls LAPACK directly: on small matrices the functions of NumPy take several times as long.
    """
    if not len(a):
        return a, a
    factor, invert = _lapack(a.dtype.kind == "c")
    k, failed = factor(a, clean=True)
    if failed:
        return None
    inverse, failed = invert(k)
    return None if failed else (k, inverse)


@functools.cache
def _lapack(complex_: bool) -> tuple[Any, Any]:
    from scipy.linalg import lapack

    return (lapack.zpotrf, lapack.ztrtri) if complex_ else (lapack.dpotrf, lapack.dtrtri)
