"""What a start is to a solver."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..geometry import FixedRank
from ..problems import Problem


class Start(Protocol):
    """A starting point: a function of the problem, the rank and a random generator.

    Examples
    --------
    Any function of problem, rank and random generator that gives a point:

    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> def middle(problem, rank, rng):
    ...     return lr.FixedRank.from_factors(rng.random((problem.shape[0], rank)), rng.random((problem.shape[1], rank)))
    >>> lr.solve(problem, rank=2, start=middle).converged
    True
    """

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank: ...
