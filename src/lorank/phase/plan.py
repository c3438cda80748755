"""What ``auto`` does in phase retrieval: conjugate gradients with Fisher weights, and message passing where they stall."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..common.checks import NOT_NEGATIVE, SHARE, check_parameters, instance, whole
from ..geometry import FixedRank
from ..loop.runner import Solver
from ..loop.state import State
from ..plans.registry import register_default
from ..problems import Problem
from ..solvers.rcg import RCG
from .linear_maps import DiffractionMap
from .message_passing import MessagePassing
from .metric import Whitened
from .problem import PhaseRetrieval
from .reweighting import Fisher
from .signal_cg import SignalCG

DESCENT, MESSAGES, FINISH, LAST = "descent", "messages", "finish", "last"


@dataclass(frozen=True)
class Memory:
    """The phase, its solver and the state there, the residuals of this phase, how often messages were passed, where descent
    got stuck so far, and the best point with its residual.
    """

    solver: Solver
    inner: State
    phase: str
    residuals: tuple[float, ...]
    attempts: int = 0
    stuck: tuple[FixedRank, ...] = ()
    best: tuple[FixedRank, float] | None = None


@dataclass(frozen=True)
class AutoPhase(Solver):
    """Tries the fast way first and the sure way where that fails.

    1. Conjugate gradients with :class:`Fisher` weights for one signal (:class:`SignalCG`), where measurements are many: ``few``
       per degree of freedom, or more; ``few_complex`` for complex signals.
    2. Where they are not, or the residual has not fallen to ``fall`` of itself within ``window`` steps: message passing
       (:class:`MessagePassing`), and conjugate gradients again from where it ends, in the :class:`~lorank.phase.Whitened`
       metric. At once for coded diffraction, where ``A^H A`` is diagonal and costs nothing.
    3. Where these stall as well, message passing from another, random signal, at most ``attempts`` times. Two ways that end
       at the same signal tell that there is no better one (noise).
    4. Conjugate gradients without weights from the best point: least squares, whatever the data.

    What it did is told in ``result.status.advice`` and ``result.history.notes``.

    Parameters
    ----------
    descent : SignalCG or RCG
        Of the first phase.
    refinement : RCG
        After message passing.
    messages : MessagePassing
    last : RCG
        Least squares from the best point.
    few, few_complex : float
        Measurements per degree of freedom below which message passing comes first, for real and for complex signals.
    attempts : int
        Random signals to pass messages from.
    window : int
        Steps within which the residual must fall
    fall : float
        to this share of itself,
    near, stalled : float
        in descent, once it is below ``near``, only to ``stalled`` of itself within twice the window: so small, only noise can
        hold it up,
    slower : float
        or to this share after message passing: near the solution a slow way is still one.

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
    messages: MessagePassing = field(default_factory=MessagePassing)
    last: RCG = field(default_factory=lambda: RCG(Whitened()))
    few: float = 2.5
    few_complex: float = 1.9
    attempts: int = 4
    window: int = 25
    fall: float = 0.3
    near: float = 0.1
    stalled: float = 0.95
    slower: float = 0.7

    default_start: ClassVar[str] = "staged"

    def __post_init__(self) -> None:
        descent = instance((RCG, SignalCG), "conjugate gradients such as lorank.solvers.RCG() or lorank.phase.SignalCG()")
        check_parameters(
            self,
            descent=descent,
            refinement=descent,
            messages=instance(MessagePassing, "a MessagePassing object"),
            last=descent,
            few=NOT_NEGATIVE,
            few_complex=NOT_NEGATIVE,
            attempts=whole(0),
            window=whole(1),
            fall=SHARE,
            near=NOT_NEGATIVE,
            stalled=SHARE,
            slower=SHARE,
        )

    def start(self, problem: Problem, state: State) -> Memory:
        if not isinstance(problem, PhaseRetrieval) or state.X.rank != 1:
            raise TypeError(f"AutoPhase is for PhaseRetrieval at rank 1, and this is {problem!r}: use solver='auto'")
        least = self.few_complex if problem.dtype.kind == "c" else self.few
        few = problem.m < least * problem.dof(1) or isinstance(problem.linear_map, DiffractionMap)
        solver: Solver = self.messages if few else self.descent
        inner = state.remember(solver.start(problem, state))
        return Memory(solver, inner, MESSAGES if few else DESCENT, (state.residual,), int(few))

    def step(self, problem: Problem, state: State) -> State:
        memory: Memory = state.memory
        best = memory.best
        if best is None or state.residual < best[1]:
            best = state.X, state.residual
        turn = self._turn(problem, state, memory, best)
        if turn is not None:
            return turn
        inner = memory.solver.step(problem, memory.inner)
        residuals = (*memory.residuals, inner.residual)[-1 - 2 * self.window :]
        # By hand: replace would take as long as the products with a small A.
        return self._outer(state, Memory(memory.solver, inner, memory.phase, residuals, memory.attempts, memory.stuck, best))

    def _turn(self, problem: Problem, state: State, memory: Memory, best: tuple[FixedRank, float]) -> State | None:
        """The first state of the next phase, where it is time for one."""
        messages_end = memory.phase == MESSAGES and memory.inner.memory.done
        if not messages_end and (memory.phase not in (DESCENT, FINISH) or not self._slow(memory, state)):
            return None
        memory, level = replace(memory, best=best), f"{state.residual:.1e}"
        if messages_end:
            said = f"message passing ended at {level}: conjugate gradients"
            return self._begin(problem, state, memory, FINISH, self.refinement, said)
        same = any(X.distance(state.X) < 0.1 * X.norm() for X in memory.stuck)
        memory = replace(memory, stuck=(*memory.stuck, state.X))
        if memory.attempts < self.attempts and not same:
            said = f"the residual stayed near {level}: message passing from a random signal"
            memory = replace(memory, attempts=memory.attempts + 1)
            solver = replace(self.messages, seed=memory.attempts)
            return self._begin(problem, state, memory, MESSAGES, solver, said)
        X, residual = best
        said = f"{'the same signal again' if same else 'nothing better found'}: least squares from {residual:.1e}"
        return self._begin(problem, state, memory, LAST, self.last, said, lambda: X)

    def _begin(
        self,
        problem: Problem,
        state: State,
        memory: Memory,
        phase: str,
        solver: Solver,
        note: str,
        where: Callable[[], FixedRank] | None = None,
    ) -> State:
        """Begin a phase where the last one ended, or at another point."""
        inner = state.next(problem, state.X if where is None else where(), float("nan"))
        inner = inner.remember(solver.start(problem, inner))
        memory = replace(memory, solver=solver, inner=inner, phase=phase, residuals=(inner.residual,))
        return replace(self._outer(state, memory), note=note, previous=None, restarted=True)

    def _outer(self, state: State, memory: Memory) -> State:
        inner = memory.inner
        previous = None if memory.phase == MESSAGES else inner.previous
        return State(state.iteration + 1, inner.X, inner.gradient, inner.residual, inner.step, previous, memory, inner.note)

    def _slow(self, memory: Memory, state: State) -> bool:
        residuals, window = memory.residuals, self.window
        if len(residuals) <= window or residuals[-1] < 100 * np.finfo(state.X.dtype).eps:
            return False
        if memory.phase != DESCENT:
            return residuals[-1] > self.slower * residuals[-1 - window]
        if residuals[-1] > self.near:
            return residuals[-1] > self.fall * residuals[-1 - window]
        # With many measurements, a small residual is near the signal: only noise, or rounding, can hold it up. The signal
        # still settles then, and a rule may wait for that: twice the time.
        return len(residuals) > 2 * window and residuals[-1] > self.stalled * residuals[0]


register_default(lambda problem, rank: isinstance(problem, PhaseRetrieval) and rank == 1, AutoPhase)
