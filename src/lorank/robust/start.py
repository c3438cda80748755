"""Initialization of the search for outliers."""

from __future__ import annotations

import numpy as np

from ..backends import Vector
from ..geometry import FixedRank
from ..losses.residual_tails import quantile
from ..problems import Completion
from ..starts.rank_growth import grow_from_rank_one
from ..starts.staged import Staged
from .weights import sqrt_weights

RESIDUAL_MEDIANS = 1.5  # unit of the smoothing, in medians of the residual of rank 1, for data with a dominant mean


def coarse_start(inside: Completion, first: float, rank: int) -> tuple[float, float, FixedRank]:
    """The first smoothing, the median of the absolute data, and an initial point, fitted with small weights of large values.

    The smoothing is ``first`` medians of the data or, where a fit of rank 1 leaves much less (data with a dominant mean), of
    its residual.
    """
    observed, median, rng = inside.observations, quantile(inside.y, 0.5, inside.backend), np.random.default_rng(0)

    def weighted(d: Vector, epsilon: float) -> Completion:
        return inside.with_observations(observed.with_weights(sqrt_weights(d, epsilon, observed.weights)[0]))

    found = weighted(inside.y, 2 * first * median)
    one = found.rank_one_point(rng)
    assert one is not None
    d = observed.residual(one.U * one.s, one.V)
    rest = RESIDUAL_MEDIANS * quantile(d, 0.5, inside.backend)
    unit = min(rest, median) if rest > 0 else median
    if unit < median:
        found = weighted(d, 2 * first * unit)
    elif rank > 1 and found.rescaled() is None:  # the staged start would compute the same point
        return first * unit, median, inside.project_feasible(grow_from_rank_one(found, one, rank, rng))
    return first * unit, median, inside.project_feasible(Staged()(found, rank, rng))
