"""A start in units in which rows and columns are alike in size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..common.checks import FUNCTION, check_parameters
from ..geometry import FixedRank
from ..loop.runner import Interrupted
from ..problems import Problem
from .protocol import Start
from .staged import Staged


@dataclass(frozen=True)
class BalancedStart:
    """A start in the units of the balanced problem, where there is one (:meth:`Problem.balanced`).

    Parameters
    ----------
    start : Start
        In those units.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, start=lr.starts.BalancedStart()).converged
    True
    """

    start: Start = field(default_factory=Staged)

    def __post_init__(self) -> None:
        check_parameters(self, start=FUNCTION)

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        balanced = problem.balanced()
        if balanced is None:
            return self.start(problem, rank, rng)
        try:
            return balanced.back(self.start(balanced.problem, rank, rng))
        except Interrupted as stopped:
            raise Interrupted(balanced.back(stopped.point)) from None
