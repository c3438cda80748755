"""Tall and small dense arrays: everything the geometry asks of them.

A tall array (n x r, n large) is touched only by what stands here and by the operators that NumPy-like arrays share
(``+ - * @``, slicing, ``.conj()``, ``.T``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any  # an array of the backend's own kind


class Dense:
    """Dense operations on NumPy arrays."""

    name = "numpy"

    # -- making arrays ---------------------------------------------------------------------------------------------
    def asarray(self, a: Array, dtype: Any = None) -> Array:
        return np.ascontiguousarray(a, dtype=dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.zeros(shape, dtype)

    def eye(self, n: int, dtype: Any) -> Array:
        return np.eye(n, dtype=dtype)

    def normal(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
        """Standard normal entries (complex: both parts)."""
        dtype = np.dtype(dtype)
        a = rng.standard_normal(shape)
        if dtype.kind == "c":
            a = a + 1j * rng.standard_normal(shape)
        return a.astype(dtype)

    def to_numpy(self, a: Array) -> np.ndarray:
        return np.asarray(a)

    def release(self) -> None:
        """Give back memory kept from one pass to the next; called when a run ends."""

    # -- tall arrays -----------------------------------------------------------------------------------------------
    def gram(self, a: Array, b: Array) -> Array:
        """``a^H b``, a small array."""
        return a.conj().T @ b

    def concat(self, blocks: Sequence[Array]) -> Array:
        """Columns side by side."""
        return np.concatenate(blocks, axis=1)

    def norm(self, a: Array) -> float:
        """Euclidean (Frobenius) norm in double precision. Not by BLAS, whose threads may change the last bits."""
        a = _double(a).ravel()
        if a.dtype.kind == "c":
            a = a.view(np.float64)
        return float(np.sqrt(np.einsum("i,i->", a, a)))

    def inner(self, a: Array, b: Array) -> float:
        """``Re <a, b>``, in double precision."""
        return float(np.vdot(_double(a), _double(b)).real)

    def qr(self, a: Array) -> tuple[Array, Array]:
        """Thin QR by Householder reflections: always safe."""
        return np.linalg.qr(a)

    def extend_basis(self, u: Array, y: Array) -> tuple[Array, Array] | None:
        """Orthonormal ``q`` with ``y = q k`` and ``u^H q = 0``, for orthonormal ``u`` and ``u^H y = 0``.

        Two Gram/Cholesky passes, several times faster on tall arrays than Householder. Returns None where the columns
        of ``y`` are too close to dependent for that; the caller then takes :meth:`qr` of ``[u, y]``.
        """
        squares = self.gram(y, y)
        scale = np.sqrt(np.diagonal(squares).real)
        if not scale.all() or not np.isfinite(squares).all():
            return None
        first = _cholesky(squares / np.outer(scale, scale))
        if first is None:
            return None
        k = first * scale
        inverse = np.linalg.inv(first) / scale[:, None]
        q = y @ inverse.astype(y.dtype)
        q -= u @ self.gram(u, q)
        squares = self.gram(q, q)
        if not np.abs(squares - np.eye(len(squares))).max() < 0.1:  # also catches nan
            return None
        second = _cholesky(squares)
        if second is None:
            return None
        return q @ np.linalg.inv(second).astype(y.dtype), (second @ k).astype(y.dtype)

    def orthonormalize(self, y: Array) -> Array:
        """An orthonormal basis whose span holds the columns of ``y``."""
        extended = self.extend_basis(y[:, :0], y)
        return self.qr(y)[0] if extended is None else extended[0]

    # -- small arrays ----------------------------------------------------------------------------------------------
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

    def add_diagonal(self, m: Array, d: Array) -> Array:
        """``m + diag(d)``, in place."""
        m[np.diag_indices(len(d))] += d
        return m


def _double(a: Array) -> np.ndarray:
    a = np.asarray(a)
    return a.astype(np.result_type(a, np.float64), copy=False)


def _cholesky(a: np.ndarray) -> np.ndarray | None:
    """Upper triangular k with ``a = k^H k``, in double precision; None where a is not positive definite."""
    try:
        return np.linalg.cholesky(a.astype(np.result_type(a, np.float64))).conj().T
    except np.linalg.LinAlgError:
        return None


def _nan_svd(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    k = min(a.shape)
    return (
        np.full((a.shape[0], k), np.nan, a.dtype),
        np.full(k, np.nan, a.real.dtype),
        np.full((a.shape[1], k), np.nan, a.dtype),
    )
