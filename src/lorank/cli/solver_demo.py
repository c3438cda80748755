"""``lorank demo``: compare five solvers on a random low-rank matrix."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..common.version import __version__
from ..datasets import random_completion
from ..io.figures import blank_figure, save_figure
from ..problems import Completion
from ..report.comparison import Comparison, Run, compare, format_table
from .errors import INTERRUPTED, Outcome, UsageError, is_quiet, print_error, print_note
from .output import check_output_path

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
        n, rank = self.n, self.rank
        size = 2 * n * rank * max(self.oversampling, 1)
        for wrong, message in (
            (rank < 1, f"--rank must be at least 1, got {rank}"),
            (n < rank, f"--n must be at least --rank: a {n} x {n} matrix cannot have rank {rank}"),
            (not 0 < self.oversampling < math.inf, f"--oversampling must be a positive number, got {self.oversampling}"),
            (
                size > MAX_SIZE,
                f"the demo takes {MAX_SIZE:,} observations, not {size:,.0f}: lower --n, --rank or --oversampling",
            ),
            (not 0 < self.tol < 1, f"--tol must lie between 0 and 1, got {self.tol}"),
            (self.max_iter < 1, f"--max-iter must be at least 1, got {self.max_iter}"),
            (not self.max_seconds > 0, f"--max-seconds must be positive, got {self.max_seconds}"),
        ):
            if wrong:
                raise UsageError(message)
        check_output_path(self.out, (".png",), "a plot", "--out")


def run_solver_demo(demo: SolverDemo) -> Outcome:
    """Run the solvers and draw a plot."""
    demo.check()
    problem, found = None, Comparison([], "relative error", demo.tol)
    try:
        problem, truth = random_completion(demo.n, demo.n, demo.rank, oversampling=demo.oversampling, seed=demo.seed)
        print_note(_headline(demo, problem))
        limits: dict[str, Any] = {"tol": demo.tol, "max_iter": demo.max_iter, "max_seconds": demo.max_seconds}
        found = compare(problem, demo.rank, SOLVERS, truth=truth, **limits, progress=not is_quiet())
        if not found.interrupted:
            save_figure(found.plot(blank_figure(9, 4.2), title=_headline(demo, problem)), demo.out)
    except KeyboardInterrupt:
        return Outcome({}, "", INTERRUPTED)
    except MemoryError:
        sizes = f"--n {demo.n} --rank {demo.rank} --oversampling {demo.oversampling:g}"
        raise UsageError(f"not enough memory for {sizes}") from None
    if found.interrupted:
        print_error(f"interrupted: {len(found.runs) - 1} of {len(SOLVERS)} solvers had finished")
    text = _table(found.runs, demo.tol) + ("" if found.interrupted else f"\nplot: {demo.out}")
    return Outcome(_summary(demo, problem, found), text, INTERRUPTED if found.interrupted else 0)


def speedup(run: Run, base: Run | None) -> float | None:
    """Ratio of the times of ``base`` and of ``run`` to the tolerance; None where ``run`` did not reach it.

    The ratio is a lower bound where ``base`` did not reach the tolerance.
    """
    return None if base is None or not run.reached or run.time <= 0 else base.time / run.time


def _headline(demo: SolverDemo, problem: Completion) -> str:
    n = f"{demo.n:,}".replace(",", " ")
    percent = 100 * problem.m / demo.n**2
    return f"A {n} x {n} matrix of rank {demo.rank} from {percent:.{0 if percent >= 10 else 1}f} % of its entries"


def _base(runs: list[Run]) -> Run | None:
    return next((run for run in runs if run.solver == BASE), None)


def _speed_text(run: Run, base: Run | None) -> str:
    factor = speedup(run, base)
    if not run.reached:
        return "interrupted" if run.status == "interrupted" else "not reached"
    return "-" if factor is None or base is None else f"{'' if base.reached else '> '}{factor:.1f} x"


def _table(runs: list[Run], tol: float) -> str:
    head = ["solver", "iterations", "seconds", "relative error", f"speed against {BASE.upper()}"]
    rows = [[run.solver, run.n_iter, f"{run.time:.2f}", f"{run.final:.1e}", _speed_text(run, _base(runs))] for run in runs]
    return f"{format_table(head, rows)}\n(time to a relative error of {tol:g}, relative to {BASE.upper()})"


def _summary(demo: SolverDemo, problem: Completion | None, found: Comparison) -> dict[str, Any]:
    base = _base(found.runs)
    return {
        "lorank": __version__,
        **{name: value for name, value in asdict(demo).items() if name != "out"},
        "observations": None if problem is None else problem.m,
        "backend": None if problem is None else problem.backend.name,
        "plot": None if found.interrupted else str(demo.out),
        "interrupted": found.interrupted,
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
            for run in found.runs
        ],
    }
