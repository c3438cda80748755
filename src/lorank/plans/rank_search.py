"""Rank selection: increase the rank until the data are fitted or held-out errors stop falling."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..common.checks import ParameterError
from ..geometry import FixedRank, FixedRankManifold
from ..loop.result import RankTrial
from ..loop.runner import Interrupted, limit_threads
from ..problems import Problem
from ..problems.capabilities import HasSplit, missing, supports
from ..starts.spectral import Spectral
from ..starts.staged import fit, grow

HELD_OUT_SHARE = 0.1  # of the measurements
PATIENCE = 3  # ranks without a smaller held-out error before the search ends
MIN_GAIN = 0.01  # relative decrease of the held-out error that counts
MIN_OVERSAMPLING = 1.05  # measurements per degree of freedom: with fewer, any data are fitted


@dataclass(frozen=True)
class Found:
    """Result of the search.

    Attributes
    ----------
    rank : int
    path : tuple of RankTrial
    interrupted : FixedRank or None
        The best point so far, if Ctrl-C ended the search.
    """

    rank: int
    path: tuple[RankTrial, ...]
    interrupted: FixedRank | None = None


def find_rank(problem: Problem, tol: float, rng: np.random.Generator) -> Found:
    """The smallest rank that fits the data to ``tol``; else the one with the smallest held-out error.

    Each rank starts from the fit of the rank before and the leading singular pair of its residual.
    """
    if not supports(problem, FixedRankManifold):
        raise ParameterError("rank", f"'auto' {missing(problem, FixedRankManifold)}; give the rank")
    if problem.y_norm == 0:
        return Found(1, ())
    path: list[RankTrial] = []
    X = problem.zero(1)
    try:
        with limit_threads(problem):
            kept, held = _split(problem, rng)
            top = max((k for k in range(1, min(problem.shape) + 1) if kept.m >= MIN_OVERSAMPLING * kept.dof(k)), default=1)
            X = Spectral(tol=1e-2, restarts=2)(kept, 1, rng)
            while True:
                X = fit(kept, X, stall_window=10, max_iter=200, tol=tol, stall_ratio=0.9)
                G = kept.gradient(X)
                misfit = G.residual_norm / kept.y_norm
                error = math.nan if held is None else held.objective_root(X, G.objective) / (held.y_norm or 1.0)
                path.append(RankTrial(X.rank, misfit, error))
                if misfit <= tol:
                    return Found(X.rank, tuple(path))
                best = _best(path)
                if X.rank >= top or (held is not None and X.rank - best.rank >= PATIENCE):
                    break
                X = grow(kept, X, 1, rng)
    except KeyboardInterrupt as stopped:
        X = stopped.point if isinstance(stopped, Interrupted) else X
        return Found(X.rank, tuple(path), problem.project_feasible(X))
    if held is None:
        raise ValueError(
            f"no rank up to {top} fits the data to {tol:.0e} (best: {min(path, key=lambda t: t.residual).residual:.1e}), and "
            f"{type(problem).__name__} has no held-out measurements to select it by: raise tol, or pass the rank as a number"
        )
    return Found(best.rank, tuple(path))


def describe_path(path: tuple[RankTrial, ...], rank: int, tol: float) -> str:
    """A sentence on the selection of the rank."""
    chosen = next(t for t in path if t.rank == rank)
    tried = f"ranks 1 to {path[-1].rank}" if len(path) > 1 else "rank 1"
    if chosen.residual <= tol:
        return f"Tried {tried}: rank {rank} is the smallest that fits the data."
    return f"Tried {tried}: rank {rank} has the smallest held-out error (relative {chosen.held_out:.1e})."


def _split(problem: Problem, rng: np.random.Generator) -> tuple[Problem, Problem | None]:
    return problem.split(rng, HELD_OUT_SHARE) if supports(problem, HasSplit) else (problem, None)


def _best(path: list[RankTrial]) -> RankTrial:
    """The smallest rank that no later one improves on by :data:`MIN_GAIN`."""
    best = path[0]
    for trial in path[1:]:
        if trial.held_out < (1 - MIN_GAIN) * best.held_out:
            best = trial
    return best
