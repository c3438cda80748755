"""Solvers of the normal equations ``(A^H A + shift) x = b`` in phase retrieval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..backends import Array, Arrays
from .linear_maps import DiffractionMap, LinearMap, MatrixMap

FACTORED_MAX_UNKNOWNS = 4000  # up to which an eigendecomposition of A^H A is faster than iterations
PROBES = 4  # of the trace
SHIFT = 1e-5  # added to a Gram matrix in single precision, over its mean eigenvalue: a hundred times its rounding


class GramOperator(Protocol):
    """Solves ``(A^H A + shift) x = b``."""

    energy: float  # sum_ij |A_ij|^2, exactly or nearly

    def solve(self, b: Array, shift: float, guess: Array | None = None) -> Solution:
        """For an (n, 1) array b; ``guess`` is that of an earlier solution with similar b and shift."""


@dataclass(frozen=True)
class Solution:
    """``(A^H A + shift)^-1 b``, ``trace(A^H A (A^H A + shift)^-1)``, and an initial guess for the next solution."""

    x: Array
    trace: float
    guess: Array | None = None


class Spectrum:
    """By the eigendecomposition ``A^H A = V diag(values) V^H``.

    Parameters
    ----------
    values : (n,) array
    basis : (n, n) array or None
        V; None for the identity.
    """

    def __init__(self, values: Array, basis: Array | None) -> None:
        self.values, self.basis = values, basis
        self.energy = float(values.sum())

    def apply(self, a: Array, shift: float) -> Array:
        """``(A^H A + shift) a``."""
        V, values = self.basis, (self.values + shift)[:, None]
        return values * a if V is None else V @ (values * (V.conj().T @ a))

    def solve(self, b: Array, shift: float, guess: Array | None = None) -> Solution:
        V, inverse = self.basis, 1 / (self.values + shift)
        x = inverse[:, None] * b if V is None else V @ (inverse[:, None] * (V.conj().T @ b))
        return Solution(x, float((self.values * inverse).sum()))


class Iterations:
    """By conjugate gradients, with the trace estimated by random probes, for maps without a matrix."""

    def __init__(self, linear_map: LinearMap, backend: Arrays, seed: int = 0, tol: float = 1e-4, max_steps: int = 100) -> None:
        self.linear_map, self.backend, self.tol, self.max_steps = linear_map, backend, tol, max_steps
        rng = np.random.default_rng(seed)
        units = np.array([1, 1j, -1, -1j] if np.dtype(linear_map.dtype).kind == "c" else [1, -1])
        self.probes = backend.asarray(rng.choice(units, (linear_map.n, PROBES)).astype(linear_map.dtype))
        self.images = linear_map.adjoint(linear_map.apply(self.probes))
        self.energy = float((self.probes.conj() * self.images).real.sum()) / PROBES

    def solve(self, b: Array, shift: float, guess: Array | None = None) -> Solution:
        b = self.backend.concat([b, self.images])
        x = 0 * b if guess is None else guess
        rest = b - self._apply(x, shift)
        direction, size = rest, _squares(rest)
        goal = self.tol**2 * _squares(b)
        for _ in range(self.max_steps):
            if bool((size <= goal).all()):
                break
            image = self._apply(direction, shift)
            curvature = (direction.conj() * image).real.sum(0)
            alpha = size / (curvature + (curvature <= 0))  # a column that is zero stays zero
            x, rest = x + alpha * direction, rest - alpha * image
            size, before = _squares(rest), size
            direction = rest + (size / (before + (before <= 0))) * direction
        return Solution(x[:, :1], float((self.probes.conj() * x[:, 1:]).real.sum()) / PROBES, x)

    def _apply(self, v: Array, shift: float) -> Array:
        return self.linear_map.adjoint(self.linear_map.apply(v)) + shift * v


class SinglePrecisionGram:
    """``(B^H B)^-1`` for an array B in single precision, by Cholesky factorization.

    Parameters
    ----------
    B : (m, n) array
        Of float32 or complex64, contiguous by rows.
    """

    def __init__(self, B: Array) -> None:
        from scipy.linalg import blas, lapack

        self.complex = B.dtype.kind == "c"
        # B^T is contiguous by columns, as BLAS requires. For complex B this gives the conjugate of B^H B.
        gram = blas.cherk(1.0, B.T, lower=1) if self.complex else blas.ssyrk(1.0, B.T, lower=1)
        diagonal = np.diagonal(gram).real
        gram[np.diag_indices(len(gram))] += SHIFT * float(diagonal.mean())
        self.factor, failed = (lapack.cpotrf if self.complex else lapack.spotrf)(gram, lower=1, overwrite_a=1, clean=0)
        self.usable = failed == 0

    def solve(self, b: Array) -> Array:
        """For an (n, 1) array b of the dtype of B."""
        from scipy.linalg import lapack

        x, _ = (lapack.cpotrs if self.complex else lapack.spotrs)(self.factor, b.conj() if self.complex else b, lower=1)
        return x.conj() if self.complex else x


def gram_operator(linear_map: LinearMap, backend: Arrays) -> GramOperator:
    """Diagonal for coded diffraction, where ``A^H A = n sum_l |D_l|^2``; by eigenvalues or iterations, by size, for others."""
    if isinstance(linear_map, DiffractionMap):
        return Spectrum(linear_map.n * (abs(linear_map.masks) ** 2).sum(0).ravel(), None)
    if isinstance(linear_map, MatrixMap) and linear_map.n <= FACTORED_MAX_UNKNOWNS:
        return Spectrum(*backend.hermitian_eigen(linear_map.adjoint(linear_map.A)))
    return Iterations(linear_map, backend)


def _squares(a: Array) -> Array:
    return (abs(a) ** 2).sum(0)
