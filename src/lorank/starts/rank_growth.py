"""Going on from a point: conjugate gradient steps at its rank, and further singular pairs."""

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
from .spectral import leading
from .trimmed import trimmed_pairs

HIDING = 0.7  # relative residual: rank 1 that leaves more over is less than half of the data


def fit(problem: Problem, X: FixedRank, settle: int, max_steps: int, *, tol: float = 0.0, fall: float = 0.9) -> FixedRank:
    """X after conjugate gradient steps at its rank: until ``settle`` of them leave more than ``fall`` of the residual, or the
    relative residual is ``tol`` or rounding, and at most ``max_steps``.
    """
    tol = max(tol, 100 * float(np.finfo(X.dtype).eps))
    return run(
        problem, RCG(Counts()), X, RelativeResidual(tol) | Slowdown(max(settle, 1), fall) | Iterations(max_steps)
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
    """X with ``more`` further singular pairs: the leading ones of the negative gradient, with the step that fits them best.
    The point comes back times ``unit``, in that dtype, by default the problem's.
    """
    backend, G = problem.backend, problem.gradient(X)
    Y = leading(problem, G, more, rng, tol=tol, restarts=5, depth=1)
    left = Y.U * Y.s
    step = G.exact_step(left, Y.V)
    both = backend.concat([X.U * X.s, left * step]), backend.concat([X.V, Y.V])
    left, right = (backend.astype(a, dtype or problem.dtype) for a in both)
    return FixedRank.from_factors(left * unit, right, backend=backend)


def grow_from_rank_one(
    problem: Problem, X: FixedRank, rank: int, rng: np.random.Generator, *, dtype: Any = None, unit: float = 1.0
) -> FixedRank:
    """A point of that rank: X, of rank 1, and the leading pairs of what it leaves over; without X where it is not most of the
    data, the leading pairs of all.

    Only what dominates hides the rest. What does not may be noise: a few sweeps from a random vector, whose share in the
    directions that are sought is about ``(rank / n)**0.5``, find none of them where n is in the millions, but a few rows and
    columns to fit too well. One direction would be missing then, and conjugate gradients slow on the spikes.
    """
    least_squares = supports(problem, TightFrame)
    if least_squares and problem.gradient(X).residual_norm > HIDING * problem.y_norm:
        return trimmed_pairs(problem, rank, rng, dtype=dtype, unit=unit)
    return grow(problem, X, rank - 1, rng, tol=0.2 * (rank - 1) ** 0.5, dtype=dtype, unit=unit)
