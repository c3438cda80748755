"""Spectral initialization for phase retrieval."""

from __future__ import annotations

import math

import numpy as np

from ..backends import Array, Arrays
from .linear_maps import SinglePrecisionMap

LANCZOS_STEPS = 8  # at n = 500, 8 steps are as good as 12, and 5 are not


def spectral_signal(
    rough: SinglePrecisionMap, y: Array, backend: Arrays, rng: np.random.Generator, steps: int = LANCZOS_STEPS
) -> Array:
    """An (n, 1) array v with ``|B v|^2`` near y: the leading eigenvector of ``B^H diag(t) B`` in the scale that fits y best.

    The weights ``t = (q - 1) / (q + (m/n)^(1/2) - 1)``, for intensities q over their mean, are bounded and optimal for Gaussian
    A (Mondelli and Montanari, 2019). Rows of B are normalized first.
    """
    m, n = rough.linear_map.m, rough.linear_map.n
    energy = rough.row_energy
    q = y / float(y.mean())
    t: Array = 1.0
    if energy is not None:
        relative = energy / float(energy.mean())
        relative = relative + 1e-3
        q, t = q / relative, 1 / relative
    t = t * (q - 1) / (q + max(math.sqrt(m / n) - 1, 0.1))
    t = backend.astype(t, np.float32 if rough.rounds else backend.dtype(y))[:, None]
    v = backend.random_normal(rng, (n, 1), rough.linear_map.dtype)
    v = v / backend.norm(v)
    basis: list[Array] = [v]
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    steps = min(steps, n)
    for step in range(steps):
        w = rough.adjoint(t * rough.apply(v))
        diagonal.append(backend.inner(v, w))
        if step + 1 == steps:
            break
        w = w - diagonal[-1] * v - (off_diagonal[-1] * basis[-2] if step else 0)
        size = backend.norm(w)
        if not size > 1e-5 * max(map(abs, diagonal)):  # the basis spans an invariant subspace
            break
        v = w / size
        off_diagonal.append(size)
        basis.append(v)
    Q = backend.concat(basis)
    top = _leading(diagonal, off_diagonal)
    v = Q @ backend.asarray(top, backend.dtype(v))
    squares = abs(rough.apply(v))[:, 0] ** 2
    fit = backend.inner(squares, y) / (backend.norm(squares) ** 2 or 1.0)
    return math.sqrt(max(fit, 0.0)) * v


def _leading(diagonal: list[float], off_diagonal: list[float]) -> np.ndarray:
    """The leading eigenvector of a tridiagonal matrix, as a column."""
    if len(diagonal) == 1:
        return np.ones((1, 1))
    from scipy.linalg import lapack  # directly: checks would take longer than the work

    _, vectors, failed = lapack.dstev(diagonal, off_diagonal)
    if failed:
        raise ValueError("the spectral initialization did not converge: check A and y for nan and inf")
    return np.asarray(vectors[:, -1:])
