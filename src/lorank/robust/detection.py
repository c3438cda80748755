"""First stage of a robust fit: least squares whose residuals are tested for outliers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..loop.solver import Solver
from ..loop.state import State
from ..losses.residual_tails import tails
from ..plans.auto import Auto
from ..plans.noise_test import is_stationary
from ..plans.stages import PlanState
from ..problems import Completion
from .options import Thresholds

WINDOW = 6  # residuals from which a stationary one is recognized


@dataclass(frozen=True)
class DetectionState:
    """Memory of :class:`Detection`: that of least squares, the requested rank, the last residuals, and whether to test."""

    least_squares: PlanState
    rank: int
    residuals: tuple[float, ...] = ()
    testing: bool = True


@dataclass(frozen=True)
class Detection(Solver):
    """Least squares by :class:`~lorank.plans.Auto`, finished when its residuals show that there are outliers.

    Where the residual stalls without heavy tails there are none, and tests end.
    """

    least_squares: Auto
    thresholds: Thresholds

    def start(self, problem: Completion, state: State) -> DetectionState:
        if isinstance(state.memory, DetectionState):  # continued without tests, after a search in vain
            return replace(state.memory, testing=False)
        return DetectionState(self.least_squares.start(problem, state), state.X.rank)

    def step(self, problem: Completion, state: State) -> State:
        memory: DetectionState = state.memory
        testing, limits = memory.testing, self.thresholds
        scarce = problem.m < limits.min_oversampling * problem.dof(memory.rank)
        if testing and not scarce and self._stays(problem, state) and self._tail_ratio(problem, state) > limits.heavy_tails:
            return replace(state, finished=True)
        new = self.least_squares.step(problem, state.with_memory(memory.least_squares))
        if testing and (_gave_up(new.memory, scarce) or is_stationary(problem, memory.rank, memory.residuals)):
            if self._tail_ratio(problem, state) > (limits.heavy_tails if scarce else limits.light_tails):
                return replace(state, finished=True)
            testing = False
        residuals = (*memory.residuals, new.residual)[-max(limits.check_after, WINDOW) :]
        memory = DetectionState(new.memory, memory.rank, residuals, testing)
        # As long as there may be outliers, a stalled residual is not the end.
        return replace(new, memory=memory, restarted=new.restarted or testing)

    def _stays(self, problem: Completion, state: State) -> bool:
        """Whether the first steps have hardly lowered the residual."""
        memory: DetectionState = state.memory
        ample = problem.m > self.thresholds.ample_oversampling * problem.dof(memory.rank)
        steps = 2 if state.iteration == 2 and ample else self.thresholds.check_after  # clean ample data are fitted fast
        last, half = memory.residuals[-steps:], steps // 2
        return len(last) == steps and state.iteration % half == 0 and last[-1] >= self.thresholds.stall_ratio * last[half - 1]

    @staticmethod
    def _tail_ratio(problem: Completion, state: State) -> float:
        return tails(state.gradient.residual, problem.dof(state.memory.rank), problem.backend).ratio


def _gave_up(plan: PlanState, scarce: bool) -> bool:
    """Whether conjugate gradients at full rank have stalled; with few observations, whether all stages have."""
    return plan.stage.name in (("noise", "best") if scarce else ("irls", "newton", "noise", "best"))
