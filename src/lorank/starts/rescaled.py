"""Initialization in units in which all rows and columns have similar size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..common.checks import FUNCTION, check_parameters
from ..geometry import FixedRank, FixedRankManifold
from ..loop.runner import Interrupted
from ..problems import Problem
from ..problems.capabilities import Rescalable, supports
from .protocol import Start
from .staged import Staged


@dataclass(frozen=True)
class RescaledStart:
    """A start in the units of the rescaled problem, for models that have one (``rescaled``).

    Parameters
    ----------
    start : Start
        Start in those units, by default :class:`Staged`.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, start=lr.starts.RescaledStart()).converged
    True
    """

    start: Start = field(default_factory=Staged)

    needs: ClassVar[tuple[type, ...]] = (FixedRankManifold,)

    def __post_init__(self) -> None:
        check_parameters(self, start=FUNCTION)

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        rescaled = problem.rescaled() if supports(problem, Rescalable) else None
        if rescaled is None:
            return self.start(problem, rank, rng)
        try:
            return rescaled.back(self.start(rescaled.problem, rank, rng))
        except Interrupted as stopped:
            raise Interrupted(rescaled.back(stopped.point)) from None
