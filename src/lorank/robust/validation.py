"""Validation of robust fits: undetermined rows, and errors on held-out observations."""

from __future__ import annotations

import numpy as np

from ..backends import entrywise, total
from ..common.checks import counted
from ..geometry import FixedRank
from ..losses.residual_tails import quantile
from ..problems import Completion
from ..starts.staged import fit
from .weights import threshold_weights

HELD_OUT_SHARE, MAX_ITER = 0.1, 20  # held-out observations, and steps of the fit to the others
MIN_OVERSAMPLING = 1.9  # inliers per degree of freedom: with fewer, outliers cannot be distinguished
MAX_INFLATION, MAX_INFLATION_ALL = 1.3, 1.6  # of held-out deviations over their expectation; without outliers
MAX_LEVEL = 0.55  # median of held-out deviations over that of the data, for uncertain fits: those with
UNCERTAIN_OUTLIERS, AMPLE_OVERSAMPLING = 0.25, 4.4  # more outliers, or fewer inliers per degree of freedom
MAX_OUTLIERS = 1 / 3  # share from which a fit is doubtful
MAX_LOST_SHARE = 0.01  # of the rows and columns that may be undetermined in noisy data
SCARCE_OVERSAMPLING = 3.0  # observations per degree of freedom below which fits without a search are validated


def validate(problem: Completion, X: FixedRank, limit: float, *, noisy: bool, searched: bool = False) -> str:
    """A sentence on why X may be wrong; empty if the fit passes.

    Rows and columns with at most rank many inliers are undetermined. For noisy data, a tenth of the inliers is held out and the
    others are fitted from X. With m inliers and k degrees of freedom, held-out deviations should be ``m / (m - k)`` times those
    of fitted observations; a poor fit that looks like noise does not predict them.

    Parameters
    ----------
    problem : Completion
    X : FixedRank
        The end of a run.
    limit : float
        Deviation beyond which observations are considered outliers.
    noisy : bool
        Whether the run ended at the noise floor.
    searched : bool
        Whether outliers were searched for in vain.
    """
    rank, dof = X.rank, problem.dof(X.rank)
    observed, d = problem.observations, problem.observations.residual(X.U * X.s, X.V)
    fits, share = threshold_weights(d, limit)
    fitting = share * problem.m
    if 1 - share > MAX_OUTLIERS:
        return (
            f"{1 - share:.0%} of the observations look like outliers, too many to be sure that the others are right: the rank "
            "may be too small, or the data may have other structure. Compare with another rank or with loss='huber'."
        )
    if np.isfinite(limit):
        lost = [int(((observed.sums(fits, k) <= rank) & (observed.counts(k) > rank)).sum()) for k in (0, 1)]
        if sum(lost) > (MAX_LOST_SHARE * sum(problem.shape) if noisy else 0):
            return (
                f"{counted(lost[0], 'row')} and {counted(lost[1], 'column')} have at most {counted(rank, 'observation')} that "
                "fit and are undetermined: remove them, or add observations of them."
            )
    if not noisy or not (np.isfinite(limit) or searched or problem.m < SCARCE_OVERSAMPLING * dof):
        return ""
    if np.isfinite(limit) and fitting < MIN_OVERSAMPLING * dof:
        return (
            f"Only {fitting / dof:.2f} observations per degree of freedom fit, too few to distinguish outliers: use a smaller "
            "rank or more observations."
        )
    part = problem.with_observations(observed.with_weights(fits if observed.weights is None else fits * observed.weights))
    try:
        kept, held = part.split(np.random.default_rng(0), HELD_OUT_SHARE)
    except ValueError:  # too few observations
        return ""
    found = fit(kept, X, 5, MAX_ITER, stall_ratio=0.98)
    before, (now, typical, data) = _sizes(part, X)[0], _sizes(held, found)
    inflation = now / before * (fitting - dof) / fitting if before > 0 else 1.0
    data = data or 1.0
    uncertain = 1 - share > UNCERTAIN_OUTLIERS or fitting < AMPLE_OVERSAMPLING * dof
    level = MAX_LEVEL if uncertain else 1.0
    if inflation <= (MAX_INFLATION if np.isfinite(limit) else MAX_INFLATION_ALL) and typical <= level * data:
        return ""
    return (
        f"Held-out observations have a relative error of {typical / data:.2g}, {inflation:.2g} times that expected of noise: "
        "the fit may follow outliers. Use a smaller rank or more observations."
    )


def _sizes(problem: Completion, X: FixedRank) -> tuple[float, float, float]:
    """For observations of positive weight: root mean square and median of the deviations, and median of the data."""
    weights, d, backend = problem.observations.weights, problem.observations.residual(X.U * X.s, X.V), problem.backend
    seen, square, count = total(lambda xp, w, d: (0 * w + (w > 0), w * abs(d) ** 2, w), weights, d)
    middle = 1 - 0.5 * seen / problem.m  # the others are zeros
    left = (
        entrywise(lambda xp, w, d: (w > 0) * abs(d), weights, d),
        entrywise(lambda xp, w, y: (w > 0) * abs(y), weights, problem.y),
    )
    typical, data = (quantile(v, middle, backend) for v in left)
    return float(np.sqrt(square / max(count, 1e-300))), typical, data
