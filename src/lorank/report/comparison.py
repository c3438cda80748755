"""Comparison of solvers on one problem: runs, table and figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.checks import NOT_NEGATIVE, SHARE, check, optional, whole
from ..common.frames import frame_of
from ..geometry import FixedRank
from ..loop.result import Status
from ..loop.state import relative
from ..loop.stopping import A_POINT, Iterations, RelativeResidual, Rule, Seconds, Stall, TruthDistance
from ..plans import solve
from ..plans.noise_test import NoiseFloor
from ..problems import Problem
from ..problems.capabilities import HasSplit, supports
from . import html
from .convergence_plot import draw_convergence

SOLVERS = ("auto", "rcg", "gauss-newton", "prgd", "scaledgd")
ERROR, HELD_OUT, RESIDUAL = "relative error", "held-out error", "relative residual"


@dataclass(frozen=True)
class Run:
    """The run of one solver.

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
        Error of the result.
    iteration, seconds, error : arrays
        Errors along the run.
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
        """Whether the run reached its goal."""
        return self.status.success


@dataclass(frozen=True)
class Comparison:
    """Runs of several solvers; ``print`` shows a table, and notebooks as well.

    Attributes
    ----------
    runs : list of Run
        After Ctrl-C up to the interrupted one.
    measure : str
        The error: ``"relative error"`` with a known solution; otherwise ``"held-out error"``, or ``"relative residual"`` for
        models whose measurements cannot be split.
    tol : float

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> found = lr.compare(problem, rank=2, solvers=["auto", "rgd"], truth=truth)
    >>> [run.solver for run in found.runs if run.reached]
    ['auto', 'rgd']
    """

    runs: list[Run]
    measure: str
    tol: float

    HEAD = ("solver", "iterations", "seconds", "status")

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the comparison."""
        return bool(self.runs) and self.runs[-1].status == "interrupted"

    def _rows(self) -> list[list[str]]:
        return [[run.solver, f"{run.n_iter:,}", f"{run.time:.3g}", str(run.status), f"{run.final:.2e}"] for run in self.runs]

    def __str__(self) -> str:
        return format_table([*self.HEAD, self.measure], self._rows())

    def _repr_html_(self) -> str:
        return str(html.table((*self.HEAD, self.measure), self._rows(), numbers=(1, 2, 4)))

    def to_frame(self) -> Any:
        """A data frame of pandas, or of polars where pandas is not installed, with one row a solver."""
        columns = {
            "solver": [run.solver for run in self.runs],
            "iterations": [run.n_iter for run in self.runs],
            "seconds": [run.time for run in self.runs],
            "status": [str(run.status) for run in self.runs],
            self.measure: [run.final for run in self.runs],
        }
        return frame_of(columns)

    def plot(self, figure: Any = None, title: str = "") -> Any:
        """Plot the error by iteration and by seconds. Needs matplotlib.

        Parameters
        ----------
        figure : matplotlib figure, optional
            Where to draw; by default a new figure without a window.
        title : str
            Title of the legend.

        Returns
        -------
        matplotlib figure
        """
        tol = self.tol if self.measure == ERROR else None
        return draw_convergence(self.runs, figure, tol=tol, title=title, measure=self.measure)


def compare(
    problem: Problem,
    rank: Any = None,
    solvers: Sequence[Any] | Mapping[str, Any] = SOLVERS,
    *,
    truth: FixedRank | None = None,
    tol: float = 1e-6,
    max_iter: int = 500,
    max_seconds: float = float("inf"),
    holdout: float = 0.1,
    seed: int = 0,
    progress: bool = False,
) -> Comparison:
    """Run several solvers on one problem and compare their errors by iteration and time.

    Parameters
    ----------
    problem : Problem
    rank : int, "auto" or tuple of int, optional
        As for :func:`~lorank.solve`.
    solvers : sequence or mapping
        Names or solvers, as for :func:`~lorank.solve`; a mapping from labels to them.
    truth : FixedRank, optional
        The solution, where it is known: errors are relative to it, and a run ends at the error ``tol``. Otherwise a random
        part of the measurements is held out, the runs end as those of ``solve``, and errors are those on the held-out part.
    tol : float
        Tolerance of the error or, without ``truth``, of the residual.
    max_iter : int
        Largest number of iterations of each solver.
    max_seconds : float
        Largest number of seconds of each solver.
    holdout : float
        Share of the measurements that is held out.
    seed : int
        Of the held-out part and of the starts.
    progress : bool
        Show a progress bar for each solver.

    Returns
    -------
    Comparison
        With the runs so far after Ctrl-C.

    Raises
    ------
    ValueError
        For invalid parameters, and solvers that need what the problem does not have.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=8, noise=0.05)
    >>> found = lr.compare(problem, rank=2, solvers={"default": "auto", "RCG": lr.solvers.RCG()})
    >>> found.measure, all(run.final < 0.1 for run in found.runs)
    ('held-out error', True)
    >>> found.plot().savefig("solvers.png")  # doctest: +SKIP
    """
    check("truth", truth, optional(A_POINT))
    check("tol", tol, NOT_NEGATIVE)
    check("holdout", holdout, SHARE)
    check("seed", seed, whole(0))
    kept, measure, name = _measured(problem, truth, holdout, seed)
    stop: Rule = TruthDistance(truth, tol) if truth is not None else RelativeResidual(tol) | NoiseFloor() | Stall()
    found = Comparison([], name, tol)
    if solve(kept, rank, stop=Iterations(1)).status == "interrupted":  # not measured: imports and page faults
        raise KeyboardInterrupt
    for label, solver in (solvers if isinstance(solvers, Mapping) else {_label(one): one for one in solvers}).items():
        trace = _Trace(measure)
        options: dict[str, Any] = {"max_iter": max_iter, "stop": stop | Seconds(max_seconds), "progress": progress}
        result = solve(kept, rank, solver, **options, callbacks=[trace], seed=seed)
        about = (label, repr(result.solver), result.status, result.n_iter, result.seconds, measure(result.X))
        found.runs.append(Run(*about, *trace.columns()))
        if found.interrupted:
            break
    return found


def _measured(problem: Problem, truth: Any, holdout: float, seed: int) -> tuple[Any, Callable[[Any], float], str]:
    """The problem to be solved, the error of a point, and its name."""
    if truth is not None:
        return problem, lambda X: truth.distance(X) / truth.norm(), ERROR
    if supports(problem, HasSplit):
        kept, held = problem.split(np.random.default_rng(seed), holdout)  # type: ignore[attr-defined]
        return kept, lambda X: relative(held, held.gradient(X)), HELD_OUT
    return problem, lambda X: relative(problem, problem.gradient(X)), RESIDUAL


def _label(solver: Any) -> str:
    return solver if isinstance(solver, str) else repr(solver)


class _Trace:
    """Callback that records iterations, seconds and errors."""

    def __init__(self, measure: Callable[[Any], float]) -> None:
        self._measure = measure
        self._rows: list[tuple[int, float, float]] = []

    def __call__(self, problem: Problem, state: Any, clock: Any) -> None:
        self._rows.append((state.iteration, clock.seconds, self._measure(state.X)))

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        table = np.array(self._rows, float).reshape(-1, 3)
        return table[:, 0].astype(int), table[:, 1], table[:, 2]


def format_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Right-aligned columns."""
    cells = [[str(c) for c in row] for row in [columns, *rows]]
    widths = [max(len(row[k]) for row in cells) for k in range(len(columns))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
