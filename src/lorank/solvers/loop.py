"""The loop that every solver runs in, and what travels through it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from ..callbacks import Callback
from ..geometry import FixedRank
from ..operators import Gradient, Problem
from ..parameter_checks import with_methods
from ..result import History, Status
from ..stopping import Rule


class Clock:
    """A stopwatch that can stand still."""

    timer: ClassVar[Callable[[], float]] = staticmethod(time.perf_counter)

    @classmethod
    @contextlib.contextmanager
    def by(cls, timer: Callable[[], float]) -> Iterator[None]:
        """Let new clocks run by another timer: :func:`time.thread_time`, say, on a machine that others use, too."""
        before, cls.timer = cls.timer, staticmethod(timer)
        try:
            yield
        finally:
            cls.timer = staticmethod(before)

    def __init__(self) -> None:
        self._now = Clock.timer
        self._begin, self._paused, self._depth = self._now(), 0.0, 0

    @property
    def seconds(self) -> float:
        now = self._stopped if self._depth else self._now()
        return now - self._begin - self._paused

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        if self._depth == 0:
            self._stopped = self._now()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._paused += self._now() - self._stopped


@dataclass(frozen=True)
class State:
    """One iterate.

    Attributes
    ----------
    iteration : int
    X : FixedRank
    gradient : Gradient
        At X.
    residual : float
        ``|A X - y| / |y|``.
    step : float
        The step that led here; nan for the start.
    previous : FixedRank or None
        The iterate before.
    memory : object
        What the solver carries from one iteration to the next.
    note : str
        What the solver did here that a reader should know; usually nothing.
    """

    iteration: int
    X: FixedRank
    gradient: Gradient
    residual: float
    step: float = float("nan")
    previous: FixedRank | None = None
    memory: Any = None
    note: str = ""

    @classmethod
    def at(cls, problem: Problem, X: FixedRank) -> State:
        """The state at a starting point."""
        G = problem.gradient(X)
        return cls(0, X, G, relative(problem, G))

    def next(self, problem: Problem, X: FixedRank, step: float, memory: Any = None) -> State:
        """The state after a step to X."""
        G = self.gradient.at(X)
        return State(self.iteration + 1, X, G, relative(problem, G), step, self.X, memory)

    def remember(self, memory: Any) -> State:
        """The same state with that memory."""
        return replace(self, memory=memory)


def relative(problem: Problem, G: Gradient) -> float:
    """``|A X - y| / |y|``; the absolute residual where y is zero."""
    return G.residual_norm / (problem.y_norm or 1.0)


class Solver(Protocol):
    """An algorithm: a memory at the start, and a step."""

    def start(self, problem: Problem, state: State) -> Any:
        """The solver's memory before the first step."""
        ...

    def step(self, problem: Problem, state: State) -> State:
        """The next state."""
        ...


SOLVER = with_methods("start", "step", what="a name or a solver such as lorank.RGD(RowColumn())")
INTERRUPTED = Status("interrupted", advice="Stopped by Ctrl-C; X is the best point so far. Continue with start=result.X.")


def run(
    problem: Problem,
    solver: Solver,
    X: FixedRank,
    stop: Rule,
    callbacks: Sequence[Callback],
    clock: Clock,
    history: History,
) -> tuple[State, Status, int]:
    """Iterate until a rule, a callback or Ctrl-C ends it. Returns the state, the status and the number of iterations.

    The state is the last one after a success, and the one with the smallest residual otherwise.
    """
    state = best = State(0, X, problem.gradient(X), float("inf"))
    status: Status | None = None
    try:
        state = State.at(problem, X)
        state = state.remember(solver.start(problem, state))
        while True:
            history.append(state.iteration, clock.seconds, state.residual, state.step, state.note)
            if state.residual < best.residual:  # the point alone: its products and memories need not be kept
                best = State(state.iteration, state.X, problem.gradient(state.X), state.residual, state.step)
            asked = _call(callbacks, problem, state, clock)
            status = stop.check(problem, state, history, clock) or asked
            if status is not None:
                break
            state = solver.step(problem, state)
    except KeyboardInterrupt:
        status = INTERRUPTED
    return (state if status.success else best), status, state.iteration


def _call(callbacks: Sequence[Callback], problem: Problem, state: State, clock: Clock) -> Status | None:
    with clock.paused():
        for callback in callbacks:
            asked = callback(problem, state, clock)
            if isinstance(asked, (bool, np.bool_)) and asked:
                return Status("callback", advice=f"{callback!r} asked to stop.")
    return None
