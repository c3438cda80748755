"""The linear maps behind phase retrieval: x -> A x for an array, for coded diffraction by FFT, for a user's functions.

A linear map takes columns: ``apply`` takes an (n, k) array to (m, k), ``adjoint`` an (m, k) array to (n, k).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..backends import Array, Arrays, backend_of
from ..common.checks import ParameterError

BLOCK = 1 << 22  # entries of an (m, k) block while row norms are computed
CACHED = 1 << 15  # entries of A that a pass over it takes at a time


class LinearMap(Protocol):
    """What phase retrieval needs of A."""

    m: int
    n: int
    dtype: Any

    def apply(self, v: Array) -> Array:
        """``A v``."""
        ...

    def adjoint(self, w: Array) -> Array:
        """``A^H w``."""
        ...

    def to(self, backend: Arrays) -> LinearMap:
        """The same on another backend's arrays."""
        ...

    def fourth_power(self) -> float:
        """``sum_i |a_i|^4`` over the rows of A."""
        ...

    def row_squares(self, d: Array) -> Array:
        """Squared row norms of ``A^H diag(d) A``, exactly."""
        ...


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
        rows, cols, step = np.empty(self.m), np.zeros(real.shape[1]), max(1, CACHED // real.shape[1])
        for k in range(0, self.m, step):
            part = real[k : k + step]
            rows[k : k + step] = np.einsum("ij,ij->i", part, part, dtype=np.float64)
            cols += np.einsum("ij,ij->j", part, part, dtype=np.float64)
        return rows, cols if real is A else cols.reshape(self.n, 2).sum(1)

    def row_squares(self, d: Array) -> Array:
        """By columns of ``G = A^H diag(d) A``, a block at a time."""
        squares, step = self.backend.zeros((self.n,), np.float64), max(1, BLOCK // self.m)
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
    """A user's pair of functions."""

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
        raise ValueError("a problem by functions cannot be moved to another device: build it there, from functions of tensors")

    def apply(self, v: Array) -> Array:
        return self._checked(self._apply(self._given(v)), (self.m, v.shape[1]), self.backend.dtype(v), "apply")

    def adjoint(self, w: Array) -> Array:
        return self._checked(self._adjoint(self._given(w)), (self.n, w.shape[1]), self.backend.dtype(w), "adjoint")

    def _given(self, a: Array) -> Array:
        """A copy of its own for a function: one that works in place must not change what the solver holds."""
        a = self.backend.copy(a)
        return self.backend.to_numpy(a) if self._of_numpy else a

    def _checked(self, a: Any, shape: tuple[int, int], dtype: Any, name: str) -> Array:
        a = self.backend.asarray(a)
        if tuple(a.shape) != shape:
            raise ParameterError(
                name, f"gives an array of shape {tuple(a.shape)}, expected {shape}: columns are mapped one by one"
            )
        if self.backend.is_complex(a) and self.dtype.kind != "c":
            raise ParameterError(name, f"gives complex numbers, and dtype says {self.dtype}: pass dtype=complex")
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
        raise NotImplementedError("functions do not show the rows of A: row norms come from probes")
