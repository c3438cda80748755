"""The loop that runs all solvers, with stopping rules, callbacks, history and Ctrl-C.

``solve``, the search for a rank, starts and factor models all use :func:`run`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.blas_threads import limit_blas_threads
from ..common.logs import LOG
from ..common.timer import Timer
from ..geometry import FixedRank
from ..problems import Problem
from .callbacks import Callback
from .result import History, Status
from .solver import Solver
from .state import State
from .stopping import Rule

INTERRUPTED = Status("interrupted", advice="Interrupted; X is the best point so far. Continue with start=result.X.")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C within a part of a longer computation.

    Attributes
    ----------
    point : FixedRank
        The best point of that part.
    """

    def __init__(self, point: Any) -> None:
        super().__init__()
        self.point = point


@dataclass(frozen=True)
class Run:
    """The end of a run.

    Attributes
    ----------
    state : State
        The last state after a success; otherwise that with the smallest residual, without memory.
    last : State
        The last state, with the solver's memory.
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
        """Whether Ctrl-C ended the run."""
        return self.status == INTERRUPTED

    def point(self) -> FixedRank:
        """The final point of a run that is a part of a longer computation; raises :class:`Interrupted` after Ctrl-C."""
        if self.interrupted:
            raise Interrupted(self.state.X)
        return self.state.X


@contextlib.contextmanager
def limit_threads(problem: Problem) -> Iterator[None]:
    """Limit the BLAS threads to the number for this problem, and release buffers of the backend at the end."""
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
        Initial point.
    stop : Rule
    callbacks : sequence of callables
        Called with problem, state and clock after the start and after each iteration, while the clock is paused.
    clock : Timer, optional
        Clock of a longer computation that this run is a part of.
    """
    clock, history = Timer() if clock is None else clock, History()
    state = best = State(0, X, problem.gradient(X), float("inf"))
    status: Status | None = None
    try:
        with limit_threads(problem):
            state = State.at(problem, X)
            state = state.with_memory(solver.start(problem, state))
            while True:
                LOG.debug("%s: iteration %d, relative residual %.3e", type(solver).__name__, state.iteration, state.residual)
                numbers = state.residual, state.step, state.core_residual
                history.append(state.iteration, clock.seconds, *numbers, state.note, state.restarted)
                if state.residual < best.residual:  # without products and memory, which would keep arrays alive
                    best = State(state.iteration, state.X, problem.gradient(state.X), state.residual, state.step)
                asked = _call(callbacks, problem, state, clock)
                status = stop.check(problem, state, history, clock) or asked
                if status is not None:
                    break
                state = solver.step(problem, state)
    except KeyboardInterrupt:
        status = INTERRUPTED
    ending = type(solver).__name__, status, state.iteration, state.residual
    LOG.info("%s: %s after %d iterations, relative residual %.3e", *ending)
    return Run(state if status.success else best, state, status, state.iteration, history)


def _call(callbacks: Sequence[Callback], problem: Problem, state: State, clock: Timer) -> Status | None:
    with clock.paused():
        for callback in callbacks:
            asked = callback(problem, state, clock)
            if isinstance(asked, (bool, np.bool_)) and asked:
                return Status("callback", advice=f"{callback!r} asked to stop.")
    return None
