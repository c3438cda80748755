"""Where losses begin that let go of what is far off: at a fit that has told outliers from the rest."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..geometry import FixedRank
from ..loop.runner import run
from ..loop.stopping import Divergence, Iterations, RelativeResidual, Stall
from ..losses import ScaledLoss
from ..plans.noise_test import NoiseFloor
from ..plans.registry import register_default_start
from ..problems import Completion, Problem
from ..starts.rescaled import RescaledStart
from .plan import Robust

UNSURE = (
    "The loss lets go of what is far off, and may have settled on a part of the data: outliers could not be told apart before. "
    "Compare with loss='huber', which has no local minima of its own."
)
TOLERANCE, STEPS = 1e-4, 300  # what follows has a scale of its own to settle


class RobustStart:
    """The end of a run of :class:`Robust` for least squares with the same observations.

    From elsewhere a loss such as Tukey's may settle on a part of the data, because it lets go of all others.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> start = RobustStart()
    >>> X = start(problem, 2, np.random.default_rng(0))
    >>> start.succeeded, truth.distance(X) < 1e-2 * truth.norm()
    (True, True)
    """

    succeeded: bool = False  # whether the run came to an end of its own that nothing speaks against
    limit: float = math.inf  # deviations beyond it were held for outliers

    @property
    def warning(self) -> str:
        """Appended to the status of the run that follows."""
        return "" if self.succeeded else UNSURE

    def adjusted(self, problem: Problem) -> Problem:
        """The problem with a scale that up to half of the data may not spoil: at a good fit it is the others'."""
        loss = getattr(problem, "loss", None)
        if not self.succeeded or not isinstance(problem, Completion) or not isinstance(loss, ScaledLoss):
            return problem
        return problem.with_loss(replace(loss, breakdown=0.5))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        assert isinstance(problem, Completion)
        squares = problem.squares()
        X = squares.project_feasible(RescaledStart()(squares, rank, rng))
        rule = RelativeResidual(TOLERANCE) | NoiseFloor() | Stall() | Divergence() | Iterations(STEPS)
        algorithm = Robust()
        ended = run(squares, algorithm, X, rule)
        memory, noisy = ended.last.memory, ended.status == "noise"
        self.limit = algorithm.limit(memory)
        self.succeeded = ended.status.success and not algorithm.gave_up(memory)
        self.succeeded = self.succeeded and not algorithm.doubts(squares, ended.state.X, memory, noisy=noisy)
        return problem.project_feasible(ended.point())


def _redescends(problem: Problem) -> bool:
    return isinstance(problem, Completion) and problem.loss is not None and problem.loss.redescending


register_default_start(_redescends, RobustStart)
