"""Runs of solvers on a problem with a known solution: error against iterations and time."""

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
        Seconds, including the initialization, excluding callbacks.
    final : float
        Relative error ``|X_t - X|_F / |X|_F`` of the result.
    iteration, seconds, error : arrays
        Relative errors along the run.
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
        """Whether the run reached the tolerance."""
        return self.status.success

    @property
    def outcome(self) -> str:
        """The status in words."""
        if self.reached:
            return "reached"
        return "interrupted" if self.status == "interrupted" else f"not reached ({self.status})"


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
    """Run a solver to a relative error of ``tol`` and record its errors.

    Parameters
    ----------
    watch : callable, optional
        Called with the errors so far after each iteration, outside the measured time.
    """
    trace = TruthError(truth)
    callbacks: list[Callback] = [trace]
    if watch is not None:
        callbacks.append(lambda problem, state, clock: watch(trace))
    stop: Rule = TruthDistance(truth, tol) | Seconds(max_seconds)
    result = solve(problem, rank, solver, max_iter=max_iter, stop=stop, callbacks=callbacks)
    final = truth.distance(result.X) / truth.norm()
    about = (solver, repr(result.solver), result.status, result.n_iter, result.seconds, final)
    return Run(*about, trace.iteration, trace.seconds, trace.error)


def speedup(run: Run, base: Run | None) -> float | None:
    """Ratio of the times of ``base`` and of ``run`` to the tolerance; None where ``run`` did not reach it.

    The ratio is a lower bound where ``base`` did not reach the tolerance.
    """
    if base is None or not run.reached or run.time <= 0:
        return None
    return base.time / run.time
