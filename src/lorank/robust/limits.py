"""The limit beyond which deviations are considered outliers."""

from __future__ import annotations

import math

import numpy as np

from ..backends import Vector
from ..geometry import FixedRank
from ..losses.residual_tails import NORMAL_MEDIAN, NORMAL_THREE_QUARTERS, quantile
from ..problems import Completion
from .options import Thresholds
from .weights import misfit_root, threshold_weights

MAX_NOISE_ROUNDS = 40  # the limit for noise is constant after so many rounds
UNIT = 0.015  # unit of the robust objective, in medians of the absolute data


def deviations(problem: Completion, X: FixedRank) -> Vector:
    """``X - y`` at the observed entries."""
    return problem.observations.residual(X.U * X.s, X.V)


def updated_limit(
    thresholds: Thresholds,
    problem: Completion,
    d: Vector,
    rank: int,
    limit: float,
    share: float,
    size: float,
    rounds: int,
    noisy: bool = False,
) -> float:
    """The limit that follows from quantiles of the deviations within the last one.

    Parameters
    ----------
    thresholds : Thresholds
    problem : Completion
    d : (m,) vector
        Deviations.
    rank : int
    limit, share : float
        The last limit and the share of the observations within it (computed if ``rounds`` is 0).
    size : float
        Median of the absolute data.
    rounds : int
        Number of updates so far.
    noisy : bool
        Whether deviations are noise: the limit is then ``limit_sigmas`` standard deviations. Otherwise it only falls.
    """
    backend = problem.backend
    if rounds == 0:
        share = threshold_weights(d, limit)[1]
    if noisy:
        if rounds > MAX_NOISE_ROUNDS:
            return limit
        fitting = share * problem.m
        freedom = math.sqrt(fitting / max(fitting - problem.dof(rank), 1.0))
        return thresholds.limit_sigmas * quantile(d, 0.5 * share, backend) / NORMAL_MEDIAN * freedom
    typical = quantile(d, 0.75 * share, backend) / NORMAL_THREE_QUARTERS
    rounding = 1e3 * float(np.finfo(problem.dtype).eps) * size
    return min(limit, max(thresholds.limit_quantiles * typical, rounding))


def robust_objective(problem: Completion, d: Vector) -> float:
    """The objective by which the ends of attempts are compared."""
    return misfit_root(d, UNIT * quantile(problem.y, 0.5, problem.backend))
