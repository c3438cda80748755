"""What benchmarks share: the line printed beside the figures, and runs that are kept in a file and can be resumed."""

from __future__ import annotations

import csv
import functools
import math
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy

import lorank as lr
from lorank.backends import get_backend
from lorank.experiments import Experiment, Instance, Method, Outcome, Point, store
from lorank.experiments.progress import Progress
from lorank.experiments.runner import run_experiment

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"


def versions() -> str:
    """One line: versions, instruction set and threads."""
    backend = get_backend()
    kernels = "NumPy backend"
    if backend.name == "native":
        from lorank import _kernels

        kernels = f"{_kernels.instruction_set()}, {_kernels.threads()} kernel thread(s)"
    return (
        f"lorank {lr.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, Python {platform.python_version()}, "
        f"{kernels}, BLAS limited to 1"
    )


def write_csv(rows: list[dict], path: Path) -> None:
    """One line for each row, the keys of the first as heads."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def markdown(rows: list[dict]) -> list[str]:
    """The lines of a Markdown table."""
    return [
        f"| {' | '.join(rows[0])} |",
        f"|{'---|' * len(rows[0])}",
        *(f"| {' | '.join(map(str, row.values()))} |" for row in rows),
    ]


def spread(values: list[float]) -> str:
    """Median and range, in milliseconds."""
    low, mid, high = np.percentile(values, [0, 50, 100]) * 1e3
    return f"{mid:7.2f} ({low:.2f} .. {high:.2f})"


class Jobs(Experiment):
    """Calls of one function, one a job. A job's entries are a seed, a method where there are several, and parameters."""

    def __init__(self, solve: Callable[[tuple], dict], jobs: list[tuple], keys: tuple[str, ...], name: str) -> None:
        self.solve, self.jobs, self.keys, self.name = solve, jobs, keys, name

    def points(self, scale: str) -> list[Point]:
        return [self.point(dict(zip(self.keys, job, strict=True)), job) for job in self.jobs]

    def point(self, entries: dict, job: tuple) -> Point:
        seed, method = entries.pop("seed", 0), entries.pop("method", "auto")
        return Point(entries, [Method(method, (method,))], seeds=(seed,), max_seconds=math.inf, tuning_seeds=(), extra=job)

    def instance(self, point: Point, seed: int) -> Instance:
        return Instance(None, 0)  # each call makes its own

    def run(self, point: Point, instance: Instance, solver: str, **options: object) -> Outcome:
        found = self.solve(point.extra)
        get = found.get
        numbers = get("iterations", 0), get("seconds", get("cpu_seconds", 0.0)), get("residual", math.nan)
        return Outcome(solver, *numbers, get("status", "done"), True, False, error=get("error"), extra=found)


def run_jobs(solve: Callable[[tuple], dict], jobs: list[tuple], log: Path, keys: tuple[str, ...], workers: int = 1) -> None:
    """Solve the jobs that the log does not hold yet, and add what each gave to it.

    ``keys`` name the entries of a job; among them may be ``"seed"`` and ``"method"``.
    """
    print(versions(), flush=True)
    experiment = Jobs(solve, jobs, keys, log.stem)
    run_experiment(experiment, log, workers=workers, progress=Progress(log.stem, functools.partial(print, flush=True)))


def read(log: Path) -> list[dict]:
    """What a log holds, one entry a job."""
    records = store.read(log)[1] if log.exists() else []
    return [{**record["params"], **record} for record in records]
