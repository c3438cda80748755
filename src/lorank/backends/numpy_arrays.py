"""Dense arrays by NumPy: everything that :class:`~lorank.backends.protocol.Arrays` asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .basis import Basis
from .cholesky_qr import at_large_angles, first_pass, second_pass
from .protocol import Array

SHORT = 4096  # entries: BLAS leaves them to one thread, and they stay in the nearest cache
BLOCK = 1 << 16  # index pairs at a time: bounds the memory of gathered factors
GATHERED = 1 << 22  # numbers of covariances that are gathered at a time


class Dense:
    """Dense operations on NumPy arrays."""

    name = "numpy"
    in_main_memory = True  # where NumPy can read the arrays without a copy

    # -- making arrays ---------------------------------------------------------------------------------------------
    def asarray(self, a: Array, dtype: Any = None) -> Array:
        return np.ascontiguousarray(a, dtype=dtype)

    def asarrays(self, *arrays: Array) -> tuple[Array, ...]:
        return arrays  # nothing is put off here

    def asmatrix(self, matrix: Any) -> Any:
        return matrix

    def asindex(self, a: Array) -> Array:
        """As this kind of array takes indices."""
        return a

    def dtype(self, a: Array) -> np.dtype:
        """The dtype as NumPy names it, whatever the array's kind."""
        return a.dtype

    def astype(self, a: Array, dtype: Any) -> Array:
        """In that dtype; no copy where it has it."""
        return a.astype(dtype, copy=False)

    def is_complex(self, a: Array) -> bool:
        return self.dtype(a).kind == "c"

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.zeros(shape, dtype)

    def eye(self, n: int, dtype: Any, width: int | None = None) -> Array:
        """The first ``width`` (by default all) columns of the identity."""
        return np.eye(n, width, dtype=dtype)

    def copy(self, a: Array) -> Array:
        """A contiguous copy that shares no memory."""
        return np.ascontiguousarray(a.copy())

    def random_normal(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
        """Standard normal entries (complex: both parts)."""
        dtype = np.dtype(dtype)
        a = rng.standard_normal(shape)
        if dtype.kind == "c":
            a = a + 1j * rng.standard_normal(shape)
        return a.astype(dtype)

    def detached(self, a: Array) -> Array:
        return a

    def to_numpy(self, a: Array) -> np.ndarray:
        return np.asarray(a)

    def release(self) -> None:
        """Give back memory kept from one pass to the next; called when a run ends."""

    # -- entries and indices ---------------------------------------------------------------------------------------
    def all_finite(self, a: Array) -> bool:
        with np.errstate(all="ignore"):
            if np.isfinite(np.sum(a)):  # needs no array of flags
                return True
        return bool(np.isfinite(a).all())

    def largest(self, a: Array) -> float:
        """The largest entry in size."""
        if np.iscomplexobj(a):
            return float(np.abs(a).max())
        return max(float(a.max()), -float(a.min()))  # no second array

    def first(self, flags: Array) -> int:
        """The place of the first true flag."""
        return int(np.flatnonzero(flags)[0])

    def percentiles(self, a: Array, at: Sequence[float]) -> list[float]:
        """Percentiles of a vector, interpolated linearly."""
        return [float(q) for q in np.percentile(a, at)]

    def median(self, a: Array) -> float:
        return float(np.median(a))

    def places(self, flags: Array) -> Array:
        """Where the flags are true."""
        return np.flatnonzero(flags)

    def top(self, block: Array, n: int, hidden: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The n largest entries of each row, of equal ones the smaller column first; see the protocol."""
        block[hidden] = -np.inf
        width = block.shape[1]
        more = min(n + 1, width)  # one more shows whether the last one has an equal that was left out
        found = (
            np.argpartition(-block, more - 1, axis=1)[:, :more] if more < width else np.tile(np.arange(width), (len(block), 1))
        )
        found.sort(axis=1)
        value = np.take_along_axis(block, found, axis=1)
        order = np.argsort(-value, axis=1, kind="stable")
        found, value = np.take_along_axis(found, order, axis=1), np.take_along_axis(value, order, axis=1)
        if more > n:
            tied = np.flatnonzero((value[:, n] == value[:, n - 1]) & np.isfinite(value[:, n]))
            for i in tied:  # which of the equal ones came along was chance
                found[i, :n] = np.argsort(-block[i], kind="stable")[:n]
        return found[:, :n], value[:, :n]

    def squares(self, matrix: Any, axis: int) -> Array:
        if isinstance(matrix, np.ndarray):
            return (np.abs(_double(matrix)) ** 2).sum(axis)
        return np.asarray(abs(matrix).power(2).sum(axis=axis), dtype=float).ravel()

    def fft(self, a: Array, axes: tuple[int, ...]) -> Array:
        """Discrete Fourier transform; may overwrite its argument."""
        import scipy.fft

        return scipy.fft.fftn(a, axes=axes, overwrite_x=True)

    def inverse_fft(self, a: Array, axes: tuple[int, ...], *, adjoint: bool = False) -> Array:
        """Its inverse; the adjoint is the same without the division by the number of entries."""
        import scipy.fft

        return scipy.fft.ifftn(a, axes=axes, norm="forward" if adjoint else "backward")

    def hermitian_eigen(self, a: Array) -> tuple[Array, Array]:
        """Eigenvalues, none below zero, and eigenvectors of a positive semidefinite matrix of any size."""
        values, vectors = np.linalg.eigh(a)
        return values.clip(0.0), vectors

    def tanh(self, a: Array) -> Array:
        return np.tanh(a)

    def bessel_ratio(self, a: Array) -> Array:
        """``I_1(a) / I_0(a)`` for a real array that is not negative: what tanh is to the real line, for the complex plane."""
        import scipy.special

        return scipy.special.i1e(a) / scipy.special.i0e(a)

    # -- tall arrays -----------------------------------------------------------------------------------------------
    def product(self, u: Array, a: Array) -> Array:
        """``u a`` for a tall u and a small a."""
        return u @ a

    def minus(self, y: Array, u: Array, a: Array) -> Array:
        """``y - u a`` for tall y, u and a small a."""
        out = u @ a
        return np.subtract(y, out, out=out) if out.dtype == y.dtype else y - out

    def plus(self, u: Array, a: Array, v: Array, b: Array) -> Array:
        """``u a + v b`` for tall u, v and small a, b."""
        out = u @ a
        other = v @ b
        return np.add(out, other, out=out) if out.dtype == other.dtype else out + other

    def prepare(self, *sides: Sequence[Array]) -> None:
        """Says that Gram products among the tall arrays of each side will be asked for: some backends make them together."""

    def without(self, basis: Array, y: Array) -> tuple[Array, Array]:
        """``y`` without its part in the span of the basis, and the coefficients of that part."""
        first = self.gram(basis, y)
        y = self.minus(y, basis, first)
        second = self.gram(basis, y)
        return self.minus(y, basis, second), first + second

    def gram(self, a: Array, b: Array) -> Array:
        """``a^H b``, a small array."""
        return a.conj().T @ b

    def gram_pairs(self, pairs: Sequence[tuple[Array, Array]]) -> list[Array]:
        """:meth:`gram` of several pairs: some backends make them together."""
        return [self.gram(a, b) for a, b in pairs]

    def concat(self, blocks: Sequence[Array], axis: int = 1) -> Array:
        """Columns side by side."""
        return np.concatenate(blocks, axis=axis)

    def entries(self, left: Array, right: Array, rows: Array, cols: Array) -> Array:
        """The entries of ``left right^H`` at index pairs."""
        out = np.empty(len(rows), np.result_type(left, right))
        for k in range(0, len(rows), BLOCK):
            part = slice(k, k + BLOCK)
            out[part] = np.einsum("ij,ij->i", left[rows[part]], right[cols[part]].conj())
        return out

    def column_means(self, a: Array) -> Array:
        """The means of the columns of a tall array."""
        return a.mean(0)

    def variances(self, x: Array, S: Array, y: Array, T: Array, rows: Array, cols: Array) -> Array:
        """The variances of ``x_i . y_j`` at index pairs, where x_i and y_j have the covariances S_i and T_j: upper triangles,
        row by row.

        ``y^T S y + x^T T x + trace(S T)``, which is ``trace((S + x x^T) (T + y y^T)) - (x y)^2``: entries of products of two
        tall arrays.
        """
        a, b = np.triu_indices(x.shape[1])
        twice = self.asarray(np.where(a == b, 1.0, np.sqrt(2.0)))  # what is off the diagonal counts twice
        left, right = ((packed + z[:, a] * z[:, b]) * twice for z, packed in ((x, S), (y, T)))
        step = max(1, GATHERED // len(a))
        parts = [
            self.entries(left, right, rows[at : at + step], cols[at : at + step]) for at in range(0, max(len(rows), 1), step)
        ]
        return (self.concat(parts, axis=0) - self.entries(x, y, rows, cols) ** 2).clip(0)

    def norm(self, a: Array) -> float:
        """Euclidean (Frobenius) norm in double precision. Not by BLAS, whose threads may change the last bits."""
        if _is_long_single(a):
            return math.sqrt(_products_in_double(a, a))
        a = _double(a).ravel()
        if a.size <= SHORT:  # which BLAS leaves to one thread
            return math.sqrt(np.vdot(a, a).real)
        if a.dtype.kind == "c":
            a = a.view(np.float64)
        return float(np.sqrt(np.einsum("i,i->", a, a)))

    def squared_norm(self, a: Array) -> float:
        """The squared norm in the precision of the array, for large ones."""
        return float(np.linalg.norm(a)) ** 2

    def inner(self, a: Array, b: Array) -> float:
        """``Re <a, b>``, in double precision."""
        if _is_long_single(a) and _is_long_single(b):
            return _products_in_double(a, b)
        return float(np.vdot(_double(a), _double(b)).real)

    def norms(self, arrays: Sequence[Array]) -> list[float]:
        """Several norms at once: where arrays live on a device, in one transfer."""
        return [self.norm(a) for a in arrays]

    def inners(self, pairs: Sequence[tuple[Array, Array]]) -> list[float]:
        """Several inner products at once."""
        return [self.inner(a, b) for a, b in pairs]

    def row_squares(self, a: Array) -> Array:
        """Squared norms of the rows, in the precision of the array."""
        return np.einsum("ij,ij->i", a, a.conj()).real

    def qr(self, a: Array) -> tuple[Array, Array]:
        """Thin QR by Householder reflections: always safe."""
        return np.linalg.qr(a)

    def qrs(self, arrays: Sequence[Array]) -> list[tuple[Array, Array]]:
        """:meth:`qr` of several arrays: some backends make them together."""
        return [self.qr(a) for a in arrays]

    def extend_basis(self, u: Array, y: Array) -> tuple[Array, Array] | None:
        """Orthonormal ``q`` with ``y = q k`` and ``u^H q = 0``, for orthonormal ``u`` and ``u^H y = 0``; what rounding has
        left of u in y is left out.

        Two Gram/Cholesky passes, several times faster on tall arrays than Householder; one where the columns of ``y`` are at
        large angles, as they mostly are. Returns None where they are too close to dependent for that; the caller then takes
        :meth:`qr` of ``[u, y]``.
        """
        overlap = _double(self.gram(u, y))
        first = first_pass(_double(self.gram(y, y)) - overlap.conj().T @ overlap)
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

    def extend_bases(self, pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]] | None:
        """:meth:`extend_basis` of several pairs (u, y); None where one of them cannot be had."""
        found = []
        for u, y in pairs:
            one = self.extend_basis(u, y)
            if one is None:
                return None
            found.append(one)
        return found

    def basis(self, n: int, width: int, dtype: Any) -> Any:
        """An orthonormal basis that will grow to ``width`` columns of length n."""
        return Basis(self, n, width, dtype)

    def orthonormalize(self, y: Array) -> Array:
        """An orthonormal basis whose span holds the columns of ``y``."""
        extended = self.extend_basis(y[:, :0], y)
        return self.qr(y)[0] if extended is None else extended[0]

    # -- small arrays ----------------------------------------------------------------------------------------------
    def small(self, a: Array) -> np.ndarray:
        """A small array (singular values, say) as NumPy has it."""
        return a

    def values(self, s: Array) -> Array:
        """Singular values as a point keeps them: on the device of its factors."""
        return s

    def svd(self, a: Array) -> tuple[Array, Array, Array]:
        """``a = u diag(s) v^H``; returns u, s, v. Never raises LinAlgError: a failure comes back as nan."""
        if not np.isfinite(a).all():
            return _nan_svd(a)
        try:
            u, s, vh = np.linalg.svd(a, full_matrices=False)
        except np.linalg.LinAlgError:  # gesdd gave up; gesvd is slower and surer
            import scipy.linalg

            try:
                u, s, vh = scipy.linalg.svd(a, full_matrices=False, lapack_driver="gesvd")
            except np.linalg.LinAlgError:
                return _nan_svd(a)
        return u, s, vh.conj().T

    def eigh(self, a: Array) -> tuple[Array, Array]:
        """Eigenvalues, in decreasing order, and eigenvectors of a small Hermitian matrix; nan where that fails."""
        try:
            values, vectors = np.linalg.eigh(a)
        except np.linalg.LinAlgError:
            return np.full(len(a), np.nan, a.real.dtype), np.full_like(a, np.nan)
        return values[::-1], vectors[:, ::-1]

    def inverse(self, m: Array) -> Array:
        """``m^-1`` for a small Hermitian positive definite ``m``; nan where it is singular."""
        try:
            return np.linalg.inv(m)
        except np.linalg.LinAlgError:
            return np.full_like(m, np.nan)

    def inverses(self, stack: Array) -> Array:
        """The inverses of a stack of small matrices, an (n, r, r) array that stays where it is."""
        return np.linalg.inv(stack)

    def block_solver(self, stack: Array) -> Callable[[Array], Array]:
        """``a -> x`` with ``x_i B_i = a_i`` for each row, B_i the Hermitian definite matrices of an (n, r, r) stack."""
        inverses = self.inverses(stack)
        return lambda a: (a[:, None, :] @ inverses)[:, 0, :]

    def add_diagonal(self, m: Array, d: Array) -> Array:
        """``m + diag(d)``, in place."""
        m[np.diag_indices(len(d))] += d
        return m


def _double(a: Array) -> np.ndarray:
    a = np.asarray(a)
    if a.dtype == np.float64 or a.dtype == np.complex128:  # mostly, and several times a step
        return a
    return a.astype(np.result_type(a, np.float64), copy=False)


def _is_long_single(a: Array) -> bool:
    return a.size > SHORT and a.dtype in (np.float32, np.complex64)


def _products_in_double(a: np.ndarray, b: np.ndarray) -> float:
    """``Re <a, b>`` in double precision, a piece at a time: copies of the whole would go through memory."""
    a, b = (np.ascontiguousarray(c).ravel().view(np.float32) for c in (a, b))
    return float(np.einsum("i,i->", a, b, dtype=np.float64))


def _nan_svd(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    k = min(a.shape)
    return (
        np.full((a.shape[0], k), np.nan, a.dtype),
        np.full(k, np.nan, a.real.dtype),
        np.full((a.shape[1], k), np.nan, a.dtype),
    )
