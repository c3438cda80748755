"""Native backend: NumPy, with passes over the observations and products of tall arrays in C++ (src/kernels)."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from .. import _kernels  # type: ignore[attr-defined]
from .normal_equations import NonnegativeSystems, RowSystems
from .numpy_backend import NumpyBackend
from .numpy_observations import NumpyObservations
from .observations import Array, Observations
from .pauli_sums import ArrayPauliSums, PauliSums
from .tensor_observations import NumpyTensorObservations, TensorObservations

TALL = 1 << 15  # numbers of a tall array from which on several threads are used
TENSOR_BYTES = 4 * 64  # of a row of a factor, in the C++ passes over tensors
MIXED_BYTES = 12 << 20  # size of gathered factors from which on float32 is faster (benchmarks/passes.py)


def _choose_instruction_set(name: str) -> None:
    """Select the instruction set of the kernels, such as ``LORANK_INSTRUCTION_SET=baseline``; by default the newest one."""
    available = _kernels.instruction_sets()
    if name not in available:
        raise ValueError(f"LORANK_INSTRUCTION_SET={name!r}: this machine has {', '.join(map(repr, available))}")
    _kernels.use_instruction_set(name)


if os.environ.get("LORANK_INSTRUCTION_SET"):
    _choose_instruction_set(os.environ["LORANK_INSTRUCTION_SET"])


class NativeBackend(NumpyBackend):
    """NumPy with C++ kernels."""

    name = "native"

    def row_major_order(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        dtype = np.int32 if rows.dtype == cols.dtype == np.int32 else np.int64
        rows, cols = _c(rows, dtype), _c(cols, dtype)
        order = np.empty(len(rows), np.int64)
        _kernels.row_major_order(rows, cols, *shape, order)
        return order

    # -- index pairs, in chunks for the threads ----------------------------------------------------------------------
    def entries(self, left: Array, right: Array, rows: Array, cols: Array) -> Array:
        dtype = np.result_type(left, right)
        if dtype in (np.float32, np.float64):
            out = np.empty(len(rows), dtype)
            if _kernels.entries(_c(left, dtype), _c(right, dtype), _c(rows, np.int64), _c(cols, np.int64), out):
                return out
        return super().entries(left, right, rows, cols)  # negative or invalid indices

    def variances(self, x: Array, S: Array, y: Array, T: Array, rows: Array, cols: Array) -> Array:
        x, S, y, T = (_c(a, np.float64) for a in (x, S, y, T))
        out = np.empty(len(rows))
        if _kernels.variances(x, S, y, T, _c(rows, np.int64), _c(cols, np.int64), out):
            return out.clip(0)
        return super().variances(x, S, y, T, rows, cols)

    # -- tall arrays, in chunks of rows for the threads --------------------------------------------------------------
    def gram(self, a: Array, b: Array) -> Array:
        gemm = _gemm(a, b)
        if gemm is None:
            return super().gram(a, b)
        out = np.empty((a.shape[1], b.shape[1]), a.dtype)
        _kernels.gram(gemm, a, b, out)
        return out

    def column_means(self, a: Array) -> Array:
        gemm = _gemm(a)
        return super().column_means(a) if gemm is None else self.gram(a, np.ones((len(a), 1), a.dtype))[:, 0] / len(a)

    def product(self, u: Array, a: Array) -> Array:
        gemm = _gemm(u)
        return super().product(u, a) if gemm is None else _combine(gemm, None, 1.0, u, a, u[:, :0], a[:0])

    def minus(self, y: Array, u: Array, a: Array) -> Array:
        gemm = _gemm(u, y) if y.flags.c_contiguous else None
        return super().minus(y, u, a) if gemm is None else _combine(gemm, y, -1.0, u, a, u[:, :0], a[:0])

    def plus(self, u: Array, a: Array, v: Array, b: Array) -> Array:
        gemm = _gemm(u, v)
        return super().plus(u, a, v, b) if gemm is None else _combine(gemm, None, 1.0, u, a, v, b)

    def qr(self, a: Array) -> tuple[Array, Array]:
        """By Cholesky where that is accurate: Householder reflections use one thread."""
        found = None if _gemm(a) is None else self.extend_basis(a[:, :0], a)
        return super().qr(a) if found is None else found

    def block_solver(self, stack: Array) -> Callable[[Array], Array]:
        """By packed Cholesky factors of eight systems at a time, half the size of inverses."""
        if stack.dtype not in (np.float32, np.float64) or not stack.size:
            return super().block_solver(stack)
        n, r = stack.shape[:2]
        factors = np.empty((-(-n // _kernels.TOGETHER), r * (r + 1) // 2, _kernels.TOGETHER), stack.dtype)
        _kernels.factor_systems(_c(stack, stack.dtype), factors)

        def solve(a: Array) -> Array:
            out = np.empty((n, r), factors.dtype)
            _kernels.solve_systems(factors, _c(a, factors.dtype), out)
            return out

        return solve

    def make_observations(self, indptr: np.ndarray, indices: np.ndarray, values: Array, n2: int) -> Observations:
        return NativeObservations(indptr, indices, values, n2)

    def make_tensor_observations(self, indices: np.ndarray, shape: Sequence[int]) -> TensorObservations:
        return NativeTensorObservations(indices, shape)

    def make_pauli_sums(self, flips: np.ndarray, signs: np.ndarray, qubits: int) -> PauliSums:
        return (NativePauliSums if qubits >= 3 else ArrayPauliSums)(flips, signs, qubits, self)

    def release(self) -> None:
        _kernels.release_scratch()


class NativePauliSums(ArrayPauliSums):
    """Passes in C++, for three qubits or more."""

    def expectations(self, left: Array, right: Array) -> Array:
        out = np.empty(len(self.signs))
        _kernels.pauli_expectations(*self._masks, _planes(left), _planes(right), out)
        return out[self.inverse]

    def times(self, p: Array, v: Array) -> Array:
        planes = _planes(v)
        out = np.empty_like(planes)
        _kernels.pauli_times(*self._masks, _c(p[self.order], np.float64), planes, out)
        return np.ascontiguousarray((out[0::2] + 1j * out[1::2]).T)

    @functools.cached_property
    def _masks(self) -> tuple[np.ndarray, ...]:
        """Arguments of the passes; phases as powers of -i."""
        powers = np.bitwise_count(np.repeat(self.distinct, np.diff(self.indptr)) & self.signs) % 4
        return (*(_c(a, np.int64) for a in (self.distinct, self.indptr, self.signs)), powers.astype(np.int8))


def _planes(a: np.ndarray) -> np.ndarray:
    """Real and imaginary parts of the columns, one row each."""
    out = np.empty((2 * a.shape[1], len(a)))
    out[0::2], out[1::2] = a.T.real, a.T.imag
    return out


class NativeTensorObservations(NumpyTensorObservations):
    """Passes in C++, for ranks of the inner modes whose rows fit into :data:`TENSOR_BYTES`."""

    def values(self, U: Array, V: Array, M: Array) -> Array:
        a, b = U.shape[1], V.shape[1]
        if not _fits(U, V, M):
            return super().values(U, V, M)
        i, j = (self.indices[k] for k in self.inner)
        out = np.empty(len(i), M.dtype)
        _kernels.tensor_values(self.indptr, i, j, _packed(U), _packed(V), _c(M, M.dtype), a, b, out)
        return out

    def adjoint(self, p: Array, U: Array, V: Array, M: Array) -> tuple[Array, Array, Array]:
        a, b = U.shape[1], V.shape[1]
        if not _fits(U, V, M):
            return super().adjoint(p, U, V, M)
        i, j = (self.indices[k] for k in self.inner)
        left, right, matrices = _packed(U), _packed(V), _c(M, M.dtype)
        of_i, of_j, of_slices = (np.empty_like(x) for x in (left, right, matrices))
        p = _c(p, M.dtype)
        _kernels.tensor_adjoint(self.indptr, i, j, p, left, right, matrices, a, b, of_i, of_j, of_slices)
        return np.ascontiguousarray(of_i[:, :a]), np.ascontiguousarray(of_j[:, :b]), of_slices


def _fits(U: Array, V: Array, M: Array) -> bool:
    dtype = M.dtype
    small = max(U.shape[1], V.shape[1]) * dtype.itemsize <= TENSOR_BYTES
    return small and dtype in (np.float32, np.float64) and U.dtype == V.dtype == dtype


def _packed(a: np.ndarray) -> np.ndarray:
    """The array with its rows padded by zeros to whole cache lines."""
    lanes = 64 // a.itemsize
    width = -(-a.shape[1] // lanes) * lanes
    if width == a.shape[1]:
        return np.ascontiguousarray(a)
    out = np.zeros((len(a), width), a.dtype)
    out[:, : a.shape[1]] = a
    return out


class SideWeights(NamedTuple):
    """Weights that are products of a row weight and a column weight."""

    rows: np.ndarray
    cols: np.ndarray


class NativeObservations(NumpyObservations):
    """Observations with fused, vectorized passes. Results do not depend on the number of threads."""

    sweeps_up_to = 16  # rank at which a row fills a cache line in single precision
    _mixed = False  # gather factors that exceed the caches in float32, and sum in float64

    def _build(self) -> None:
        self.pattern = _kernels.Pattern(self.indptr, self.indices, self.shape[1])
        self.column_values = self._columns(self.values)
        self.column_weights = None if self.weights is None else self._columns(self.weights)

    @classmethod
    def mapped(
        cls,
        pattern: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray],
        values: tuple[np.ndarray, np.ndarray],
        weights: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> NativeObservations:
        """Observations from arrays in both orders, such as memory-mapped files, without a copy.

        Parameters
        ----------
        pattern : (indptr, indices, colptr, rows, order)
            Indices are padded by ``_kernels.PREFETCH`` entries; ``order`` is the permutation from column to row order.
        values, weights : pairs of (m,) arrays
            In row order and in column order (values conjugated).
        """
        found = cls.__new__(cls)
        found.shape, found.m = (len(pattern[0]) - 1, len(pattern[2]) - 1), len(values[0])
        found.indptr, found.indices = pattern[0], pattern[1][: found.m]
        found.values, found.column_values = values
        found.weights, found.column_weights = (None, None) if weights is None else weights
        found.pattern = _kernels.Pattern(*pattern)
        found.__dict__["_column_counts"] = np.diff(pattern[2])
        return found

    def with_values(self, values: Array) -> Self:
        twin = super().with_values(values)
        twin.column_values = self._columns(values)
        return twin

    def with_weights(self, weights: Array | None) -> Self:
        twin = super().with_weights(weights)
        twin.column_weights = None if twin.weights is None else self._columns(twin.weights)
        return twin

    @property
    def mixed_precision(self) -> NativeObservations:
        twin = copy.copy(self)
        twin._mixed = self.values.dtype in (np.float64, np.complex128)
        return twin

    def _mixes(self, *gathered: Array) -> bool:
        return self._mixed and sum(a.nbytes for a in gathered) > MIXED_BYTES

    def __copy__(self) -> NativeObservations:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)  # the pattern is immutable and can be shared
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "pattern"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._build()

    def _columns(self, p: np.ndarray) -> np.ndarray:
        """Conjugates of the entries ``p`` in column order."""
        out = np.empty_like(p)
        self.pattern.to_columns(p, out)
        return out

    def gradient_rows(self, u: Array, s: Array, v: Array) -> tuple[Array, np.ndarray, np.ndarray]:
        return self._gradient(False, u, s, v, self.values, self.weights)

    def gradient_cols(self, u: Array, s: Array, v: Array) -> tuple[Array, np.ndarray]:
        # The residual is computed again from the factors: u is gathered anyway, and reading a stored residual in column
        # order would cost one more cache miss per observation.
        return self._gradient(True, v, s, u, self.column_values, self.column_weights)[:2]

    def _gradient(
        self, columns: bool, own: Array, s: Array, other: Array, values: Array, weights: Array | None
    ) -> tuple[Array, np.ndarray, np.ndarray]:
        own, other = _c(own, self.values.dtype), _c(other, self.values.dtype)
        sums, squares = np.empty_like(own), np.empty(len(own))
        misfit = squares if weights is None or columns else np.empty(len(own))
        self.pattern.gradient(
            columns,
            own,
            _c(s, self.values.real.dtype),
            other,
            values,
            sums,
            squares,
            self._mixes(other),
            weights,
            None if misfit is squares else misfit,
        )
        return sums, squares, misfit

    def sample(self, left: Array, right: Array) -> Array:
        out = np.empty(self.m, self.values.dtype)
        left, right = _c(left, out.dtype), _c(right, out.dtype)
        self.pattern.sample(left, right, left[:, :0].copy(), right[:, :0].copy(), out[:0], out)
        return out

    def line_sums(self, blocks: tuple[tuple[Array, Array], tuple[Array, Array]], p: Array | None) -> tuple[float, float]:
        none = self.values[:0]
        (l1, r1), (l2, r2) = (tuple(_c(a, none.dtype) for a in pair) for pair in blocks)
        mixed = self._mixes(r1, r2)
        return self.pattern.sample(l1, r1, l2, r2, none if p is None else p, none.copy(), mixed, self.weights)

    def products(self, p: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        by_columns = self.column_values if p is self.values else self._columns(p)
        return functools.partial(self._times, False, p), functools.partial(self._times, True, by_columns)

    def times(self, p: Array, v: Array) -> Array:
        return self._times(False, p, v)

    def adjoint_times(self, p: Array, u: Array) -> Array:
        return self._times(True, self._columns(p), u)

    def gathered(self, w: Array, side: int) -> Array:
        if w.dtype in (np.float32, np.float64) and w.shape[1] == 1:
            out = np.empty(self.shape[side], w.dtype)
            self.pattern.side_sums(bool(side), _c(w, w.dtype).ravel(), out)
            return out[:, None]
        return self._times(bool(side), np.ones(self.m, w.dtype), w)

    def sums(self, p: Array, side: int) -> Array:
        p = _c(p, np.float64)
        return self._times(bool(side), self._columns(p) if side else p, np.ones((self.shape[1 - side], 1)))[:, 0]

    def blocks(self, side: int, factor: Array) -> Array:
        if factor.dtype not in (np.float32, np.float64):  # complex
            return super().blocks(side, factor)
        r = factor.shape[1]
        out = np.empty((self.shape[side], r, r), factor.dtype)
        self.pattern.blocks(bool(side), _c(factor, factor.dtype), out, self._double_weights(bool(side)))
        return out

    def solve_blocks(self, side: int, factor: Array, shift: float, right: Array) -> Array:
        """``right_i (B_i + shift I)^-1`` for the blocks B_i, in one pass that stores no blocks."""
        right = _c(right, factor.dtype)
        out = np.empty_like(right)
        weights = self._double_weights(bool(side))
        self.pattern.solve_blocks(bool(side), _c(factor, factor.dtype), shift, right, out, weights)
        return out

    def side_weights(self, rows: np.ndarray, cols: np.ndarray) -> SideWeights:
        return SideWeights(_c(rows, np.float64), _c(cols, np.float64))

    @functools.cached_property
    def _column_counts(self) -> np.ndarray:
        out = np.empty(self.shape[1], np.int64)
        self.pattern.column_counts(out)
        return out

    def _normal_equations(self, columns: bool, given: RowSystems) -> tuple[Array, Array | None, np.ndarray]:
        sides: Sequence[np.ndarray | None] = (None, None)
        weights = given.weights
        if isinstance(weights, SideWeights):
            sides, weights = (weights[::-1] if columns else weights), None
        weights = self._double_weights(columns, weights)
        n, k = self.shape[1 if columns else 0], given.other.shape[1]
        mean, squares = np.empty((n, k)), np.empty(n)
        cov = np.empty((n if given.covariance else 0, k * (k + 1) // 2))
        self.pattern.normal(
            columns,
            _c(given.other, np.float64),
            cov[:0] if given.moments is None else _c(given.moments, np.float64),
            _c(self.column_values if columns else self.values, np.float64),
            squares[:0] if weights is None else weights,
            _c(given.prior, np.float64),
            _c(given.shift, np.float64),
            squares[:0] if given.scale is None else _c(given.scale, np.float64),
            given.fixed,
            float(given.noise),
            mean,
            cov,
            squares,
            *sides,
        )
        return mean, cov if given.covariance else None, squares

    def normal_steps(self, columns: bool, other: Array, prior: Array, ridge: Array, start: Array, steps: int) -> Array:
        kind = self.values.dtype
        if kind not in (np.float32, np.float64) or not other.shape[1]:
            return super().normal_steps(columns, other, prior, ridge, start, steps)
        out = np.empty((self.shape[1 if columns else 0], other.shape[1]), kind)
        values, weights = (self.column_values, self.column_weights) if columns else (self.values, self.weights)
        self.pattern.steps(
            columns, _c(other, kind), values, _c(prior, kind), _c(ridge, kind), _c(start, kind), steps, out, weights
        )
        return out

    def _nonnegative_equations(self, columns: bool, given: NonnegativeSystems) -> tuple[Array, Array]:
        k = given.other.shape[1]
        if not k:
            return super()._nonnegative_equations(columns, given)
        x, squares = np.array(given.start, np.float64, order="C"), np.empty(len(given.start))
        self.pattern.nonnegative(
            columns,
            _c(given.other, np.float64),
            _c(self.column_values if columns else self.values, np.float64),
            np.zeros(k) if given.centre is None else _c(given.centre, np.float64),
            _c(given.ridge, np.float64),
            given.cycles,
            given.tolerance,
            x,
            squares,
            None if given.prior is None else _c(given.prior, np.float64),
            self._double_weights(columns, given.weights),
        )
        return x, squares

    def _double_weights(self, columns: bool, weights: Array | None = None) -> Array | None:
        """Given weights in row order, or those of the observations, in row or column order and in double precision."""
        if weights is None:
            weights = self.column_weights if columns else self.weights
        elif columns:
            weights = self._columns(_c(weights, np.float64))
        return None if weights is None else _c(weights, np.float64)

    def _times(self, columns: bool, p: Array, other: Array) -> Array:
        other = _c(other, p.dtype)
        sums = np.empty((self.shape[1 if columns else 0], other.shape[1]), p.dtype)
        self.pattern.times(columns, p, other, sums)
        return sums


def _gemm(*tall: Array) -> Any:
    """SciPy's BLAS gemm for these arrays; None where NumPy is as fast or the kernels do not support them."""
    first = tall[0]
    if first.size < TALL or first.dtype not in (np.float32, np.float64):
        return None
    if any(a.dtype != first.dtype or not a.shape[1] or not _by_rows(a) for a in tall):
        return None
    return _blas(first.dtype.char)


def _by_rows(a: Array) -> bool:
    """Rows are contiguous and in order."""
    if a.flags.c_contiguous:
        return True
    down, along = a.strides
    return along == a.itemsize and down >= along * a.shape[1] and down % along == 0 and a.flags.aligned


@functools.cache
def _blas(kind: str) -> Any:
    from scipy.linalg import cython_blas

    return cython_blas.__pyx_capi__["dgemm" if kind == "d" else "sgemm"]


def _combine(gemm: Any, base: Array | None, sign: float, u: Array, a: Array, v: Array, b: Array) -> Array:
    """``base + sign (u a + v b)``."""
    out = np.empty((len(u), a.shape[1]), u.dtype)
    if out.size:
        _kernels.combine(gemm, out[:0] if base is None else base, sign, u, _c(a, u.dtype), v, _c(b, u.dtype), out)
    return out


def _c(a: Array, dtype: Any) -> np.ndarray:
    """Contiguous, aligned array of that dtype for the kernels; a copy only where needed."""
    if type(a) is np.ndarray and a.dtype == dtype and a.flags.c_contiguous and a.flags.aligned:
        return a  # np.require takes ten microseconds
    return np.require(a, dtype, ["C", "A"])
