"""Staged initialization: rank 1 first, then the remaining ranks at once (``Staged``) or one by one (``Continuation``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..common.checks import YES_OR_NO, check_parameters, whole
from ..geometry import FixedRank, FixedRankManifold
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
from .spectral import COARSE, Spectral

FEW_PER_DOF = 1.5  # measurements per degree of freedom below which spare ranks are used
SPARE_RANKS, SPARE_STEPS = 2, 40


@dataclass(frozen=True)
class Staged:
    """Rank 1 first, then the remaining ranks at once: the leading singular pairs of its residual.

    Where one direction dominates (a mean, say), the trailing singular vectors of ``A* y`` are mostly sampling noise of that
    direction. They appear in the residual of the rank-1 fit. A rank-1 fit that explains less than half of the data is dropped,
    since on large matrices it may be noise: then all pairs come from ``A* y`` with heavy rows and columns trimmed.

    For isotropic measurements (:attr:`Problem.isotropic`) this is the spectral start. Where these are fewer than 1.5 per degree
    of freedom, a few conjugate gradient steps at a larger rank come first, because descent at the rank itself may end in a poor
    local minimum. A model with an initial point of its own uses that instead.

    Parameters
    ----------
    inner_max_iter : int
        Conjugate gradient steps at rank 1, used where the model has no rank-1 approximation of its own, or its rows and columns
        differ much in size.
    normalized : bool
        Whether singular vectors are normalized by the numbers of observations of rows and columns
        (:mod:`lorank.starts.count_normalized`), for unevenly sampled data; False by default.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, start=lr.starts.Staged(inner_max_iter=5)).converged
    True
    """

    inner_max_iter: int = 3
    normalized: bool = False

    needs: ClassVar[tuple[type, ...]] = (FixedRankManifold,)

    def __post_init__(self) -> None:
        check_parameters(self, inner_max_iter=whole(0), normalized=YES_OR_NO)

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        if supports(problem, HasInitialPoint):
            return problem.initial_point(rank, rng)
        if problem.isotropic and rank > 1:
            dof = (sum(problem.shape) - rank) * rank
            return with_spare_ranks(problem, rank, rng) if problem.m < FEW_PER_DOF * dof else Spectral()(problem, rank, rng)
        if rank == 1:
            X = rank_one_point(problem, rng) if problem.isotropic or problem.nonquadratic_at_zero else None
            return COARSE(problem, 1, rng) if X is None else X
        single = problem.single_precision() if supports(problem, HasSinglePrecision) else None
        rough, unit = (problem, 1.0) if single is None else (single.problem, single.unit)
        even = not supports(problem, Rescalable) or problem.rescaled() is None  # rows and columns of similar size
        X = rank_one_point(rough, rng) if even else None
        if X is not None:
            return grow_from_rank_one(rough, X, rank, rng, dtype=problem.dtype, unit=unit, normalized=self.normalized)
        try:
            X = fit(rough, COARSE(rough, 1, rng), self.inner_max_iter, self.inner_max_iter)
        except Interrupted as stopped:
            raise Interrupted(stopped.point if single is None else single.back(stopped.point)) from None
        tol = 0.2 * (rank - 1) ** 0.5 if even else 0.2  # a fifth per pair on average, or for all of them together
        return grow(rough, X, rank - 1, rng, tol=tol, dtype=problem.dtype, unit=unit)


@dataclass(frozen=True)
class Continuation:
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

    stall_window: int = 5
    inner_max_iter: int = 30

    needs: ClassVar[tuple[type, ...]] = (FixedRankManifold,)

    def __post_init__(self) -> None:
        check_parameters(self, stall_window=whole(1), inner_max_iter=whole(0))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        X = COARSE(problem, 1, rng)
        while X.rank < rank:
            X = grow(problem, fit(problem, X, self.stall_window, self.inner_max_iter), 1, rng)
        return X


def rank_one_point(problem: Problem, rng: np.random.Generator) -> FixedRank | None:
    """The model's own rank-1 approximation of the data; None where it has none."""
    return problem.rank_one_point(rng) if supports(problem, HasRankOnePoint) else None


def with_spare_ranks(problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
    """The spectral start at a larger rank, after some conjugate gradient steps, truncated to its leading pairs.

    The larger rank avoids poor local minima. The steps are part of the start and not counted as iterations.
    """

    def leading_pairs(X: FixedRank) -> FixedRank:
        return FixedRank.from_factors((X.U * X.s)[:, :rank], X.V[:, :rank], backend=X.backend)

    wide = min(rank + SPARE_RANKS, *problem.shape)
    try:
        return leading_pairs(fit(problem, Spectral()(problem, wide, rng), SPARE_STEPS, SPARE_STEPS))
    except Interrupted as stopped:
        raise Interrupted(leading_pairs(stopped.point)) from None
