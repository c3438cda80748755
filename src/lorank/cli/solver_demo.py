"""``lorank demo``: compare five solvers on a random low-rank matrix."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.version import __version__
from ..datasets import random_completion
from ..loop.stopping import Iterations
from ..plans import solve
from ..problems import Completion
from ..report.convergence_plot import convergence_plot
from ..report.live_lines import follow
from ..report.recorded_runs import Run, record, speedup
from .errors import INTERRUPTED, UsageError, cli_errors, print_error
from .output import check_output_path, print_json

SOLVERS = ("prgd", "rgd", "shampoo", "niht", "auto")
BASE = "rgd"  # speeds are relative to it
MAX_SIZE = 50_000_000  # observations, or entries of the factors: a few gigabytes


@dataclass(frozen=True)
class SolverDemo:
    """Problem, stopping criteria and plot of the demo; see ``lorank demo --help``."""

    n: int = 3000
    rank: int = 10
    oversampling: float = 5.0
    seed: int = 0
    tol: float = 1e-4
    max_iter: int = 500
    max_seconds: float = 10.0
    out: Path = Path("lorank-demo.png")

    def check(self) -> None:
        """Raise a UsageError for the first invalid option."""
        n, rank, folder = self.n, self.rank, self.out.absolute().parent
        size = 2 * n * rank * max(self.oversampling, 1)
        for wrong, message in (
            (rank < 1, f"--rank must be at least 1, got {rank}"),
            (n < rank, f"--n must be at least --rank: a {n} x {n} matrix cannot have rank {rank}"),
            (not 0 < self.oversampling < math.inf, f"--oversampling must be a positive number, got {self.oversampling}"),
            (
                size > MAX_SIZE,
                f"the demo takes {MAX_SIZE:,} observations, not {size:,.0f}: lower --n, --rank or --oversampling",
            ),
            (self.seed < 0, f"--seed must not be negative, got {self.seed}"),
            (not 0 < self.tol < 1, f"--tol must lie between 0 and 1, got {self.tol}"),
            (self.max_iter < 1, f"--max-iter must be at least 1, got {self.max_iter}"),
            (not self.max_seconds > 0, f"--max-seconds must be positive, got {self.max_seconds}"),
        ):
            if wrong:
                raise UsageError(message)
        check_output_path(self.out, (".png",), "a plot", "--out")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"--out: cannot write to the folder {folder}")


def run_solver_demo(demo: SolverDemo, *, as_json: bool = False) -> int:
    """Run the solvers, print a table or JSON and draw a plot; return the exit code."""
    from rich.console import Console

    screen, errors = Console(highlight=False), Console(stderr=True, highlight=False)
    runs: list[Run] = []
    problem: Completion | None = None
    interrupted = False
    with cli_errors():
        demo.check()
        try:
            with _warnings_once():
                problem, truth = random_completion(demo.n, demo.n, demo.rank, oversampling=demo.oversampling, seed=demo.seed)
                errors.print(_headline(demo, problem))
                _warm_up(problem, demo.rank)
                with follow(SOLVERS, demo.tol, errors) as lines:
                    limits: dict[str, Any] = {"tol": demo.tol, "max_iter": demo.max_iter, "max_seconds": demo.max_seconds}
                    for solver in SOLVERS:
                        run = record(problem, truth, demo.rank, solver, **limits, watch=lines.watch(solver))
                        runs.append(run)
                        lines.done(run)
                        interrupted = run.status == "interrupted"
                        if interrupted:
                            break
            if not interrupted:
                convergence_plot(runs, demo.out, tol=demo.tol, title=_headline(demo, problem))
        except KeyboardInterrupt:
            interrupted = True
        except MemoryError:
            raise UsageError(
                f"not enough memory for --n {demo.n} --rank {demo.rank} --oversampling {demo.oversampling:g}"
            ) from None
    if as_json:
        print_json(_summary(demo, problem, runs, interrupted))
    elif runs:
        screen.print(_table(runs, demo.tol))
        if not interrupted:
            screen.print(f"plot: {demo.out}", markup=False, soft_wrap=True)
    if interrupted:
        finished = sum(run.status != "interrupted" for run in runs)
        print_error(f"interrupted: {finished} of {len(SOLVERS)} solvers had finished")
    return INTERRUPTED if interrupted else 0


def _headline(demo: SolverDemo, problem: Completion) -> str:
    n = f"{demo.n:,}".replace(",", " ")
    percent = 100 * problem.m / demo.n**2
    return f"A {n} x {n} matrix of rank {demo.rank} from {percent:.{0 if percent >= 10 else 1}f} % of its entries"


def _warm_up(problem: Completion, rank: int) -> None:
    """Run one iteration before timing, so that imports and page faults do not count."""
    if solve(problem, rank, stop=Iterations(1)).status == "interrupted":
        raise KeyboardInterrupt


@contextmanager
def _warnings_once() -> Iterator[None]:
    """Print each warning once."""
    seen: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in seen:
            seen.add(str(message))
            print_error(f"note: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def _base(runs: Sequence[Run]) -> Run | None:
    return next((run for run in runs if run.solver == BASE), None)


def _speed_text(run: Run, base: Run | None) -> str:
    factor = speedup(run, base)
    if not run.reached:
        return "interrupted" if run.status == "interrupted" else "not reached"
    if factor is None or base is None:
        return "-"
    return f"{'' if base.reached else '> '}{factor:.1f} x"


def _table(runs: Sequence[Run], tol: float) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, caption=f"time to a relative error of {tol:g}, relative to {BASE.upper()}")
    for name in ("solver", "iterations", "seconds", "relative error", f"speed against {BASE.upper()}"):
        table.add_column(name, justify="left" if name == "solver" else "right", no_wrap=True)
    for run in runs:
        style = "bold" if run.reached else "dim"
        table.add_row(
            run.solver, str(run.n_iter), f"{run.time:.2f}", f"{run.final:.1e}", _speed_text(run, _base(runs)), style=style
        )
    return table


def _summary(demo: SolverDemo, problem: Completion | None, runs: Sequence[Run], interrupted: bool) -> dict[str, Any]:
    base = _base(runs)
    return {
        "lorank": __version__,
        "n": demo.n,
        "rank": demo.rank,
        "oversampling": demo.oversampling,
        "seed": demo.seed,
        "tol": demo.tol,
        "max_iter": demo.max_iter,
        "max_seconds": demo.max_seconds,
        "observations": None if problem is None else problem.m,
        "backend": None if problem is None else problem.backend.name,
        "plot": None if interrupted else str(demo.out),
        "interrupted": interrupted,
        "runs": [
            {
                "solver": run.solver,
                "composition": run.composition,
                "status": str(run.status),
                "advice": run.status.advice,
                "reached": run.reached,
                "iterations": run.n_iter,
                "seconds": run.time,
                "relative_error": run.final,
                "speed_against_rgd": speedup(run, base),
                "speed_is_a_lower_bound": base is not None and run.reached and not base.reached,
            }
            for run in runs
        ],
    }
