"""Where factor models begin with losses that let go of what is far off: at a fit that has told outliers from the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..losses.residual_tails import within
from ..problems import Completion
from ..robust.redescending_start import RobustStart
from .majorization import LEAST, Origin

ROOM = 3.0  # observations for each degree of freedom


def told_apart(origin: Origin, rank: int) -> tuple[Completion, Origin] | None:
    """Least squares without the observations that are held for outliers, to begin with, and where the loss's own problems come
    from then: with a scale that up to half of the data may not spoil. None where outliers cannot be told apart, and with losses
    that have no need of it.

    Parameters
    ----------
    origin : Origin
    rank : int
        Offsets included. Where observations are few, outliers are looked for at a smaller one.
    """
    problem = origin.problem
    if problem.loss is None or not problem.loss.redescending:
        return None
    rank = max((k for k in range(1, min(rank, *problem.shape) + 1) if problem.m >= ROOM * problem.dof(k)), default=0)
    if not rank:
        return None
    squares = problem.squares(problem.observations.with_values(problem.y - origin.mean))
    start = RobustStart()
    X = start(squares, rank, np.random.default_rng(0))
    if not start.succeeded:
        return None
    weights, _ = within(squares.observations.residual(X.U * X.s, X.V), start.limit, squares.observations.weights)
    kept = squares.with_observations(squares.observations.with_weights(weights + LEAST))
    trusting = start.adjusted(problem)
    assert isinstance(trusting, Completion)
    return kept, replace(origin, problem=trusting)
