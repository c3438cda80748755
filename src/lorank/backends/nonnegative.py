"""Normal equations whose solutions may not be negative, many at a time: by coordinate descent, as every backend can do it.

The plain twin of ``src/kernels/nonnegative.cpp``. NumPy's arrays and tensors alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
CHUNK = 1 << 22  # numbers in the matrices that are held at a time


def descend(M: Array, h: Array, x: Array, cycles: int, tolerance: float) -> Array:
    """The least value of ``x^T M x / 2 - h^T x`` over x >= 0 for many M at once, from where x is.

    Each cycle sets one coordinate after the other to its best value, given the others: no step goes up. A cycle that moves x by
    no more than ``tolerance`` of its size, both measured by the diagonal of M, is the last; for each x by itself, so that none
    depends on what others are solved beside it.

    Parameters
    ----------
    M : (n, k, k) array
        Symmetric, positive semidefinite.
    h : (n, k) array
    x : (n, k) array
        Not negative; changed in place.
    cycles : int
    tolerance : float
    """
    k = x.shape[1]
    g = h - (M * x[:, None, :]).sum(2)
    going = g[:, 0] == g[:, 0]  # all of them, at first
    for _ in range(cycles):
        moved, size = 0.0 * g[:, 0], 0.0 * g[:, 0]
        for a in range(k):
            own = M[:, a, a]
            free = own > 0  # else nothing depends on it
            step = (x[:, a] + g[:, a] / (own + 1.0 * ~free)).clip(0) - x[:, a]
            step = step * free * going
            g = g - step[:, None] * M[:, a]
            x[:, a] += step
            moved, size = moved + own * step * step, size + own * x[:, a] * x[:, a]
        going = going & (moved > tolerance**2 * size)
        if not bool(going.any()):
            break
    return x


def nonnegative_equations(
    observations: Any,
    columns: bool,
    other: np.ndarray,
    start: np.ndarray,
    ridge: np.ndarray,
    *,
    centre: np.ndarray | None,
    prior: np.ndarray | None,
    weights: np.ndarray | None,
    cycles: int,
    tolerance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Factors of rows (columns) that are not negative, given those of the other side.

    For a row with values r_t at columns whose factors are y_t, the least value over x >= 0 of::

        x^T M x / 2 - h^T x,   M = sum_t w_t y_t y_t^T + P + ridge I,   h = sum_t w_t r_t y_t + ridge centre

    Parameters
    ----------
    observations : Observations
        With the values r and the weights w.
    columns : bool
        Solve for the columns' factors instead.
    other : (n, k) array
        The other side's factors y. All arrays are in double precision.
    start : (rows, k) array
        Not negative.
    ridge : (rows,) array
    centre : (k,) array, optional
        Zero by default.
    prior : (k, k) array, optional
        P, zero by default.
    weights : (m,) array, optional
        In row-major order, in place of those of the observations.
    cycles, tolerance
        See :func:`descend`.

    Returns
    -------
    x : (rows, k) array
    squares : (rows,) array
        ``sum_t w_t (r_t - x y_t)^2``.
    """
    n, k = observations.shape[1 if columns else 0], other.shape[1]
    major, minor = (observations.indices, observations.rows) if columns else (observations.rows, observations.indices)
    order = np.argsort(major, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(major, minlength=n))])
    minor, r = minor[order], observations.values[order].astype(float)
    weights = observations.weights if weights is None else weights
    w = np.ones(len(r)) if weights is None else weights[order].astype(float)
    x, squares = np.array(start, float), np.empty(n)
    step = max(1, CHUNK // (k * k))
    for first in range(0, n, step):
        rows = range(first, min(first + step, n))
        A, b, total = np.empty((len(rows), k, k)), np.empty((len(rows), k)), np.empty(len(rows))
        for at, i in enumerate(rows):
            part = slice(ends[i], ends[i + 1])
            y, wr = other[minor[part]], w[part] * r[part]
            A[at], b[at], total[at] = (y.T * w[part]) @ y, y.T @ wr, wr @ r[part]
        own = slice(first, first + len(rows))
        M = A + ridge[own, None, None] * np.eye(k) + (0.0 if prior is None else prior)
        h = b if centre is None else b + ridge[own, None] * centre
        found = descend(M, h, x[own], cycles, tolerance)
        squares[own] = total + (found * (np.einsum("nij,nj->ni", A, found) - 2 * b)).sum(1)
    return x, squares
