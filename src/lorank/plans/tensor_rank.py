"""Rank selection for tensors: one number for all modes, by held-out entries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..loop.result import RankTrial
from ..loop.runner import Interrupted, limit_threads, run
from ..loop.solver import Solver
from ..loop.stopping import Iterations, RelativeResidual, Stall
from .rank_search import HELD_OUT_SHARE, MIN_GAIN, PATIENCE, Found

STEPS = 50  # iterations at each rank
MIN_OVERSAMPLING = 2.0  # observations per degree of freedom of the largest rank


def find_tensor_rank(problem: Any, tol: float, rng: np.random.Generator, solver: Solver) -> Found:
    """The first rank that fits the data to ``tol``; else the one with the smallest held-out error.

    Each rank is fitted from the initial point of the model. A single number stands for all modes, as in ``solve(problem, 3)``.
    """
    manifold, shape = problem.manifold, problem.shape
    best, trials = RankTrial(1, math.inf, math.inf), list[RankTrial]()
    X = problem.zero(manifold.check_rank(1, shape))
    if problem.y_norm == 0:
        return Found(1)
    try:
        with limit_threads(problem):
            kept, held = problem.split(rng, HELD_OUT_SHARE)
            for size in range(1, max(shape) + 1):
                rank = manifold.check_rank(size, shape)
                if size - best.rank > PATIENCE or (trials and kept.m < MIN_OVERSAMPLING * kept.dof(rank)):
                    break
                stop = RelativeResidual(tol) | Stall() | Iterations(STEPS)
                X = run(kept, solver, kept.initial_point(rank, rng), stop).point()
                G = kept.gradient(X)
                error = held.objective_root(X, G.objective) / (held.y_norm or 1.0)
                trials.append(RankTrial(size, G.residual_norm / (kept.y_norm or 1.0), error))
                fits = trials[-1].residual <= tol
                if fits or error <= (1 - MIN_GAIN) * best.held_out:
                    best = trials[-1]
                if fits:
                    break
    except KeyboardInterrupt as stopped:
        X = stopped.point if isinstance(stopped, Interrupted) else X
        return Found(1, tuple(trials), interrupted=X)
    return Found(best.rank, tuple(trials))
