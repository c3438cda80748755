"""Steps of staged starts: conjugate gradients at a fixed rank, and more singular pairs from the residual."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..geometry import FixedRank
from ..loop.runner import run
from ..loop.stopping import Iterations, RelativeResidual, Slowdown
from ..metrics import Counts
from ..problems import Problem
from ..problems.capabilities import TightFrame, supports
from ..solvers.rcg import RCG
from .count_normalized import normalized_pairs
from .spectral import leading, trimmed_pairs

DOMINANT_BELOW = 0.7  # relative residual: a rank-1 fit above it explains less than half of the data


def fit(
    problem: Problem, X: FixedRank, stall_window: int, max_iter: int, *, tol: float = 0.0, stall_ratio: float = 0.9
) -> FixedRank:
    """X after at most ``max_iter`` conjugate gradient steps at its rank.

    They stop when ``stall_window`` steps leave more than ``stall_ratio`` of the residual, or the relative residual is below
    ``tol`` or rounding.
    """
    tol = max(tol, 100 * float(np.finfo(X.dtype).eps))
    return run(
        problem, RCG(Counts()), X, RelativeResidual(tol) | Slowdown(max(stall_window, 1), stall_ratio) | Iterations(max_iter)
    ).point()


def grow(
    problem: Problem,
    X: FixedRank,
    more: int,
    rng: np.random.Generator,
    *,
    tol: float = 0.2,
    dtype: Any = None,
    unit: float = 1.0,
) -> FixedRank:
    """X with ``more`` leading singular pairs of the negative gradient added, times the step of best fit.

    The result is multiplied by ``unit`` and has that dtype, by default the dtype of the problem.
    """
    backend, G = problem.backend, problem.gradient(X)
    Y = leading(problem, G, more, rng, tol=tol, restarts=5, depth=1)
    left = Y.U * Y.s
    step = G.exact_step(left, Y.V)
    both = backend.concat([X.U * X.s, left * step]), backend.concat([X.V, Y.V])
    left, right = (backend.astype(a, dtype or problem.dtype) for a in both)
    return FixedRank.from_factors(left * unit, right, backend=backend)


def grow_from_rank_one(
    problem: Problem,
    X: FixedRank,
    rank: int,
    rng: np.random.Generator,
    *,
    dtype: Any = None,
    unit: float = 1.0,
    normalized: bool = False,
) -> FixedRank:
    """A point of that rank from X of rank 1: X and the leading pairs of its residual, or the leading pairs of the data alone.

    The second is used where X explains less than half of the data: in dimensions in the millions such an X overfits a few rows
    and columns, since its random start has a component of only ``(rank / n)**0.5`` in the directions sought.
    """
    if supports(problem, TightFrame):
        dominates = problem.gradient(X).residual_norm <= DOMINANT_BELOW * problem.y_norm
        if normalized:
            return normalized_pairs(problem, rank, rng, X if dominates else None, dtype=dtype, unit=unit)
        if not dominates:
            return trimmed_pairs(problem, rank, rng, dtype=dtype, unit=unit)
    return grow(problem, X, rank - 1, rng, tol=0.2 * (rank - 1) ** 0.5, dtype=dtype, unit=unit)
