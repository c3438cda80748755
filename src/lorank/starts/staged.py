"""The staged start: rank 1 first, then the rest at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.checks import check_parameters, whole
from ..geometry import FixedRank
from ..loop.runner import Interrupted
from ..problems import Problem
from ..problems.capabilities import (
    HasInitialPoint,
    HasRankOnePoint,
    HasSinglePrecision,
    Rescalable,
    supports,
)
from .rank_growth import fit, grow, grow_from_rank_one
from .spectral import ROUGHLY, Spectral

FEW = 1.5  # measurements for each degree of freedom
SPARE_RANKS, SPARE_STEPS = 2, 40


@dataclass(frozen=True)
class Staged:
    """Rank 1 first, then the rest at once: the leading singular pairs of what rank 1 leaves over.

    Where one direction dominates (a mean, say), the trailing singular vectors of ``A* y`` are mostly that direction's sampling
    noise. Fitted first, it leaves a residual that shows the others. Rank 1 that is less than half of the data hides nothing,
    and may be noise where rows and columns are many: then all pairs come from ``A* y``, with rows and columns that are heavier
    than others trimmed, to which singular vectors would be drawn. Where the measurements see all directions alike
    (:attr:`Problem.isotropic`) there is nothing to gain, and this is the spectral start; where they are few as well, that is
    fitted with a few spare ranks first, since descent at the rank itself may end in a poor minimum.

    Parameters
    ----------
    iterations : int
        Conjugate gradient steps at rank 1, where the model has no way of its own (:meth:`Problem.rank_one_point`), or rows and
        columns differ much in size: the heaviest would be fitted too well.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, start=lr.starts.Staged(iterations=5)).converged
    True
    """

    iterations: int = 3

    def __post_init__(self) -> None:
        check_parameters(self, iterations=whole(0))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        if supports(problem, HasInitialPoint):
            return problem.initial_point(rank, rng)
        if problem.isotropic and rank > 1:
            dof = (sum(problem.shape) - rank) * rank
            return with_spare_ranks(problem, rank, rng) if problem.m < FEW * dof else Spectral()(problem, rank, rng)
        if rank == 1:
            X = rank_one_point(problem, rng) if problem.isotropic or problem.nonquadratic_at_zero else None
            return ROUGHLY(problem, 1, rng) if X is None else X
        single = problem.single_precision() if supports(problem, HasSinglePrecision) else None
        rough, unit = (problem, 1.0) if single is None else (single.problem, single.unit)
        alike = not supports(problem, Rescalable) or problem.rescaled() is None
        X = rank_one_point(rough, rng) if alike else None
        if X is not None:
            return grow_from_rank_one(rough, X, rank, rng, dtype=problem.dtype, unit=unit)
        try:
            X = fit(rough, ROUGHLY(rough, 1, rng), self.iterations, self.iterations)
        except Interrupted as stopped:
            raise Interrupted(stopped.point if single is None else single.back(stopped.point)) from None
        tol = 0.2 * (rank - 1) ** 0.5 if alike else 0.2  # each pair to a fifth on average, or all of them together
        return grow(rough, X, rank - 1, rng, tol=tol, dtype=problem.dtype, unit=unit)


def rank_one_point(problem: Problem, rng: np.random.Generator) -> FixedRank | None:
    """The model's own rank-1 approximation of the data; None where it has none."""
    return problem.rank_one_point(rng) if supports(problem, HasRankOnePoint) else None


def with_spare_ranks(problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
    """The spectral start at a somewhat larger rank, after some conjugate gradient steps, cut down to its leading pairs.

    With room to move in, descent goes round the poor minima that few measurements leave at the rank itself. The steps count as
    the start's, not among the iterations.
    """

    def leading_pairs(X: FixedRank) -> FixedRank:
        return FixedRank.from_factors((X.U * X.s)[:, :rank], X.V[:, :rank], backend=X.backend)

    wide = min(rank + SPARE_RANKS, *problem.shape)
    try:
        return leading_pairs(fit(problem, Spectral()(problem, wide, rng), SPARE_STEPS, SPARE_STEPS))
    except Interrupted as stopped:
        raise Interrupted(leading_pairs(stopped.point)) from None
