"""A with columns of unit size, in single precision: for products of which a few digits suffice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array, Arrays
from .linear_maps import DiffractionMap, LinearMap, MatrixMap

BLOCK = 1 << 15  # entries of A that are scaled and rounded at a time: in the cache


@dataclass(frozen=True)
class RoughMap:
    """``B = A diag(d)^-1`` for the column norms d of A, as exactly as products for a search direction need it.

    Columns alike in size are what a signal's start and its descent want: a step is then as long in one coordinate as in
    another. An array of double precision is kept once more in single precision, which halves the time of a product that
    memory bounds; :meth:`exact` is for the images of the points themselves.

    Attributes
    ----------
    linear_map : LinearMap
        A.
    d : (n, 1) array or None
        The norms of the columns of A over their mean, in square; None where they are all taken for 1.
    B : (m, n) array or None
        None where products go through A.
    row_energy : (m,) array or None
        Squared norms of the rows of B over n; None where nobody knows.
    """

    linear_map: LinearMap
    d: Array | None
    B: Array | None
    row_energy: Array | None

    def apply(self, v: Array) -> Array:
        """``B v``, (m, 1), about as exact as single precision is."""
        if self.B is not None:
            return self.B @ v.astype(self.B.dtype)
        return self.linear_map.apply(v if self.d is None else v / self.d)

    def adjoint(self, w: Array) -> Array:
        """``B^H w``, (n, 1)."""
        if self.B is None:
            g = self.linear_map.adjoint(w)
            return g if self.d is None else g / self.d
        w = w.astype(self.B.dtype)
        return (w.conj().T @ self.B).conj().T if w.dtype.kind == "c" else self.B.T @ w

    def exact(self, v: Array) -> Array:
        """``B v`` with all digits."""
        return self.linear_map.apply(self.signal(v))

    def signal(self, v: Array) -> Array:
        """The x with ``A x = B v``."""
        return v if self.d is None else v / self.d

    def scaled(self, x: Array) -> Array:
        """The v with ``A x = B v``."""
        return x if self.d is None else x * self.d

    @property
    def rounds(self) -> bool:
        """Whether products have fewer digits than exact ones."""
        return self.B is not None


def rough_map(linear_map: LinearMap, backend: Arrays) -> RoughMap:
    """What suits the linear map: a rounded copy of an array in main memory; else products with A itself."""
    real = np.zeros(0, linear_map.dtype).real.dtype
    if isinstance(linear_map, MatrixMap):
        d = _scales(linear_map.squares[1], backend, real)
        if isinstance(linear_map.A, np.ndarray) and linear_map.dtype in (np.float64, np.complex128):
            return _rounded(linear_map, d)
        rows = backend.row_squares(linear_map.A if d is None else linear_map.A / d[:, 0])
        return RoughMap(linear_map, d, None, rows / linear_map.n)
    if isinstance(linear_map, DiffractionMap):
        squares = (abs(linear_map.masks) ** 2).sum(0).reshape(-1)
        return RoughMap(linear_map, _scales(squares, backend, real), None, None)
    return RoughMap(linear_map, None, None, None)


def _scales(squares: Array, backend: Arrays, dtype: Any) -> Array | None:
    """Column norms over their mean; a column of zeros counts as one of the mean's. None where there is nothing to scale."""
    mean = float(squares.mean())
    relative = squares / mean
    relative = relative + (relative < 1e-24)
    if float(relative.max()) < 2 and float(relative.min()) > 0.5:  # Gaussian columns differ as much
        return None
    return backend.asarray((relative**0.5)[:, None], dtype)


def _rounded(linear_map: MatrixMap, d: Array | None) -> RoughMap:
    A, (m, n), (rows, cols) = linear_map.A, linear_map.A.shape, linear_map.squares
    single = np.complex64 if A.dtype.kind == "c" else np.float32
    size = float(cols.mean() / m) ** 0.5
    safe = 1e-4 < size < 1e4
    if d is None and safe:
        return RoughMap(linear_map, None, A.astype(single), rows / n)
    unit = 1.0 if safe else 2.0 ** round(math.log2(size))  # which single precision could not hold the products of
    d = np.full((n, 1), unit) if d is None else unit * d
    factor, B, rows = 1 / d[:, 0], np.empty((m, n), single), np.empty(m)
    rounded = factor.astype(np.float32)
    step = max(1, BLOCK // n)
    for k in range(0, m, step):
        part = B[k : k + step]
        if safe:  # rounded first: in half the time
            part[...] = A[k : k + step]
            part *= rounded
        else:
            part[...] = A[k : k + step] * factor
        real = part.view(np.float32)
        rows[k : k + step] = np.einsum("ij,ij->i", real, real)
    return RoughMap(linear_map, d, B, rows / n)
