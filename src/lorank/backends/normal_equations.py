"""Many normal equations at once: solutions from the sums, conjugate gradients, coordinate descent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = Any
TINY = 1e-30  # in place of zero, where a row has converged


class RowSystems(NamedTuple):
    """Parameters of :meth:`.Observations.normal_equations`, which describes them."""

    other: Array
    prior: Array
    shift: Array
    moments: Array | None = None
    weights: Any = None
    scale: Array | None = None
    fixed: int = -1
    noise: float = 1.0
    covariance: bool = False


class NonnegativeSystems(NamedTuple):
    """Parameters of :meth:`.Observations.nonnegative_equations`, which describes them."""

    other: Array
    start: Array
    ridge: Array
    centre: Array | None = None
    prior: Array | None = None
    weights: Any = None
    cycles: int = 20
    tolerance: float = 1e-3


def solve_systems(
    A: np.ndarray, b: np.ndarray, total: np.ndarray, scale: np.ndarray, given: RowSystems
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, packed covariance and expected squares of each row, on NumPy arrays.

    Parameters
    ----------
    A : (n, k, k) array
        ``sum_t w_t (y_t y_t^T + S_t)``.
    b : (n, k) array
        ``sum_t w_t r_t y_t``.
    total : (n,) array
        ``sum_t w_t r_t^2``.
    scale : (n,) array
    given : RowSystems
        Of which ``prior``, ``shift``, ``fixed``, ``noise`` and ``covariance`` are used.
    """
    n, k = b.shape
    M = given.noise * A + scale[:, None, None] * given.prior
    free, (i, j) = np.arange(k) != given.fixed, np.triu_indices(k)
    h = given.noise * b + scale[:, None] * given.shift - M[:, :, ~free].sum(2)
    S = np.zeros_like(M)
    S[np.ix_(range(n), free, free)] = np.linalg.inv(M[:, free][:, :, free])
    x = np.einsum("nij,nj->ni", S, np.where(free, h, 0))
    x[:, ~free] = 1
    squares = total - 2 * (x * b).sum(1) + np.einsum("ni,nij,nj->n", x, A, x)
    if given.covariance:
        squares = squares + (A * S).sum((1, 2))
    return x, S[:, i, j], squares


def normal_steps(observations: Any, columns: bool, other: Array, prior: Array, ridge: Array, start: Array, steps: int) -> Array:
    """Conjugate gradient steps for ``(sum_t w_t y_t y_t^T + diag(prior) + ridge I) x = sum_t w_t r_t y_t``.

    One system for each row (column), preconditioned by the diagonal; two passes for each step. Backends with a fused pass
    have their own.

    Parameters
    ----------
    observations : Observations
        Values r and weights w.
    columns : bool
        Solve for the factors of the columns instead.
    other : (n, k) array
        Factors y of the other side. All arrays are of the backend and of the dtype of the values.
    prior : (k,) array
        Nonnegative.
    ridge : (rows,) array
        Positive.
    start : (rows, k) array
    steps : int

    Returns
    -------
    (rows, k) array
    """
    weights, values = observations.weights, observations.values
    gather = observations.adjoint_times if columns else observations.times
    diagonal = prior[None, :] + ridge[:, None]

    def sampled(x: Array) -> Array:
        return observations.sample(other, x) if columns else observations.sample(x, other)

    def gathered(entries: Array, factor: Array) -> Array:
        return gather(entries if weights is None else weights * entries, factor)

    x = start
    r = gathered(values - sampled(x), other) - diagonal * x
    inverse = 1 / (gathered(values * 0 + 1, other * other) + diagonal)
    p = inverse * r
    rz = (r * p).sum(1)[:, None]
    for _ in range(steps):
        q = gathered(sampled(p), other) + diagonal * p
        alpha = rz / (p * q).sum(1)[:, None].clip(TINY)
        x, r = x + alpha * p, r - alpha * q
        z = inverse * r
        after = (r * z).sum(1)[:, None]
        p, rz = z + after / rz.clip(TINY) * p, after
    return x


def descend(M: Array, h: Array, x: Array, cycles: int, tolerance: float) -> Array:
    """Minimize ``x^T M x / 2 - h^T x`` over x >= 0 by coordinate descent, for many M at once, starting from x.

    A cycle minimizes over one coordinate after the other. The iteration of a system ends after a cycle that changes x by at
    most ``tolerance``, relative and in the norm of the diagonal of M; it does not depend on the other systems.
    ``src/kernels/nonnegative.cpp`` computes the same.

    Parameters
    ----------
    M : (n, k, k) array
        Symmetric, positive semidefinite.
    h : (n, k) array
    x : (n, k) array
        Nonnegative; changed in place.
    cycles : int
        Maximum number of cycles.
    tolerance : float
    """
    k = x.shape[1]
    if not k:
        return x
    g = h - (M * x[:, None, :]).sum(2)
    active = g[:, 0] == g[:, 0]  # all of them
    for _ in range(cycles):
        moved, size = 0.0 * g[:, 0], 0.0 * g[:, 0]
        for a in range(k):
            own = M[:, a, a]
            free = own > 0  # else the objective does not depend on the coordinate
            step = (x[:, a] + g[:, a] / (own + 1.0 * ~free)).clip(0) - x[:, a]
            step = step * free * active
            g = g - step[:, None] * M[:, a]
            x[:, a] += step
            moved, size = moved + own * step * step, size + own * x[:, a] * x[:, a]
        active = active & (moved > tolerance**2 * size)
        if not bool(active.any()):
            break
    return x
