"""Linear maps of phase retrieval: arrays, coded diffraction by FFT, user-defined functions; and a copy in single precision.

A linear map acts on columns: ``apply`` maps an (n, k) array to (m, k), ``adjoint`` an (m, k) array to (n, k).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..backends import Array, Arrays, backend_of
from ..common.checks import ParameterError

BLOCK_ENTRIES = 1 << 22  # of an (m, k) block while row norms are computed
CACHED_ENTRIES = 1 << 15  # of A that are processed at a time, so that they stay in the cache


class LinearMap(Protocol):
    """Members of A that phase retrieval uses."""

    m: int
    n: int
    dtype: Any

    def apply(self, v: Array) -> Array:
        """``A v``."""

    def adjoint(self, w: Array) -> Array:
        """``A^H w``."""

    def to(self, backend: Arrays) -> LinearMap:
        """The same map on arrays of another backend."""

    def fourth_power(self) -> float:
        """``sum_i |a_i|^4`` over the rows of A."""

    def row_squares(self, d: Array) -> Array:
        """Squared row norms of ``A^H diag(d) A``, exactly."""


class MatrixMap:
    """A as an array."""

    def __init__(self, A: Array, backend: Arrays) -> None:
        self.A, self.backend = A, backend
        self.m, self.n = A.shape
        self.dtype = backend.dtype(A)

    def to(self, backend: Arrays) -> MatrixMap:
        return MatrixMap(backend.asarray(self.backend.to_numpy(self.A)), backend)

    def apply(self, v: Array) -> Array:
        return self.A @ v

    def adjoint(self, w: Array) -> Array:
        # (w^H A)^H: the same product without a conjugated copy of A.
        return (w.conj().T @ self.A).conj().T if self.dtype.kind == "c" else self.A.T @ w

    def fourth_power(self) -> float:
        return float((self.squares[0] ** 2).sum())

    @functools.cached_property
    def squares(self) -> tuple[Array, Array]:
        """Squared norms of the rows and of the columns, in double precision and one pass."""
        A, backend = self.A, self.backend
        if not isinstance(A, np.ndarray):
            squares = backend.astype(abs(A), np.float64) ** 2
            return squares.sum(1), squares.sum(0)
        real = A.view(A.real.dtype) if A.dtype.kind == "c" else A  # parts of complex numbers side by side
        rows, cols, step = np.empty(self.m), np.zeros(real.shape[1]), max(1, CACHED_ENTRIES // real.shape[1])
        for k in range(0, self.m, step):
            part = real[k : k + step]
            rows[k : k + step] = np.einsum("ij,ij->i", part, part, dtype=np.float64)
            cols += np.einsum("ij,ij->j", part, part, dtype=np.float64)
        return rows, cols if real is A else cols.reshape(self.n, 2).sum(1)

    def row_squares(self, d: Array) -> Array:
        """By blocks of columns of ``G = A^H diag(d) A``."""
        squares, step = self.backend.zeros((self.n,), np.float64), max(1, BLOCK_ENTRIES // self.m)
        for k in range(0, self.n, step):
            squares += self.backend.row_squares(self.adjoint(d[:, None] * self.A[:, k : k + step]))
        return squares


class DiffractionMap:
    """Coded diffraction: ``A x = (F (D_1 x), ..., F (D_L x))`` with masks D_l and the Fourier transform F, in 1-D or 2-D."""

    def __init__(self, masks: Array, backend: Arrays | None = None) -> None:
        self.masks, self.backend = masks, backend_of(masks) if backend is None else backend  # (L, *signal)
        self.signal = masks.shape[1:]
        self.axes = tuple(range(-len(self.signal), 0))
        self.n = int(np.prod(self.signal))
        self.m = masks.shape[0] * self.n
        self.dtype = np.result_type(self.backend.dtype(masks), np.complex64)

    def to(self, backend: Arrays) -> DiffractionMap:
        return DiffractionMap(backend.asarray(self.backend.to_numpy(self.masks)), backend)

    def apply(self, v: Array) -> Array:
        columns = v.T.reshape(-1, 1, *self.signal) * self.masks
        return self.backend.fft(columns, self.axes).reshape(-1, self.m).T

    def adjoint(self, w: Array) -> Array:
        columns = w.T.reshape(-1, len(self.masks), *self.signal)
        back = self.backend.inverse_fft(columns, self.axes, adjoint=True)  # F^H, not F^-1
        return (back * self.masks.conj()).sum(1).reshape(-1, self.n).T

    def fourth_power(self) -> float:
        squares = (abs(self.backend.astype(self.masks, np.complex128)) ** 2).reshape(len(self.masks), -1).sum(1)
        return float(self.n * (squares**2).sum())

    def row_squares(self, d: Array) -> Array:
        """Exactly, by FFTs: ``G(i, j) = n sum_l conj(D_l(i)) D_l(j) c_l(i - j)`` with ``c_l = F^-1 d_l``, so that

        ``|G(i, :)|^2 = n^2 sum_(l, l') conj(D_l(i)) D_l'(i) [(c_l conj(c_l')) * (D_l conj(D_l'))](i)``,

        ``*`` a circular convolution. One pair of masks at a time, each once: the sum is Hermitian in (l, l').
        """
        fft, ifft, masks, axes = self.backend.fft, self.backend.inverse_fft, self.masks, self.axes
        c = ifft(d.reshape(masks.shape), axes, adjoint=True)  # n F^-1
        squares = self.backend.zeros(self.signal, np.float64)
        for k in range(len(masks)):
            for other in range(k, len(masks)):
                spectrum = fft(c[k] * c[other].conj(), axes) * fft(masks[k] * masks[other].conj(), axes)
                part = (masks[k].conj() * masks[other] * ifft(spectrum, axes)).real
                squares += part if k == other else 2 * part
        return squares.clip(0.0).ravel()


class FunctionMap:
    """A user-defined pair of functions."""

    def __init__(
        self,
        apply: Callable[[Array], Array],
        adjoint: Callable[[Array], Array],
        m: int,
        n: int,
        dtype: Any,
        backend: Arrays,
        of_numpy: bool = True,
    ) -> None:
        self._apply, self._adjoint, self.backend, self._of_numpy = apply, adjoint, backend, of_numpy
        self.m, self.n, self.dtype = m, n, np.dtype(dtype)

    def to(self, backend: Arrays) -> FunctionMap:
        raise ValueError("user-defined functions cannot be moved to another device: build the problem there")

    def apply(self, v: Array) -> Array:
        return self._checked(self._apply(self._given(v)), (self.m, v.shape[1]), self.backend.dtype(v), "apply")

    def adjoint(self, w: Array) -> Array:
        return self._checked(self._adjoint(self._given(w)), (self.n, w.shape[1]), self.backend.dtype(w), "adjoint")

    def _given(self, a: Array) -> Array:
        """A copy for the function, which may work in place."""
        a = self.backend.copy(a)
        return self.backend.to_numpy(a) if self._of_numpy else a

    def _checked(self, a: Any, shape: tuple[int, int], dtype: Any, name: str) -> Array:
        a = self.backend.asarray(a)
        if tuple(a.shape) != shape:
            raise ParameterError(
                name, f"gives an array of shape {tuple(a.shape)}, expected {shape}: columns are mapped one by one"
            )
        if self.backend.is_complex(a) and self.dtype.kind != "c":
            raise ParameterError(name, f"returns complex numbers for dtype={self.dtype}: pass dtype=complex")
        return self.backend.astype(a, np.result_type(self.dtype, dtype))

    def fourth_power(self) -> float:
        """By the mean of ``|a_i^H z|^4`` over random unit vectors z: 3 |a_i|^4 / (n (n + 2)), or 2 |a_i|^4 / (n (n + 1))."""
        rng, n, trials = np.random.default_rng(0), self.n, 16
        z, factor = rng.standard_normal((n, trials)), n * (n + 2) / 3
        if self.dtype.kind == "c":
            z, factor = z + 1j * rng.standard_normal(z.shape), n * (n + 1) / 2
        z /= np.linalg.norm(z, axis=0)
        fourth = self.backend.astype(abs(self.apply(self.backend.asarray(z, self.dtype))), np.float64) ** 4
        return factor * float(fourth.sum()) / trials

    def row_squares(self, d: Array) -> Array:
        raise NotImplementedError("exact row norms need A as an array or masks: use probes for user-defined functions")


@dataclass(frozen=True)
class SinglePrecisionMap:
    """``B = A diag(d)^-1`` for the column norms d of A, in single precision where A is an array of double precision.

    Normalized columns improve the conditioning of the start and of descent. Search directions need few digits, and products in
    single precision take half the time; :meth:`exact` has all digits, for the images of points.

    Attributes
    ----------
    linear_map : LinearMap
        A.
    d : (n, 1) array or None
        Column norms of A over their root mean square; None where all are considered equal to 1.
    B : (m, n) array or None
        None where products use A.
    row_energy : (m,) array or None
        Squared norms of the rows of B over n; None where they are unknown.
    """

    linear_map: LinearMap
    d: Array | None
    B: Array | None
    row_energy: Array | None

    def apply(self, v: Array) -> Array:
        """``B v``, (m, 1), in single precision."""
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
        """``B v`` in the precision of A."""
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


def single_precision_map(linear_map: LinearMap, backend: Arrays) -> SinglePrecisionMap:
    """A rounded copy for arrays in main memory; products with A for other maps."""
    real = np.zeros(0, linear_map.dtype).real.dtype
    if isinstance(linear_map, MatrixMap):
        d = _scales(linear_map.squares[1], backend, real)
        if isinstance(linear_map.A, np.ndarray) and linear_map.dtype in (np.float64, np.complex128):
            return _rounded(linear_map, d)
        rows = backend.row_squares(linear_map.A if d is None else linear_map.A / d[:, 0])
        return SinglePrecisionMap(linear_map, d, None, rows / linear_map.n)
    if isinstance(linear_map, DiffractionMap):
        squares = (abs(linear_map.masks) ** 2).sum(0).reshape(-1)
        return SinglePrecisionMap(linear_map, _scales(squares, backend, real), None, None)
    return SinglePrecisionMap(linear_map, None, None, None)


def _scales(squares: Array, backend: Arrays, dtype: Any) -> Array | None:
    """Column norms over their root mean square, 1 for columns of zeros; None where they differ by less than a factor of 2."""
    mean = float(squares.mean())
    relative = squares / mean
    relative = relative + (relative < 1e-24)
    if float(relative.max()) < 2 and float(relative.min()) > 0.5:  # as for Gaussian columns
        return None
    return backend.asarray((relative**0.5)[:, None], dtype)


def _rounded(linear_map: MatrixMap, d: Array | None) -> SinglePrecisionMap:
    A, (m, n), (rows, cols) = linear_map.A, linear_map.A.shape, linear_map.squares
    single = np.complex64 if A.dtype.kind == "c" else np.float32
    size = float(cols.mean() / m) ** 0.5
    safe = 1e-4 < size < 1e4
    if d is None and safe:
        return SinglePrecisionMap(linear_map, None, A.astype(single), rows / n)
    unit = 1.0 if safe else 2.0 ** round(math.log2(size))  # products would overflow or underflow in single precision
    d = np.full((n, 1), unit) if d is None else unit * d
    factor, B, rows = 1 / d[:, 0], np.empty((m, n), single), np.empty(m)
    rounded = factor.astype(np.float32)
    step = max(1, CACHED_ENTRIES // n)
    for k in range(0, m, step):
        part = B[k : k + step]
        if safe:  # rounding first takes half the time
            part[...] = A[k : k + step]
            part *= rounded
        else:
            part[...] = A[k : k + step] * factor
        real = part.view(np.float32)
        rows[k : k + step] = np.einsum("ij,ij->i", real, real)
    return SinglePrecisionMap(linear_map, d, B, rows / n)
