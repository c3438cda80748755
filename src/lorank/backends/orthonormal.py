"""Orthonormal columns of tall arrays: a basis that grows, and Cholesky QR from Gram matrices with checks of accuracy."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from .observations import Array

if TYPE_CHECKING:
    from .protocol import Arrays


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
        if extended is None:
            return self.extend_safely(y)
        self.append(extended[0])
        return extended[1]

    def extend_safely(self, y: Array) -> Array:
        """:meth:`extend` for dependent columns: where k is zero, any q that is orthogonal to the basis will do."""
        q, k = self.backend.qr(y)
        q, change = self.backend.qr(self.backend.project_out(self.columns, q)[0])
        self.append(q)
        return change @ k

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
