"""Callbacks: functions of problem, state and clock, called after the start and after each iteration.

The clock is paused during the call. A callback that returns True ends the run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..common.checks import check
from ..geometry import FixedRank
from ..problems import Problem
from .result import column
from .stopping import A_POINT

if TYPE_CHECKING:
    from ..common.timer import Timer
    from .state import State

__all__ = ["Callback", "Progress", "TruthError"]


class Callback(Protocol):
    """A function of problem, state and clock.

    Examples
    --------
    Stop at the third iteration:

    >>> import lorank as lr
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, callbacks=[lambda problem, state, clock: state.iteration == 3]).n_iter
    3
    """

    def __call__(self, problem: Problem, state: State, clock: Timer) -> Any: ...


class TruthError:
    """Record the relative error ``|X_t - X|_F / |X|_F`` for a known X.

    Parameters
    ----------
    truth : FixedRank
        The known X.

    Attributes
    ----------
    iteration, seconds, error : arrays
        One entry for the start and one for each iteration.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> trace = lr.callbacks.TruthError(truth)
    >>> result = lr.solve(problem, rank=2, callbacks=[trace])
    >>> bool(trace.error[-1] < 1e-4), len(trace.iteration) == result.n_iter + 1
    (True, True)
    """

    def __init__(self, truth: FixedRank) -> None:
        check("truth", truth, A_POINT)
        self.truth = truth
        self._rows: list[tuple[int, float, float]] = []

    def __call__(self, problem: Problem, state: State, clock: Timer) -> None:
        self._rows.append((state.iteration, clock.seconds, self.truth.distance(state.X) / self.truth.norm()))

    iteration, seconds, error = column(0, int), column(1, float), column(2, float)


class Progress:
    """Progress bar on stderr, as a context manager; lines of text where rich is not installed.

    Parameters
    ----------
    tol : float
        Relative residual at which the bar is full.
    max_iter : int
        Iteration at which the bar is full.
    label : str
        Text before the bar.

    Examples
    --------
    The same as ``solve(..., progress=True)``:

    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> with lr.callbacks.Progress(1e-6, 500, "mine") as progress:  # doctest: +SKIP
    ...     result = lr.solve(problem, rank=2, callbacks=[progress])
    """

    def __init__(self, tol: float, max_iter: int, label: str = "solve") -> None:
        self.tol, self.max_iter, self.label = tol, max_iter, label
        self._bar: Any = None

    def __enter__(self) -> Progress:
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        except ImportError:
            return self
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("iteration {task.fields[iteration]}  residual {task.fields[residual]:.2e}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._bar.__enter__()
        self._task = self._bar.add_task(self.label, total=1.0, iteration=0, residual=float("nan"))
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.__exit__(*exc)

    def __call__(self, problem: Problem, state: State, clock: Timer) -> None:
        if self._bar is not None:
            done = max(self._digits(state.residual), state.iteration / max(self.max_iter, 1))
            self._bar.update(self._task, completed=min(done, 1.0), iteration=state.iteration, residual=state.residual)
        elif state.iteration % 10 == 0:
            print(f"{self.label}: iteration {state.iteration}, residual {state.residual:.2e}", file=sys.stderr)

    def _digits(self, residual: float) -> float:
        """Share of the requested decimal digits."""
        if not 0 < self.tol < 1 or not 0 < residual < 1:
            return 0.0
        return float(np.log(residual) / np.log(self.tol))
