"""One solver's way to a known solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..geometry import FixedRank
from ..loop.callbacks import Callback, TruthError
from ..loop.result import Status
from ..loop.stopping import Rule, Seconds, TruthDistance
from ..plans import solve
from ..problems import Problem


@dataclass(frozen=True)
class Run:
    """A solver's run against a known X.

    Attributes
    ----------
    solver : str
        Its name.
    composition : str
        The solver with all its settings.
    status : Status
    n_iter : int
    time : float
        Seconds, the start included, callbacks not.
    final : float
        ``|X_t - X|_F / |X|_F`` of what the solver returned.
    iteration, seconds, error : arrays
        The way there.
    """

    solver: str
    composition: str
    status: Status
    n_iter: int
    time: float
    final: float
    iteration: np.ndarray
    seconds: np.ndarray
    error: np.ndarray

    @property
    def reached(self) -> bool:
        """Whether the run came as close as was asked for."""
        return self.status.success


def record(
    problem: Problem,
    truth: FixedRank,
    rank: int,
    solver: str,
    *,
    tol: float = 1e-4,
    max_iter: int = 500,
    max_seconds: float = float("inf"),
    watch: Callable[[TruthError], None] | None = None,
) -> Run:
    """Run a solver until it is within ``tol`` of the known solution, and keep its way there.

    Parameters
    ----------
    watch : callable, optional
        Called with the trace so far after each iteration, outside the measured time.
    """
    trace = TruthError(truth)
    callbacks: list[Callback] = [trace]
    if watch is not None:
        callbacks.append(lambda problem, state, clock: watch(trace))
    stop: Rule = TruthDistance(truth, tol) | Seconds(max_seconds)
    result = solve(problem, rank, solver, max_iter=max_iter, stop=stop, callbacks=callbacks)

    final = truth.distance(result.X) / truth.norm()
    return Run(
        solver,
        repr(result.solver),
        result.status,
        result.n_iter,
        result.seconds,
        final,
        trace.iteration,
        trace.seconds,
        trace.error,
    )


def speedup(run: Run, base: Run | None) -> float | None:
    """How many times faster than ``base`` the run came to the tolerance; None where it did not.

    Where ``base`` did not reach the tolerance itself, the true factor is larger than this one.
    """
    if base is None or not run.reached or run.time <= 0:
        return None
    return base.time / run.time
