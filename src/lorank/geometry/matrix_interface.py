"""Array interface of factored matrices: products, transposes, rows, blocks and entries."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..backends import Array
from ..common.checks import ParameterError, check, optional, whole

DENSE_LIMIT = 50_000_000  # entries; 400 MB in float64


class MatrixInterface:
    """``U diag(s) V^H`` with the interface of an array and of SciPy's linear operators.

    Products cost ``(n1 + n2) r`` operations per column, rows and blocks r operations per entry. Arrays of more than
    ``DENSE_LIMIT`` entries are refused.
    """

    __slots__ = ()
    __array_ufunc__ = None  # makes ``array @ X`` call X.__rmatmul__

    U: Array
    s: Array
    V: Array
    backend: Any
    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        return self.U.shape[0], self.V.shape[0]

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    @property
    def T(self) -> Self:
        """The transpose; :attr:`H` is the conjugate transpose."""
        return self.H.conj()

    @property
    def H(self) -> Self:
        """The conjugate transpose."""
        return type(self)(self.V, self.s, self.U, self.backend)  # type: ignore[call-arg]

    def conj(self) -> Self:
        """The complex conjugate; the point itself where it is real."""
        if not self.backend.is_complex(self.U):
            return self
        U = self.backend.asarray(self.U.conj())
        V = U if self.V is self.U else self.backend.asarray(self.V.conj())
        return type(self)(U, self.s, V, self.backend)  # type: ignore[call-arg]

    def __len__(self) -> int:
        return self.shape[0]

    # -- products ------------------------------------------------------------------------------------------------------
    def __matmul__(self, other: Any) -> Any:
        """``X @ v`` for a vector, a thin array, a sparse matrix or another factored matrix."""
        if isinstance(other, MatrixInterface):
            return self._times_point(other)
        if hasattr(other, "tocoo"):
            _check_lengths("X @ S", self.shape[1], other.shape[0], self.shape, other.shape)
            check_size((self.shape[0], other.shape[1]), np.result_type(self.U.dtype, other.dtype), "X[rows] @ S")
            U, s, V = map(self.backend.to_numpy, (self.U, self.s, self.V))
            return (U * s) @ (other.conj().T @ V).conj().T
        v, U, s, V = self._alike(other, "v")
        _check_lengths("X @ v", self.shape[1], v.shape[0], self.shape, v.shape)
        core = V.conj().T @ v
        return U @ (s * core if v.ndim == 1 else s[:, None] * core)

    def __rmatmul__(self, other: Any) -> Any:
        """``v @ X`` for a vector or an array with few rows."""
        v, U, s, V = self._alike(other, "v")
        _check_lengths("v @ X", v.shape[-1], self.shape[0], v.shape, self.shape)
        return ((v @ U) * s) @ V.conj().T

    def matvec(self, v: Any) -> Array:
        """``X v``."""
        return self @ v

    def rmatvec(self, u: Any) -> Array:
        """``X^H u``."""
        return self.H @ u

    def matmat(self, v: Any) -> Array:
        """``X v`` for an (n2, k) array."""
        return self @ v

    def rmatmat(self, u: Any) -> Array:
        """``X^H u`` for an (n1, k) array."""
        return self.H @ u

    def _times_point(self, other: MatrixInterface) -> Self:
        """The product of two factored matrices, of the smaller of their ranks."""
        _check_lengths("X @ Y", self.shape[1], other.shape[0], self.shape, other.shape)
        gram, product, asarray = self.backend.gram, self.backend.product, self.backend.asarray
        core = gram(self.V, other.U)  # V^H U'
        s, t = self.backend.small(self.s), self.backend.small(other.s)
        core = s[:, None] * core * t
        if len(s) <= len(t):
            left, right = self.U, asarray(product(other.V, core.conj().T))
        else:
            left, right = asarray(product(self.U, core)), other.V
        return type(self).from_factors(left, right, backend=self.backend)  # type: ignore[attr-defined]

    def _alike(self, v: Any, name: str) -> tuple[Array, Array, Array, Array]:
        """An array of one or two dimensions and the factors, in a common dtype and backend."""
        backend = self.backend
        if not hasattr(v, "ndim"):
            v = np.asarray(v)
        if v.ndim not in (1, 2):
            raise ParameterError(name, f"must be a vector or a matrix, got an array of shape {tuple(v.shape)}")
        kind = backend.dtype(v) if type(v) is not np.ndarray else v.dtype
        if kind.kind not in "biufc":
            raise ParameterError(name, f"must hold numbers, got {kind}")
        own, real = backend.dtype(self.U), backend.dtype(self.s)
        dtype = np.result_type(own, kind if kind.kind in "fc" else own)
        v = backend.asarray(v, dtype)
        if dtype == own:
            return v, self.U, self.s, self.V
        U, V = backend.asarray(self.U, dtype), backend.asarray(self.V, dtype)
        return v, U, backend.asarray(self.s, np.result_type(real, np.zeros(0, dtype).real.dtype)), V

    # -- entries -------------------------------------------------------------------------------------------------------
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The whole matrix as a NumPy array, of at most ``DENSE_LIMIT`` entries."""
        if copy is False:
            raise ValueError("a factored matrix cannot become an array without a copy")
        return np.asarray(self.backend.to_numpy(self.to_dense()), dtype=dtype)

    def to_dense(self, limit: int | None = DENSE_LIMIT) -> Array:
        """The whole matrix as an array.

        Parameters
        ----------
        limit : int or None
            Largest number of entries; None for no limit.

        Returns
        -------
        (n1, n2) array
        """
        check("limit", limit, optional(whole(0)))
        check_size(self.shape, self.backend.dtype(self.U), "pass limit=None if you mean it", limit)
        return (self.U * self.s) @ self.V.conj().T

    def __getitem__(self, index: Any) -> Any:
        """Rows, columns, blocks and entries as arrays, with NumPy's indexing: ``X[i]``, ``X[a:b]``, ``X[:, j]``, ``X[i, j]``.

        Indices may be arrays and masks; two arrays, ``X[rows, cols]``, are pairs.
        """
        row, col = index if isinstance(index, tuple) and len(index) == 2 else (index, slice(None))
        if isinstance(index, tuple) and len(index) != 2:
            raise IndexError(f"X takes one or two indices, got {len(index)}")
        row, n1 = _positions(row, self.shape[0], "row")
        col, n2 = _positions(col, self.shape[1], "column")
        if not isinstance(row, slice) and not isinstance(col, slice) and (np.ndim(row) or np.ndim(col)):
            return self._scattered(row, col)
        check_size((n1, n2), self.backend.dtype(self.U), "index fewer rows or columns")
        left, right = self._rows(self.U, row) * self.s, self._rows(self.V, col).conj()
        return left @ (right if right.ndim == 1 else right.T)

    def _rows(self, a: Array, k: Any) -> Array:
        if isinstance(k, slice) and (k.step or 1) < 0:  # torch has no negative steps
            k = np.arange(a.shape[0])[k]
        if isinstance(k, (slice, int)):
            return a[k]
        if k.ndim > 1:
            raise IndexError(f"an array of indices combined with a slice must have one dimension, got shape {k.shape}")
        return a[self.backend.asindex(k)]

    def _scattered(self, row: Any, col: Any) -> Array:
        """Entries at pairs of indices, broadcast against each other."""
        try:
            rows, cols = np.broadcast_arrays(row, col)
        except ValueError:
            raise IndexError(
                f"the indices of rows and columns, of shapes {np.shape(row)} and {np.shape(col)}, cannot be broadcast together"
            ) from None
        check_size((rows.size, 1), self.backend.dtype(self.U), "index fewer entries")
        index = self.backend.asindex
        flat = (index(np.array(k).ravel()) for k in (rows, cols))
        return self.backend.entries(self.U * self.s, self.V, *flat).reshape(rows.shape)


def _positions(k: Any, n: int, name: str) -> tuple[Any, int]:
    """An index of one side as a slice, an int or an array of non-negative integers, and its number of positions."""
    if isinstance(k, slice):
        try:
            return k, len(range(*k.indices(n)))
        except TypeError:
            raise IndexError(f"{name} slices take whole numbers, got {k}") from None
    if k is None or k is Ellipsis or isinstance(k, str):
        raise IndexError(f"{name} indices are whole numbers, slices or arrays of them, got {k!r}")
    a = np.asarray(k.cpu() if hasattr(k, "cpu") else k)
    if a.dtype.kind == "b" and a.ndim == 1:
        if len(a) != n:
            raise IndexError(f"a mask of {name}s must have length {n}, got {len(a)}")
        a = np.flatnonzero(a)
    if a.size == 0:
        a = a.astype(np.int64)
    if a.dtype.kind not in "iu":
        raise IndexError(f"{name} indices must be whole numbers, got {a.dtype}")
    outside = (a < -n) | (a >= n)
    if outside.any():
        raise IndexError(f"{name} {a[outside].ravel()[0]} is outside of 0 .. {n - 1}")
    a = np.where(a < 0, a + n, a).astype(np.int64)
    return (int(a), 1) if a.ndim == 0 else (a, a.size)


def _check_lengths(what: str, one: int, other: int, *shapes: Any) -> None:
    if one != other:
        left, right = (" x ".join(map(str, shape)) for shape in shapes)
        raise ValueError(f"{what}: shapes {left} and {right} do not fit, {one} is not {other}")


def check_size(shape: tuple[int, int], dtype: Any, remedy: str, limit: int | None = DENSE_LIMIT) -> None:
    """Raise a ValueError where an array of that shape has more than ``limit`` entries."""
    n1, n2 = shape
    if limit is not None and n1 * n2 > limit:
        size = n1 * n2 * np.dtype(dtype).itemsize / 1e9
        raise ValueError(
            f"a dense {n1} x {n2} matrix has {n1 * n2:,} entries ({size:.1f} GB), over the limit of {limit:,}: "
            f"use .entries(rows, cols), or {remedy}"
        )
