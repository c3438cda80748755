"""The rank that the data ask for."""

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
from ..starts.rank_growth import fit, grow
from ..starts.spectral import Spectral

SHARE = 0.1  # of the measurements are held back
PATIENCE = 3  # ranks that may predict them no better before the search ends
GAIN = 0.01  # an error must fall by this share to count as better
ROOM = 1.05  # measurements per degree of freedom below which everything fits and nothing is predicted


@dataclass(frozen=True)
class Found:
    """What the search found.

    Attributes
    ----------
    rank : int
    path : tuple of RankTrial
    interrupted : FixedRank or None
        The best point so far, where Ctrl-C ended the search.
    """

    rank: int
    path: tuple[RankTrial, ...]
    interrupted: FixedRank | None = None


def find_rank(problem: Problem, tol: float, rng: np.random.Generator) -> Found:
    """The smallest rank that fits the data to ``tol``; else the one that predicts held-out measurements best.

    Rank by rank on the rest of the measurements, each from the rank before and the leading singular pair of what it left over.
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
            top = max((k for k in range(1, min(problem.shape) + 1) if kept.m >= ROOM * kept.dof(k)), default=1)
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
            f"{type(problem).__name__} cannot hold measurements back to judge by: raise tol, or give the rank as a number"
        )
    return Found(best.rank, tuple(path))


def describe_path(path: tuple[RankTrial, ...], rank: int, tol: float) -> str:
    """A sentence on how the rank was found."""
    chosen = next(t for t in path if t.rank == rank)
    tried = f"ranks 1 to {path[-1].rank}" if len(path) > 1 else "rank 1"
    if chosen.residual <= tol:
        return f"Tried {tried}: rank {rank} is the first that fits the data."
    return f"Tried {tried}: rank {rank} predicts held-out measurements best (relative error {chosen.held_out:.1e})."


def _split(problem: Problem, rng: np.random.Generator) -> tuple[Problem, Problem | None]:
    return problem.split(rng, SHARE) if supports(problem, HasSplit) else (problem, None)


def _best(path: list[RankTrial]) -> RankTrial:
    """The smallest rank that none after it betters by much."""
    best = path[0]
    for trial in path[1:]:
        if trial.held_out < (1 - GAIN) * best.held_out:
            best = trial
    return best
