"""Steps of conjugate gradients on many normal equations at once, by passes that every backend has.

The default of :meth:`~lorank.backends.protocol.Observations.normal_steps`: two passes for each step. Backends with a fused
pass keep what they gather in their caches instead.
"""

from __future__ import annotations

from typing import Any

Array = Any
TINY = 1e-30  # in place of zero, where a row is done


def normal_steps(observations: Any, columns: bool, other: Array, prior: Array, ridge: Array, start: Array, steps: int) -> Array:
    """A few steps towards the solutions x of ``(sum_t w_t y_t y_t^T + diag(prior) + ridge I) x = sum_t w_t r_t y_t``, one
    system for each row (column), with the diagonal of the matrix as preconditioner.

    Parameters
    ----------
    observations : Observations
        With the values r and the weights w.
    columns : bool
        Solve for the columns' factors instead.
    other : (n, k) array
        The other side's factors y. These and what follows are arrays of the backend, of the dtype of the values.
    prior : (k,) array
        Positive or zero.
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
