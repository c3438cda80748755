"""Going on from a point: conjugate gradient steps at its rank, and further singular pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array
from ..geometry import FixedRank
from ..metrics import Counts
from ..operators import Gradient, Problem
from ..solvers.rcg import RCG
from ..solvers.runner import run
from ..stopping import Iterations, RelativeResidual, Slowdown
from .spectral import leading

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
    least_squares = problem.tight_frame is not None
    if least_squares and problem.gradient(X).residual_norm > HIDING * problem.y_norm:
        return evened(problem, rank, rng, dtype=dtype, unit=unit)
    return grow(problem, X, rank - 1, rng, tol=0.2 * (rank - 1) ** 0.5, dtype=dtype, unit=unit)


@dataclass(frozen=True)
class Trimmed:
    """A gradient with its rows and columns that are heavier than the others scaled down to their root mean square."""

    G: Gradient
    rows: Array  # (n1, 1), at most 1
    cols: Array  # (n2, 1)

    @classmethod
    def of(cls, G: Gradient) -> Trimmed:
        backend, dtype = G.problem.backend, np.zeros(0, G.problem.dtype).real.dtype

        def scale(squares: Array) -> Array:
            mean = float(squares.mean())
            return backend.astype((squares / mean if mean > 0 else squares).clip(1.0) ** -0.5, dtype)[:, None]

        return cls(G, scale(G.row_squares), scale(G.col_squares))

    def times(self, v: Array) -> Array:
        return self.rows * self.G.times(self.cols * v)

    def adjoint_times(self, u: Array) -> Array:
        return self.cols * self.G.adjoint_times(self.rows * u)


def evened(problem: Problem, rank: int, rng: np.random.Generator, *, dtype: Any = None, unit: float = 1.0) -> FixedRank:
    """The leading pairs of ``A* y``, with the step that fits them best, heavy rows and columns trimmed for their computation.

    The more rows and columns, the heavier the heaviest of them, and singular vectors of a sparse matrix are drawn to these.
    """
    backend, G = problem.backend, problem.gradient(problem.zero(1))
    even = Trimmed.of(G)
    # Each pair to a tenth on average: pairs of mere noise, with which this begins, are accurate to a fifth soon.
    Y = leading(problem, even, rank, rng, tol=0.1 * rank**0.5, restarts=5, depth=1)
    left, right = Y.U * Y.s / even.rows, Y.V / even.cols
    step = unit * G.exact_step(left, right)
    left, right = (backend.astype(a, dtype or problem.dtype) for a in (left * step, right))
    return FixedRank.from_factors(left, right, backend=backend)


def in_units(X: FixedRank, problem: Problem, unit: float) -> FixedRank:
    """A point of :meth:`Problem.single` in the units and the precision of the problem itself."""
    left, right = (X.backend.astype(a, problem.dtype) for a in (X.U * X.s, X.V))
    return FixedRank.from_factors(left * unit, right, backend=X.backend)
