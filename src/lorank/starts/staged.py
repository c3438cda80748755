"""Staged initialization: rank 1 first, then the remaining ranks at once (``Staged``) or one by one (``Continuation``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..common.checks import Checked, parameter, whole
from ..geometry import FixedRank, FixedRankManifold
from ..loop.runner import Interrupted, run
from ..loop.stopping import Iterations, RelativeResidual, Slowdown
from ..metrics import Counts
from ..problems import Problem
from ..problems.capabilities import (
    HasInitialPoint,
    HasRankOnePoint,
    HasSinglePrecision,
    Rescalable,
    TightFrame,
    supports,
)
from ..solvers.rcg import RCG
from .normalized import normalized_pairs
from .spectral import Spectral, leading

COARSE = Spectral(tol=1e-2, restarts=4, depth=1)  # accuracy for points that are fitted further
DOMINANT_BELOW = 0.7  # relative residual: a rank-1 fit above it explains less than half of the data
FEW_PER_DOF = 1.5  # measurements per degree of freedom below which spare ranks are used
SPARE_RANKS, SPARE_STEPS = 2, 40


@dataclass(frozen=True)
class Staged(Checked):
    """Rank 1 first, then the remaining ranks at once: the leading count-normalized singular pairs of its residual.

    Where one direction dominates (a mean, say), the trailing singular vectors of ``A* y`` are mostly sampling noise of that
    direction. They appear in the residual of the rank-1 fit. A rank-1 fit that explains less than half of the data is dropped,
    since on large matrices it may be noise: then all pairs come from ``A* y``. Singular pairs are normalized by the numbers of
    observations of rows and columns (:mod:`lorank.starts.normalized`).

    All this is computed in units in which rows and columns have similar size, for models that have such units
    (:class:`~lorank.problems.capabilities.Rescalable`), and in single precision with many observations.

    For isotropic measurements (:attr:`Problem.isotropic`) this is the spectral start. Where these are fewer than 1.5 per degree
    of freedom, a few conjugate gradient steps at a larger rank come first, because descent at the rank itself may end in a poor
    local minimum. A model with an initial point of its own uses that instead.

    Parameters
    ----------
    inner_max_iter : int
        Conjugate gradient steps at rank 1, used where the model has no rank-1 approximation of its own.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, start=lr.starts.Staged(inner_max_iter=5)).converged
    True
    """

    inner_max_iter: int = parameter(3, whole(0))

    needs: ClassVar[tuple[type, ...]] = (FixedRankManifold,)

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        if supports(problem, HasInitialPoint):
            return problem.initial_point(rank, rng)
        if problem.isotropic and rank > 1:
            few = problem.m < FEW_PER_DOF * problem.dof(rank)
            return with_spare_ranks(problem, rank, rng) if few else Spectral()(problem, rank, rng)
        if supports(problem, Rescalable) and (rescaled := problem.rescaled()) is not None:
            return _through(rescaled, lambda problem: self._start(problem, rank, rng))
        return self._start(problem, rank, rng)

    def _start(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        if rank == 1:
            X = rank_one_point(problem, rng) if problem.isotropic or problem.nonquadratic_at_zero else None
            return COARSE(problem, 1, rng) if X is None else X
        if supports(problem, HasSinglePrecision) and (single := problem.single_precision()) is not None:
            return _through(single, lambda problem: self._grown(problem, rank, rng))
        return self._grown(problem, rank, rng)

    def _grown(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        X = rank_one_point(problem, rng)
        if X is None:
            X = fit(problem, COARSE(problem, 1, rng), self.inner_max_iter, self.inner_max_iter)
        return grow_from_rank_one(problem, X, rank, rng)


def _through(twin: Any, start: Callable[[Problem], FixedRank]) -> FixedRank:
    """A start computed in other units or in another precision."""
    try:
        return twin.back(start(twin.problem))
    except Interrupted as stopped:
        raise Interrupted(twin.back(stopped.point)) from None


@dataclass(frozen=True)
class Continuation(Checked):
    """Start rank by rank: fit one rank, then add the leading singular pair of the residual.

    It takes longer than :class:`Staged` and is more reliable for ill-conditioned matrices, whose small singular values show
    only after the larger ones are fitted.

    Parameters
    ----------
    stall_window : int
        The rank is increased when this many conjugate gradient steps reduce the residual by less than a tenth.
    inner_max_iter : int
        Largest number of steps at each rank.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, start=lr.starts.Continuation(stall_window=3)).converged
    True
    """

    stall_window: int = parameter(5, whole(1))
    inner_max_iter: int = parameter(30, whole(0))

    needs: ClassVar[tuple[type, ...]] = (FixedRankManifold,)

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        X = COARSE(problem, 1, rng)
        while X.rank < rank:
            X = grow(problem, fit(problem, X, self.stall_window, self.inner_max_iter), 1, rng)
        return X


def rank_one_point(problem: Problem, rng: np.random.Generator) -> FixedRank | None:
    """The model's own rank-1 approximation of the data; None where it has none."""
    return problem.rank_one_point(rng) if supports(problem, HasRankOnePoint) else None


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


def grow(problem: Problem, X: FixedRank, more: int, rng: np.random.Generator, *, tol: float = 0.2) -> FixedRank:
    """X with ``more`` leading singular pairs of the negative gradient added, times the step of best fit."""
    backend, G = problem.backend, problem.gradient(X)
    Y = leading(problem, G, more, rng, tol=tol, restarts=5, depth=1)
    left = Y.U * Y.s
    step = G.exact_step(left, Y.V)
    both = backend.concat([X.U * X.s, left * step]), backend.concat([X.V, Y.V])
    return problem.manifold.nearest(FixedRank.from_factors(*both, backend=backend))


def grow_from_rank_one(problem: Problem, X: FixedRank, rank: int, rng: np.random.Generator) -> FixedRank:
    """A point of that rank from X of rank 1: X and the leading pairs of its residual, or the leading pairs of the data alone.

    The second is used where X explains less than half of the data: in dimensions in the millions such an X overfits a few rows
    and columns, since its random start has a component of only ``(rank / n)**0.5`` in the directions sought.
    """
    if supports(problem, TightFrame):
        dominates = problem.gradient(X).residual_norm <= DOMINANT_BELOW * problem.y_norm
        return normalized_pairs(problem, rank, rng, X if dominates else None)
    return grow(problem, X, rank - 1, rng, tol=0.2 * (rank - 1) ** 0.5)


def with_spare_ranks(problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
    """The spectral start at a larger rank, after some conjugate gradient steps, truncated to its leading pairs.

    The larger rank avoids poor local minima. The steps are part of the start and not counted as iterations.
    """

    def leading_pairs(X: FixedRank) -> FixedRank:
        return problem.manifold.nearest(FixedRank.from_factors((X.U * X.s)[:, :rank], X.V[:, :rank], backend=X.backend))

    wide = min(rank + SPARE_RANKS, *problem.shape)
    try:
        return leading_pairs(fit(problem, Spectral()(problem, wide, rng), SPARE_STEPS, SPARE_STEPS))
    except Interrupted as stopped:
        raise Interrupted(leading_pairs(stopped.point)) from None
