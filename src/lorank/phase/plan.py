"""The default solver for phase retrieval as a plan: conjugate gradients, and message passing where they stall."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..common.checks import NOT_NEGATIVE, SHARE, check_parameters, instance, whole
from ..loop.runner import Solver
from ..loop.state import State
from ..plans.phases import (
    ALWAYS,
    FINISHED,
    Condition,
    Context,
    Phase,
    Plan,
    PlannedSolver,
    Transition,
    best_point,
    current_point,
)
from ..plans.registry import register_default
from ..problems import Problem
from ..solvers.rcg import RCG
from .linear_maps import DiffractionMap
from .message_passing import MessagePassing
from .metric import Whitened
from .problem import PhaseRetrieval
from .reweighting import Fisher
from .signal_cg import SignalCG

SAME_SIGNAL = 0.1  # relative distance of two points that are considered the same


@dataclass(frozen=True)
class AutoPhase(PlannedSolver):
    """The default solver for phase retrieval at rank 1: a fast method first, and a more robust one where it stalls.

    1. Conjugate gradients with :class:`Fisher` weights (:class:`SignalCG`), with many measurements per degree of freedom.
    2. Otherwise, or where the residual stalls: message passing (:class:`MessagePassing`), then conjugate gradients in the
       :class:`~lorank.phase.Whitened` metric from its end. For coded diffraction patterns, where ``A^H A`` is diagonal, message
       passing is always first.
    3. Where these stall as well: message passing from random signals, at most ``max_attempts`` times, and not after two
       attempts that end at the same signal, which is then a fit to noisy data.
    4. Conjugate gradients without weights from the best point: least squares.

    ``result.history.notes`` and ``result.status.advice`` list the transitions.

    Parameters
    ----------
    descent : SignalCG or RCG
        Solver of the first phase.
    refinement : RCG
        Solver after message passing.
    message_passing : MessagePassing
    final : RCG
        Least-squares solver of the last phase.
    min_oversampling_real, min_oversampling_complex : float
        Measurements per degree of freedom below which message passing comes first, for real and complex signals.
    max_attempts : int
        Largest number of message passing phases.
    stall_window : int
        Steps over which a stall is judged.
    stall_ratio : float
        ``descent`` stalls when ``stall_window`` steps leave more than this share of the residual.
    noise_below, noise_stall_ratio : float
        Below a relative residual of ``noise_below``, ``descent`` stalls only when twice ``stall_window`` steps leave more than
        ``noise_stall_ratio`` of the residual: such a residual is most likely noise.
    refinement_stall_ratio : float
        The same as ``stall_ratio`` for ``refinement``, which is near the solution.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, x = lr.datasets.random_phase(40, oversampling=3)
    >>> result = lr.solve(problem, rank=1, solver=lr.phase.AutoPhase())
    >>> lr.phase.phase_distance(result.signal, x) < 1e-5
    True
    """

    descent: SignalCG | RCG = field(default_factory=SignalCG)
    refinement: RCG = field(default_factory=lambda: RCG(Whitened(), reweighting=Fisher()))
    message_passing: MessagePassing = field(default_factory=MessagePassing)
    final: RCG = field(default_factory=lambda: RCG(Whitened()))
    min_oversampling_real: float = 2.5
    min_oversampling_complex: float = 1.9
    max_attempts: int = 4
    stall_window: int = 25
    stall_ratio: float = 0.3
    noise_below: float = 0.1
    noise_stall_ratio: float = 0.95
    refinement_stall_ratio: float = 0.7

    needs: ClassVar[tuple[type, ...]] = (PhaseRetrieval,)
    default_start: ClassVar[str] = "staged"

    def __post_init__(self) -> None:
        descent = instance((RCG, SignalCG), "conjugate gradients such as lorank.solvers.RCG() or lorank.phase.SignalCG()")
        check_parameters(
            self,
            descent=descent,
            refinement=descent,
            message_passing=instance(MessagePassing, "a MessagePassing object"),
            final=descent,
            min_oversampling_real=NOT_NEGATIVE,
            min_oversampling_complex=NOT_NEGATIVE,
            max_attempts=whole(0),
            stall_window=whole(1),
            stall_ratio=SHARE,
            noise_below=NOT_NEGATIVE,
            noise_stall_ratio=SHARE,
            refinement_stall_ratio=SHARE,
        )

    def start(self, problem: Problem, state: State) -> Any:
        if state.X.rank != 1:
            raise ValueError(f"AutoPhase needs rank 1, got {state.X.rank}: use solver='auto'")
        return super().start(problem, state)

    def plan(self) -> Plan:
        """The phases and the transitions between them."""

        def stalled(slow: Condition) -> tuple[Transition, ...]:
            at = "residual stalled at {state.residual:.1e}: message passing from a random signal"
            end = "least squares from residual {plan.best.residual:.1e}"
            return (
                Transition(slow & Condition(self._may_try_again) & ~SAME_END, "message passing", at),
                Transition(slow & SAME_END, "final", "the same signal twice: " + end),
                Transition(slow, "final", "no better signal found: " + end),
            )

        to_refinement = Transition(FINISHED, "refinement", "message passing ended at {state.residual:.1e}: conjugate gradients")
        return Plan(
            phases=(
                Phase("descent", self.descent, stalled(Condition(self._descent_stalls)), keep=lambda state: state.X),
                Phase("message passing", self._messages, (to_refinement,), start=current_point, provisional=True),
                Phase(
                    "refinement",
                    self.refinement,
                    stalled(Condition(self._refinement_stalls)),
                    start=current_point,
                    keep=lambda state: state.X,
                ),
                Phase("final", self.final, start=best_point),
            ),
            first=(Transition(Condition(self._few_measurements), "message passing"), Transition(ALWAYS, "descent")),
            max_window=2 * self.stall_window,
        )

    def _few_measurements(self, now: Context) -> bool:
        problem = now.problem
        assert isinstance(problem, PhaseRetrieval)
        least = self.min_oversampling_complex if problem.dtype.kind == "c" else self.min_oversampling_real
        return problem.m < least * problem.dof(1) or isinstance(problem.linear_map, DiffractionMap)

    def _messages(self, now: Context) -> Solver:
        """Message passing from the start's signal in the first phase, and from a random one later."""
        if not now.plan.ended:
            return self.message_passing
        return replace(self.message_passing, seed=now.plan.times("message passing") + 1)

    def _may_try_again(self, now: Context) -> bool:
        return now.plan.times("message passing") < self.max_attempts

    def _descent_stalls(self, now: Context) -> bool:
        residuals, window = now.plan.residuals, self.stall_window
        if len(residuals) <= window or _rounded(now):
            return False
        if residuals[-1] > self.noise_below:
            return residuals[-1] > self.stall_ratio * residuals[-1 - window]
        # With many measurements, a small residual means that x is near the signal, and only noise or rounding can hold it up.
        # The signal may still converge, which a stopping rule may wait for: twice the window.
        return len(residuals) > 2 * window and residuals[-1] > self.noise_stall_ratio * residuals[0]

    def _refinement_stalls(self, now: Context) -> bool:
        residuals, window = now.plan.residuals, self.stall_window
        if len(residuals) <= window or _rounded(now):
            return False
        return residuals[-1] > self.refinement_stall_ratio * residuals[-1 - window]


def _rounded(now: Context) -> bool:
    """Whether the residual is rounding."""
    return now.plan.residuals[-1] < 100 * float(np.finfo(now.state.X.dtype).eps)


def _same_end(now: Context) -> bool:
    """Whether an earlier phase has ended at the same signal."""
    points = (ended.kept for ended in now.plan.ended if ended.kept is not None)
    return any(X.distance(now.state.X) < SAME_SIGNAL * X.norm() for X in points)


SAME_END = Condition(_same_end)
register_default(lambda problem, rank: isinstance(problem, PhaseRetrieval) and rank == 1, AutoPhase)
