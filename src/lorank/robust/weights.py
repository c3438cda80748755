"""Weights of observations in robust fits, as functions of their deviations from a fit."""

from __future__ import annotations

from typing import Any

from ..backends import Array, Vector, entrywise, total


def sqrt_weights(d: Vector, epsilon: float, base: Vector | None = None) -> tuple[Vector, float]:
    """The weights ``(1 + |d / epsilon|^2)^(-3/4)`` of a smoothed sum of square roots of deviations.

    Parameters
    ----------
    d : (m,) vector
        Deviations.
    epsilon : float
        Smoothing, in the unit of the deviations.
    base : (m,) vector, optional
        Multiplied to the weights.

    Returns
    -------
    (weights, mean)
        ``mean`` is that of the weights without ``base``.

    Examples
    --------
    >>> import numpy as np
    >>> sqrt_weights(np.array([0.0, 1e3]), 1.0)[0]
    array([1.00000000e+00, 3.16227529e-05])
    """

    def weights(xp: Any, d: Array) -> Array:
        d = d * (1 / epsilon)
        root = xp.sqrt((d * d.conj()).real + 1)
        return 1 / (root * xp.sqrt(root))

    found = entrywise(weights, d)
    mean = float(found.sum()) / len(d)
    return (found if base is None else base * found), mean


def threshold_weights(d: Vector, limit: float, base: Vector | None = None) -> tuple[Vector, float]:
    """Weights 1 (or ``base``) for deviations up to a limit and 0 for the others, and the share of the former.

    Examples
    --------
    >>> import numpy as np
    >>> threshold_weights(np.array([0.5, -2.0]), 1.0)
    (array([1., 0.]), 0.5)
    """

    def weights(xp: Any, d: Array) -> Array:
        return 0 * abs(d) + (abs(d) <= limit)

    found = entrywise(weights, d)
    share = float(found.sum()) / len(d)
    return (found if base is None else base * found), share


def biweight(d: Vector, limit: float) -> Vector:
    """Tukey's biweight ``(1 - |d / limit|^2)^2``, and 0 beyond the limit.

    Examples
    --------
    >>> import numpy as np
    >>> biweight(np.array([0.0, 0.5, 2.0]), 1.0)
    array([1.    , 0.5625, 0.    ])
    """

    def weights(xp: Any, d: Array) -> Array:
        return (1 - (abs(d / limit) ** 2).clip(max=1)) ** 2

    return entrywise(weights, d)


def misfit_root(d: Vector, unit: float) -> float:
    """The sum of ``(1 + |d / unit|^2)^(1/4) - 1``: a robust objective by which fits with outliers are compared."""
    return float(total(lambda xp, d: (xp.sqrt(xp.sqrt(abs(d / unit) ** 2 + 1)) - 1,), d)[0])
