"""Protocol of starts."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..geometry import FixedRank
from ..problems import Problem


class Start(Protocol):
    """An initial point as a function of the problem, the rank and a random generator.

    Examples
    --------
    A user's own start:

    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> def middle(problem, rank, rng):
    ...     return lr.FixedRank.from_factors(rng.random((problem.shape[0], rank)), rng.random((problem.shape[1], rank)))
    >>> lr.solve(problem, rank=2, start=middle).converged
    True
    """

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        """A point of that rank on the manifold of the problem."""
        ...
