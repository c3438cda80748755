"""The start rank by rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.checks import check_parameters, whole
from ..geometry import FixedRank
from ..problems import Problem
from .rank_growth import fit, grow
from .spectral import ROUGHLY


@dataclass(frozen=True)
class Continuation:
    """Rank by rank: each rank fitted until it settles, then the leading singular pair of what it leaves over.

    Dearer than :class:`Staged`, and surer where singular values differ much in size: a small one stands out only once all
    larger ones are fitted well.

    Parameters
    ----------
    settle : int
        A rank is settled when its residual has fallen by less than a tenth over so many conjugate gradient steps,
    max_steps : int
        or after so many.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, start=lr.starts.Continuation(settle=3)).converged
    True
    """

    settle: int = 5
    max_steps: int = 30

    def __post_init__(self) -> None:
        check_parameters(self, settle=whole(1), max_steps=whole(0))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        X = ROUGHLY(problem, 1, rng)
        while X.rank < rank:
            X = grow(problem, fit(problem, X, self.settle, self.max_steps), 1, rng)
        return X
