"""The default solver for phase retrieval as a plan: conjugate gradients, and message passing where they stall."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..common.checks import NOT_NEGATIVE, SHARE, Checked, instance, parameter, whole
from ..geometry import FixedRank
from ..loop.runner import Run
from ..loop.solver import Ending, Solver
from ..loop.state import State
from ..loop.stopping import RelativeResidual, Stall
from ..plans.auto import STATIONARY, WHITE
from ..plans.registry import register_default
from ..plans.solving import solve
from ..plans.stages import (
    ALWAYS,
    FINISHED,
    Condition,
    Context,
    Plan,
    PlannedSolver,
    Stage,
    Transition,
    below,
    best_point,
    current_point,
    ends_fewer_than,
    stalls,
)
from ..problems import Problem
from ..solvers.rcg import RCG
from .linear_maps import DiffractionMap
from .message_passing import MessagePassing
from .problem import PhaseRetrieval
from .signal_cg import SignalCG
from .weights import Fisher, Whitened

DESCENT = instance((RCG, SignalCG), "conjugate gradients such as lorank.solvers.RCG() or lorank.phase.SignalCG()")
AMPLITUDE_RESIDUAL = 0.05  # fits of amplitudes as if they were intensities had residuals of 0.15 to 0.32
AMPLITUDE_RATIO = 2.2, 1.6  # of |y|^2 m to (sum y)^2, real and complex: 3 and 2 for intensities, 1.57 and 1.27 for amplitudes
AMPLITUDE_GAIN, AMPLITUDE_MAX_ITER = 3.0, 200  # residual over that of the squared measurements; iterations for them
SAME_SIGNAL = 0.1  # relative distance of two points that are considered the same


@dataclass(frozen=True)
class AutoPhase(Checked, PlannedSolver):
    """The default solver for phase retrieval at rank 1: a fast method first, and a more robust one where it stalls.

    1. Conjugate gradients with :class:`Fisher` weights (:class:`SignalCG`), with many measurements per degree of freedom.
    2. Otherwise, or where the residual stalls: message passing (:class:`MessagePassing`), then conjugate gradients in the
       :class:`~lorank.phase.Whitened` metric from its end. For coded diffraction patterns, where ``A^H A`` is diagonal, message
       passing is always first.
    3. Where these stall as well: message passing from random signals, at most ``max_attempts`` times, and not after two
       attempts that end at the same signal, which is then a fit to noisy data.
    4. Conjugate gradients without weights from the best point: least squares. Where the residual is stationary and white noise
       (:func:`~lorank.plans.noise_test.residual_is_white`), this stage follows at once.

    Measurements that are amplitudes ``|A x|`` instead of intensities are recognized by the fit of their squares, and named.

    ``result.history.notes`` and ``result.status.advice`` list the transitions.

    Parameters
    ----------
    descent : SignalCG or RCG
        Solver of the first stage.
    refinement : RCG
        Solver after message passing.
    message_passing : MessagePassing
    final : RCG
        Least-squares solver of the last stage.
    min_oversampling_real, min_oversampling_complex : float
        Measurements per degree of freedom below which message passing comes first, for real and complex signals.
    max_attempts : int
        Largest number of message passing stages.
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

    descent: SignalCG | RCG = parameter(factory=SignalCG, expected=DESCENT)
    refinement: RCG = parameter(factory=lambda: RCG(Whitened(), reweighting=Fisher()), expected=DESCENT)
    message_passing: MessagePassing = parameter(
        factory=MessagePassing, expected=instance(MessagePassing, "a MessagePassing object")
    )
    final: RCG = parameter(factory=lambda: RCG(Whitened()), expected=DESCENT)
    min_oversampling_real: float = parameter(2.5, NOT_NEGATIVE)
    min_oversampling_complex: float = parameter(1.9, NOT_NEGATIVE)
    max_attempts: int = parameter(4, whole(0))
    stall_window: int = parameter(25, whole(1))
    stall_ratio: float = parameter(0.3, SHARE)
    noise_below: float = parameter(0.1, NOT_NEGATIVE)
    noise_stall_ratio: float = parameter(0.95, SHARE)
    refinement_stall_ratio: float = parameter(0.7, SHARE)

    needs: ClassVar[tuple[type, ...]] = (PhaseRetrieval,)
    default_start: ClassVar[str] = "staged"

    def start(self, problem: Problem, state: State) -> Any:
        if state.X.rank != 1:
            raise ValueError(f"AutoPhase needs rank 1, got {state.X.rank}: use solver='auto'")
        return super().start(problem, state)

    def plan(self) -> Plan:
        """The stages and the transitions between them."""
        # With many measurements, a small residual means that x is near the signal, and only noise or rounding can hold it up.
        # The signal may still converge, which a stopping rule may wait for: twice the window.
        near, window = below(self.noise_below), self.stall_window
        descent_slow = ~near & stalls(window, self.stall_ratio) | near & stalls(2 * window, self.noise_stall_ratio)

        def stalled(slow: Condition) -> tuple[Transition, ...]:
            at = "residual stalled at {state.residual:.1e}: message passing from a random signal"
            end = "least squares from residual {plan.best.residual:.1e}"
            return (
                Transition(STATIONARY & WHITE, "final", "white noise: least squares from residual {plan.best.residual:.1e}"),
                Transition(slow & ends_fewer_than("message passing", self.max_attempts) & ~SAME_END, "message passing", at),
                Transition(slow & SAME_END, "final", "the same signal twice: " + end),
                Transition(slow, "final", "no better signal found: " + end),
            )

        to_refinement = Transition(FINISHED, "refinement", "message passing ended at {state.residual:.1e}: conjugate gradients")
        return Plan(
            stages=(
                Stage("descent", self.descent, stalled(descent_slow), keep=lambda state: state.X),
                Stage("message passing", self._messages, (to_refinement,), start=current_point, provisional=True),
                Stage(
                    "refinement",
                    self.refinement,
                    stalled(stalls(self.stall_window, self.refinement_stall_ratio)),
                    start=current_point,
                    keep=lambda state: state.X,
                ),
                Stage("final", self.final, start=best_point),
            ),
            first=(Transition(Condition(self._few_measurements), "message passing"), Transition(ALWAYS, "descent")),
            max_window=2 * self.stall_window,
        )

    def finish(self, problem: Any, X: FixedRank, run: Run) -> Ending:
        """A doubt where the measurements are amplitudes ``|A x|``: their squares are fitted far better."""
        ending = super().finish(problem, X, run)
        if run.interrupted or run.state.residual < AMPLITUDE_RESIDUAL or not _look_like_amplitudes(problem):
            return ending
        squared = problem.with_intensities(problem.y**2)
        stop = RelativeResidual(run.state.residual / AMPLITUDE_GAIN) | Stall()
        if not solve(squared, 1, self, stop=stop, max_iter=AMPLITUDE_MAX_ITER).converged:
            return ending
        return ending._replace(doubt="The measurements are amplitudes |A x|, and intensities |A x|^2 are needed: pass y**2.")

    def _few_measurements(self, now: Context) -> bool:
        problem = now.problem
        assert isinstance(problem, PhaseRetrieval)
        least = self.min_oversampling_complex if problem.dtype.kind == "c" else self.min_oversampling_real
        return problem.m < least * problem.dof(1) or isinstance(problem.linear_map, DiffractionMap)

    def _messages(self, now: Context) -> Solver:
        """Message passing from the start's signal in the first stage, and from a random one later."""
        if not now.plan.ended:
            return self.message_passing
        return replace(self.message_passing, seed=now.plan.times("message passing") + 1)


def _look_like_amplitudes(problem: PhaseRetrieval) -> bool:
    y = problem.y
    ratio = problem.m * float((y * y).sum()) / float(y.sum()) ** 2
    return ratio < AMPLITUDE_RATIO[problem.dtype.kind == "c"]


def _same_end(now: Context) -> bool:
    """Whether an earlier stage has ended at the same signal."""
    points = (ended.kept for ended in now.plan.ended if ended.kept is not None)
    return any(X.distance(now.state.X) < SAME_SIGNAL * X.norm() for X in points)


SAME_END = Condition(_same_end)
register_default(lambda problem, rank: isinstance(problem, PhaseRetrieval) and rank == 1, AutoPhase)
