"""The one place that runs a loop: clock, BLAS threads, Ctrl-C, stopping rules, callbacks and history for every solver.

:func:`run` is what ``solve``, the search for a rank, the starts and the fits of factor models to ratings all go through.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..common.blas_threads import limit_blas_threads
from ..common.checks import instance
from ..common.timer import Timer
from ..geometry import FixedRank
from ..problems import Problem
from .callbacks import Callback
from .result import History, Outliers, Status
from .state import State
from .stopping import Rule


class Ending(NamedTuple):
    """What a solver adds to a result when its run is over."""

    noise: float | None = None  # standard deviation of the noise; by default that of the residual
    outliers: Outliers | None = None
    doubt: str = ""  # why a run that stopped with success is not one


class Solver:
    """An algorithm: a memory at the start, and a step. Both are called by :func:`run`, the only loop."""

    needs: ClassVar[tuple[type, ...]] = ()  # capabilities, see lorank.problems.capabilities
    default_start: ClassVar[str] = "spectral"
    finds_outliers: ClassVar[bool] = False

    def start(self, problem: Any, state: State) -> Any:
        """The solver's memory before the first step."""
        raise NotImplementedError

    def step(self, problem: Any, state: State) -> State:
        """The next state."""
        raise NotImplementedError

    def rank_problem(self, problem: Any) -> Problem:
        """The problem that ``rank="auto"`` searches on."""
        return problem

    def finish(self, problem: Any, X: FixedRank, run: Run) -> Ending:
        """Results beyond the point X that a run has ended at."""
        return Ending()


SOLVER = instance(Solver, "a name or a solver such as lorank.solvers.RGD(RowColumn())")
INTERRUPTED = Status("interrupted", advice="Stopped by Ctrl-C; X is the best point so far. Continue with start=result.X.")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C inside a part of a longer computation, with the best point of that part.

    Attributes
    ----------
    point : FixedRank
    """

    def __init__(self, point: Any) -> None:
        super().__init__()
        self.point = point


@dataclass(frozen=True)
class Run:
    """How a run ended.

    Attributes
    ----------
    state : State
        The last one after a success, and the one with the smallest residual otherwise, without its memory.
    last : State
        The last one, with the solver's memory; None of it where Ctrl-C came before the first.
    status : Status
    n_iter : int
    history : History
    """

    state: State
    last: State
    status: Status
    n_iter: int
    history: History

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.status == INTERRUPTED

    def point(self) -> FixedRank:
        """The point, where this run is a part of a longer computation: Ctrl-C goes on up, and takes the point along."""
        if self.interrupted:
            raise Interrupted(self.state.X)
        return self.state.X


@contextlib.contextmanager
def limit_threads(problem: Problem) -> Iterator[None]:
    """BLAS on as many threads as suits the problem, and memory kept between passes given back at the end."""
    with contextlib.ExitStack() as stack:
        stack.callback(problem.backend.release)
        stack.enter_context(limit_blas_threads(problem.blas_threads))
        yield


def run(
    problem: Problem,
    solver: Solver,
    X: FixedRank,
    stop: Rule,
    *,
    callbacks: Sequence[Callback] = (),
    clock: Timer | None = None,
) -> Run:
    """Iterate until a rule, a callback or Ctrl-C ends it.

    Parameters
    ----------
    problem : Problem
    solver : Solver
    X : FixedRank
        Where to begin.
    stop : Rule
    callbacks : sequence of callables
        Called with problem, state and clock after the start and after each iteration, while the clock stands still.
    clock : Timer, optional
        Of a longer computation that this is a part of.
    """
    clock, history = Timer() if clock is None else clock, History()
    state = best = State(0, X, problem.gradient(X), float("inf"))
    status: Status | None = None
    try:
        with limit_threads(problem):
            state = State.at(problem, X)
            state = state.with_memory(solver.start(problem, state))
            while True:
                history.append(state.iteration, clock.seconds, state.residual, state.step, state.note, state.restarted)
                if state.residual < best.residual:  # the point alone: its products and memories need not be kept
                    best = State(state.iteration, state.X, problem.gradient(state.X), state.residual, state.step)
                asked = _call(callbacks, problem, state, clock)
                status = stop.check(problem, state, history, clock) or asked
                if status is not None:
                    break
                state = solver.step(problem, state)
    except KeyboardInterrupt:
        status = INTERRUPTED
    return Run(state if status.success else best, state, status, state.iteration, history)


def _call(callbacks: Sequence[Callback], problem: Problem, state: State, clock: Timer) -> Status | None:
    with clock.paused():
        for callback in callbacks:
            asked = callback(problem, state, clock)
            if isinstance(asked, (bool, np.bool_)) and asked:
                return Status("callback", advice=f"{callback!r} asked to stop.")
    return None
