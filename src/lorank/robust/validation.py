"""Whether a fit that has left outliers out is to be believed: rows of which nothing fits, and observations held back."""

from __future__ import annotations

import numpy as np

from ..backends import entrywise, total
from ..common.checks import counted
from ..geometry import FixedRank
from ..losses.residual_tails import quantile
from ..problems import Completion
from ..starts.rank_growth import fit
from .weights import threshold_weights

HELD, STEPS = 0.1, 20  # share of observations held back, and steps of the fit to the others
FEWEST = 1.9  # observations that fit, for each degree of freedom: with fewer, noise can be whatever one likes
INFLATED, PLAIN = 1.3, 1.6  # deviations of what was held back over what they should be, and where no outliers were found
POOR, MOST = 0.55, 0.4  # the same over the data: a fit that says little of them; less than half of that where so many are out,
MANY = 0.25  # where so many were held for outliers, or observations are no more than
AMPLE = 4.4  # for each degree of freedom; elsewhere noise may be as large as the data
FEW = 0.01  # of the rows and columns: in noisy data some always have few observations, and one more or less left out
SCARCE = 3.0  # observations for each degree of freedom: with more, a fit for which no outliers were searched is not asked


def validate(problem: Completion, X: FixedRank, limit: float, *, noisy: bool, searched: bool = False) -> str:
    """A sentence on why X may be a wrong end, and an empty one where nothing speaks against it.

    Rows and columns with no more observations within the limit than any fit would fit are not determined, even where they are
    right. Where what is left over is noise, a tenth of the observations that fit is held back, the others are fitted from X on,
    and the deviations of the former are compared with what they should be: with m observations and k degrees of freedom, those
    of observations that were fitted times ``m / (m - k)``. A poor fit to outliers and all, which looks like noise, does not
    predict any.
    """
    rank, dof = X.rank, problem.dof(X.rank)
    observed, d = problem.observations, problem.observations.residual(X.U * X.s, X.V)
    fits, share = threshold_weights(d, limit)
    fitting = share * problem.m
    if np.isfinite(limit):
        lost = [int(((observed.sums(fits, k) <= rank) & (observed.counts(k) > rank)).sum()) for k in (0, 1)]
        if sum(lost) > (FEW * sum(problem.shape) if noisy else 0):
            return (
                f"But {counted(lost[0], 'row')} and {counted(lost[1], 'column')} have no more than "
                f"{counted(rank, 'observation')} that fit, as many as fit "
                "whatever they are: their entries are not to be trusted. Get more observations of them, or leave them out."
            )
    if not noisy or not (np.isfinite(limit) or searched or problem.m < SCARCE * dof):
        return ""
    if np.isfinite(limit) and fitting < FEWEST * dof:
        return (
            f"But only {fitting / dof:.2f} observations for each degree of freedom fit, too few to tell outliers "
            "from the rest. Ask for a smaller rank, or get more observations."
        )
    part = problem.with_observations(observed.with_weights(fits if observed.weights is None else fits * observed.weights))
    try:
        kept, held = part.split(np.random.default_rng(0), HELD)
    except ValueError:  # too few to hold any back
        return ""
    found = fit(kept, X, 5, STEPS, stall_ratio=0.98)
    before, (now, typical, data) = _sizes(part, X)[0], _sizes(held, found)
    inflation = now / before * (fitting - dof) / fitting if before > 0 else 1.0
    data = data or 1.0
    unsure = 1 - share > MANY or fitting < AMPLE * dof
    poor = 0.45 * POOR if 1 - share > MOST else POOR if unsure else 1.0
    if inflation <= (INFLATED if np.isfinite(limit) else PLAIN) and typical <= poor * data:
        return ""
    return (
        f"But observations held back are predicted with deviations {typical / data:.2g} times as large as the data are, "
        f"{inflation:.2g} times what noise would explain: the fit may be one of outliers. Ask for a smaller rank, or get more "
        "observations."
    )


def _sizes(problem: Completion, X: FixedRank) -> tuple[float, float, float]:
    """Of observations with a weight: the root mean square of deviations, their median, and that of the data."""
    weights, d, backend = problem.observations.weights, problem.observations.residual(X.U * X.s, X.V), problem.backend
    seen, square, count = total(lambda xp, w, d: (0 * w + (w > 0), w * abs(d) ** 2, w), weights, d)
    middle = 1 - 0.5 * seen / problem.m  # the others are zeros, and come first
    left = (
        entrywise(lambda xp, w, d: (w > 0) * abs(d), weights, d),
        entrywise(lambda xp, w, y: (w > 0) * abs(y), weights, problem.y),
    )
    typical, data = (quantile(v, middle, backend) for v in left)
    return float(np.sqrt(square / max(count, 1e-300))), typical, data
