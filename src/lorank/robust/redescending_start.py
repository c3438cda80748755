"""Initialization for redescending losses: the fit of :class:`Robust` to the same observations."""

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
from ..starts.staged import Staged
from .plan import Robust

UNSURE = (
    "The outliers could not be identified, and a redescending loss may have a local minimum that fits only a part of the data. "
    "Compare with loss='huber', which is a convex loss."
)
TOLERANCE, MAX_ITER = 1e-4, 300  # of the robust fit, which is only a start


class RobustStart:
    """Start for redescending losses: the end of a run of :class:`Robust` with the same observations.

    From other points a loss such as Tukey's may end in a local minimum that fits only a part of the data.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> start = RobustStart()
    >>> X = start(problem, 2, np.random.default_rng(0))
    >>> start.succeeded, truth.distance(X) < 1e-2 * truth.norm()
    (True, True)
    """

    succeeded: bool = False  # whether the robust fit converged and passed its validation
    limit: float = math.inf  # deviation beyond which observations are outliers

    @property
    def warning(self) -> str:
        """Appended to the advice of the status."""
        return "" if self.succeeded else UNSURE

    def adjusted(self, problem: Problem) -> Problem:
        """The problem with a scale estimate of breakdown point 0.5 if the robust fit succeeded."""
        loss = getattr(problem, "loss", None)
        if not self.succeeded or not isinstance(problem, Completion) or not isinstance(loss, ScaledLoss):
            return problem
        return problem.with_loss(replace(loss, breakdown=0.5))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        assert isinstance(problem, Completion)
        squares = problem.squares()
        X = squares.project_feasible(Staged()(squares, rank, rng))
        rule = RelativeResidual(TOLERANCE) | NoiseFloor() | Stall() | Divergence() | Iterations(MAX_ITER)
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
