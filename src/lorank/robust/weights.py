"""Weights of observations by their deviations from a fit, and the limit beyond which they are considered outliers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array, Vector, entrywise, total
from ..geometry import FixedRank
from ..losses.residual_tails import NORMAL_MEDIAN, NORMAL_THREE_QUARTERS, quantile
from ..problems import Completion
from .options import Thresholds

MAX_NOISE_ROUNDS = 40  # updates after which the limit for noise is constant


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a search knows of the outliers: common memory of its solvers.

    Attributes
    ----------
    size : float
        Median of the absolute data.
    coarse : float
        First smoothing.
    use_als : bool
        Whether steps are ALS sweeps, not conjugate gradients.
    limit : float
        Deviation beyond which observations are considered outliers.
    share : float
        Of the other observations.
    rounds : int
        Updates of the limit so far.
    level : float
        Typical deviation or residual at the last of them.
    """

    size: float
    coarse: float
    use_als: bool
    limit: float = math.inf
    share: float = 1.0
    rounds: int = 0
    level: float = math.inf

    def next_limit(self, thresholds: Thresholds, problem: Completion, d: Vector, rank: int, noisy: bool = False) -> float:
        """The limit that follows from quantiles of the deviations d within the last one.

        For noisy data it is a number of standard deviations; otherwise it only falls.
        """
        backend, limit = problem.backend, self.limit
        share = self.share if self.rounds else threshold_weights(d, limit)[1]
        if not noisy:
            typical = quantile(d, 0.75 * share, backend) / NORMAL_THREE_QUARTERS
            rounding = 1e3 * float(np.finfo(problem.dtype).eps) * self.size
            return min(limit, max(thresholds.limit_quantiles * typical, rounding))
        if self.rounds > MAX_NOISE_ROUNDS:
            return limit
        fitting = share * problem.m
        inflation = math.sqrt(fitting / max(fitting - problem.dof(rank), 1.0))
        return thresholds.limit_sigmas * (quantile(d, 0.5 * share, backend) / NORMAL_MEDIAN * inflation)


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

    return _with_mean(entrywise(weights, d), base)


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

    return _with_mean(entrywise(weights, d), base)


def _with_mean(weights: Vector, base: Vector | None) -> tuple[Vector, float]:
    return (weights if base is None else base * weights), float(weights.sum()) / len(weights)


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


def robust_objective(problem: Completion, d: Vector) -> float:
    """The sum of ``(1 + |d / unit|^2)^(1/4) - 1``, in a unit of 0.015 medians of the data, for comparisons of robust fits."""
    unit = 0.015 * quantile(problem.y, 0.5, problem.backend)
    return float(total(lambda xp, d: (xp.sqrt(xp.sqrt(abs(d / unit) ** 2 + 1)) - 1,), d)[0])


def deviations(problem: Completion, X: FixedRank) -> Vector:
    """``X - y`` at the observed entries."""
    return problem.observations.residual(X.U * X.s, X.V)
