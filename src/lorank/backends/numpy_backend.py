"""NumPy and SciPy backend: dense arrays, and the making of observations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .numpy_observations import NumpyObservations
from .observations import Array, Observations
from .orthonormal import in_double
from .protocol import Backend
from .tensor_observations import NumpyTensorObservations, TensorObservations
from .train_observations import TrainObservations

SHORT = 4096  # entries: BLAS uses one thread for these, and they stay in the nearest cache
BLOCK = 1 << 16  # index pairs at a time: bounds the memory of gathered factors
HEAD = 1 << 12  # observations that are checked first for their order


class NumpyBackend(Backend):
    """NumPy and SciPy. It serves where the C++ kernels are missing, and as their reference in tests."""

    name = "numpy"
    in_main_memory = True

    # -- creation ----------------------------------------------------------------------------------------------------
    def asarray(self, a: Array, dtype: Any = None) -> Array:
        return np.ascontiguousarray(a, dtype=dtype)

    def to_numpy(self, a: Array) -> np.ndarray:
        return np.asarray(a)

    def dtype(self, a: Array) -> np.dtype:
        return a.dtype

    def astype(self, a: Array, dtype: Any) -> Array:
        return a.astype(dtype, copy=False)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.zeros(shape, dtype)

    def eye(self, n: int, dtype: Any, width: int | None = None) -> Array:
        return np.eye(n, width, dtype=dtype)

    def copy(self, a: Array) -> Array:
        return np.ascontiguousarray(a.copy())

    def random_normal(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
        dtype = np.dtype(dtype)
        a = rng.standard_normal(shape)
        if dtype.kind == "c":
            a = a + 1j * rng.standard_normal(shape)
        return a.astype(dtype)

    # -- reductions --------------------------------------------------------------------------------------------------
    def norm(self, a: Array) -> float:
        """Not by BLAS for long arrays: the number of its threads may change the last bits."""
        if _is_long_single(a):
            return math.sqrt(_products_in_double(a, a))
        a = in_double(a).ravel()
        if a.size <= SHORT:
            return math.sqrt(np.vdot(a, a).real)
        if a.dtype.kind == "c":
            a = a.view(np.float64)
        return float(np.sqrt(np.einsum("i,i->", a, a)))

    def squared_norm(self, a: Array) -> float:
        return float(np.linalg.norm(a)) ** 2

    def inner(self, a: Array, b: Array) -> float:
        if _is_long_single(a) and _is_long_single(b):
            return _products_in_double(a, b)
        return float(np.vdot(in_double(a), in_double(b)).real)

    def row_squares(self, a: Array) -> Array:
        return np.einsum("ij,ij->i", a, a.conj()).real

    def squared_norms(self, matrix: Any, axis: int) -> Array:
        if isinstance(matrix, np.ndarray):
            return (np.abs(in_double(matrix)) ** 2).sum(axis)
        return np.asarray(abs(matrix).power(2).sum(axis=axis), dtype=float).ravel()

    def all_finite(self, a: Array) -> bool:
        with np.errstate(all="ignore"):
            if np.isfinite(np.sum(a)):  # needs no array of flags
                return True
        return bool(np.isfinite(a).all())

    def max_abs(self, a: Array) -> float:
        if np.iscomplexobj(a):
            return float(np.abs(a).max())
        return max(float(a.max()), -float(a.min()))  # needs no second array

    def flatnonzero(self, flags: Array) -> Array:
        return np.flatnonzero(flags)

    def percentiles(self, a: Array, at: Sequence[float]) -> list[float]:
        return [float(q) for q in np.percentile(a, at)]

    def median(self, a: Array) -> float:
        return float(np.median(a))

    def top_k(self, block: Array, n: int, hidden: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        block[hidden] = -np.inf
        width = block.shape[1]
        more = min(n + 1, width)  # one more shows whether the last one is tied with one that was left out
        found = (
            np.argpartition(-block, more - 1, axis=1)[:, :more] if more < width else np.tile(np.arange(width), (len(block), 1))
        )
        found.sort(axis=1)
        value = np.take_along_axis(block, found, axis=1)
        order = np.argsort(-value, axis=1, kind="stable")
        found, value = np.take_along_axis(found, order, axis=1), np.take_along_axis(value, order, axis=1)
        if more > n:
            tied = np.flatnonzero((value[:, n] == value[:, n - 1]) & np.isfinite(value[:, n]))
            for i in tied:  # argpartition chooses arbitrarily among equal entries
                found[i, :n] = np.argsort(-block[i], kind="stable")[:n]
        return found[:, :n], value[:, :n]

    # -- tall arrays -------------------------------------------------------------------------------------------------
    def product(self, u: Array, a: Array) -> Array:
        return u @ a

    def minus(self, y: Array, u: Array, a: Array) -> Array:
        out = u @ a
        return np.subtract(y, out, out=out) if out.dtype == y.dtype else y - out

    def plus(self, u: Array, a: Array, v: Array, b: Array) -> Array:
        out = u @ a
        other = v @ b
        return np.add(out, other, out=out) if out.dtype == other.dtype else out + other

    def gram(self, a: Array, b: Array) -> Array:
        return a.conj().T @ b

    def concat(self, blocks: Sequence[Array], axis: int = 1) -> Array:
        return np.concatenate(blocks, axis=axis)

    def entries(self, left: Array, right: Array, rows: Array, cols: Array) -> Array:
        out = np.empty(len(rows), np.result_type(left, right))
        for k in range(0, len(rows), BLOCK):
            part = slice(k, k + BLOCK)
            out[part] = np.einsum("ij,ij->i", left[rows[part]], right[cols[part]].conj())
        return out

    def qr(self, a: Array) -> tuple[Array, Array]:
        return np.linalg.qr(a)

    def inverses(self, stack: Array) -> Array:
        return np.linalg.inv(stack)

    # -- transforms --------------------------------------------------------------------------------------------------
    def fft(self, a: Array, axes: tuple[int, ...]) -> Array:
        import scipy.fft

        return scipy.fft.fftn(a, axes=axes, overwrite_x=True)

    def inverse_fft(self, a: Array, axes: tuple[int, ...], *, adjoint: bool = False) -> Array:
        import scipy.fft

        return scipy.fft.ifftn(a, axes=axes, norm="forward" if adjoint else "backward")

    def hermitian_eigen(self, a: Array) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(a)
        return values.clip(0.0), vectors

    def tanh(self, a: Array) -> Array:
        return np.tanh(a)

    def bessel_ratio(self, a: Array) -> Array:
        import scipy.special

        return scipy.special.i1e(a) / scipy.special.i0e(a)

    # -- observations ------------------------------------------------------------------------------------------------
    def row_major_order(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """Stable permutation that sorts index pairs by row, then by column."""
        return np.lexsort((cols, rows))

    def sorted_pattern(
        self, rows: Array, cols: Array, values: Array, shape: tuple[int, int]
    ) -> tuple[Array, Array, Array, Array]:
        indptr = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=shape[0]), out=indptr[1:])
        if _in_order(rows[:HEAD], cols[:HEAD]) and _in_order(rows, cols):
            return indptr, cols.astype(np.int32), values.copy(), range(len(rows))
        order = self.row_major_order(rows, cols, shape)
        return indptr, cols[order].astype(np.int32), values[order], order

    def repetitions(self, indptr: Array, indices: Array) -> Array:
        equal = np.flatnonzero(indices[1:] == indices[:-1])
        row = np.searchsorted(indptr, equal, side="right")
        return equal[equal + 1 < indptr[row]]  # in the same row

    def make_observations(self, indptr: Array, indices: Array, values: Array, n2: int) -> Observations:
        return NumpyObservations(indptr, indices, values, n2)

    def make_tensor_observations(self, indices: np.ndarray, shape: Sequence[int]) -> TensorObservations:
        return NumpyTensorObservations(indices, shape)

    def make_train_observations(self, indices: np.ndarray, shape: Sequence[int]) -> TrainObservations:
        return TrainObservations(indices, shape)


def _is_long_single(a: Array) -> bool:
    return a.size > SHORT and a.dtype in (np.float32, np.complex64)


def _products_in_double(a: np.ndarray, b: np.ndarray) -> float:
    """``Re <a, b>`` in double precision, without converted copies of the arrays."""
    a, b = (np.ascontiguousarray(c).ravel().view(np.float32) for c in (a, b))
    return float(np.einsum("i,i->", a, b, dtype=np.float64))


def _in_order(rows: np.ndarray, cols: np.ndarray) -> bool:
    """Index pairs are sorted by row, then by column."""
    return bool(((rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (cols[1:] >= cols[:-1]))).all())
