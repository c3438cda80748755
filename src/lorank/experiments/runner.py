"""Execution of an experiment: stored runs are skipped, finished runs are stored."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .experiment import Experiment, Method, Point
from .progress import Progress
from .single_process import Job, JobExecutor
from .store import Record, Store


def run_experiment(
    experiment: Experiment, path: Path, scale: str = "paper", *, threads: int = 1, workers: int = 1, progress: Progress
) -> list[Record]:
    """Make the runs of an experiment that are not stored yet.

    Parameters
    ----------
    experiment : Experiment
    path : Path
        The store, a file of JSON lines.
    scale : {"tiny", "quick", "paper"}
    threads : int
        Threads of the kernels and of BLAS, stored with each run; the caller sets the limit.
    workers : int
        Number of processes.
    progress : Progress

    Returns
    -------
    list of dict
        All stored records, with the names of the experiment and of the scale, as :func:`~lorank.experiments.tables.tables`
        takes them.
    """
    with Store(path, experiment.name, scale) as store:
        runner = Runner(experiment, scale, store, threads)
        if workers > 1:
            from .process_pool import run_in_pool

            run_in_pool([runner], workers, progress, threads)
        else:
            runner.run(progress)
        return [{"experiment": experiment.name, "scale": scale, **record} for record in store.records.values()]


class Runner:
    """One experiment at one scale, with its store."""

    def __init__(self, experiment: Experiment, scale: str, store: Store, threads: int = 1) -> None:
        self.experiment, self.store = experiment, store
        self.points = list(experiment.points(scale))
        self.about = provenance(threads) | {"protocol": experiment.protocol}

    def run(self, progress: Progress) -> None:
        """Execute the jobs that are not stored yet, one after another."""
        executor = JobExecutor(self.experiment, progress.watch)
        for job in self.begin(progress):
            if self.is_skipped(job):
                progress.skip(job.cost, skip_message(job))
                continue
            progress.start(str(job))
            record = self.keep(job, executor.execute(job, self.setting(job)))
            progress.end(job.cost, record["wall"], summary(record))

    def begin(self, progress: Progress) -> list[Job]:
        """The jobs that are not stored; the progress gets the times of the others."""
        found = [(job, job.stored_in(self.store)) for job in self.jobs()]
        progress.begin([(job.cost, None if record is None else float(record["wall"])) for job, record in found])
        return [job for job, record in found if record is None]

    def jobs(self) -> Iterator[Job]:
        """Jobs by point: tuning first, then seed by seed, so that all methods share an instance."""
        for point in self.points:
            yield from (Job(point, method, None) for method in point.methods if point.tunes(method))
            yield from (Job(point, method, seed) for seed in point.seeds for method in point.methods)

    def keep(self, job: Job, values: dict[str, Any]) -> Record:
        """Store the result of a job."""
        kind = "tuning" if job.seed is None else "run"
        return self.store.add(kind, job.point.params, job.method.name, job.seed, {**values, **self.about, "date": today()})

    def setting(self, job: Job) -> Any:
        """The solver selected by tuning; None for tuning itself."""
        point, method = job.point, job.method
        if job.seed is None:
            return None
        if len(method.grid) == 1:
            return method.grid[0]
        record = self._choice(point, method)
        if record is None:
            raise ValueError(f"{self.experiment.name}: {method.name} was not tuned at {dict(point.settings_of(method))}")
        for solver in method.grid:
            if self.experiment.setting(solver) == record["chosen"]:
                return solver
        raise ValueError(
            f"{self.store.path}: the setting chosen for {method.name}, {record['chosen']}, is not in the grid: "
            "choose another --out"
        )

    def _choice(self, point: Point, method: Method) -> Record | None:
        return self.store.get("tuning", point.settings_of(method), method.name)

    def is_ready(self, job: Job) -> bool:
        """Whether the job's setting and the run of its first seed are stored."""
        if job.seed is None:
            return True
        first = job.point.seeds[0]
        tuned = len(job.method.grid) == 1 or self._choice(job.point, job.method) is not None
        return tuned and (job.seed == first or Job(job.point, job.method, first).stored_in(self.store) is not None)

    def is_skipped(self, job: Job) -> bool:
        """Whether the method exceeded the time limit on an earlier seed, so that this job is skipped."""
        if job.seed is None:
            return False
        seeds = list(job.point.seeds)
        before = seeds[: seeds.index(job.seed)]
        records = (Job(job.point, job.method, seed).stored_in(self.store) for seed in before)
        return any(record is not None and record["status"] == "time" for record in records)


def skip_message(job: Job) -> str:
    """The message for a skipped job."""
    return f"{job}: skipped, an earlier seed exceeded the time limit"


def summary(record: Record) -> str:
    """The result of a job as text."""
    if record["kind"] == "tuning":
        return f"selected {record['chosen']}"
    error = record["residual"] if record["error"] is None else record["error"]
    size = "" if error is None else f", {'residual' if record['error'] is None else 'error'} {error:.1e}"
    return f"{record['status']} after {record['iterations']} iterations, {record['seconds']:.2f} s{size}"


@functools.cache
def _machine() -> str:
    """Processor, number of cores and system, without host names."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def today() -> str:
    """The date in UTC."""
    return datetime.now(UTC).date().isoformat()


def provenance(threads: int) -> dict[str, Any]:
    """Versions, machine and threads, stored with each run."""
    import numpy
    import scipy

    from ..common.version import __version__

    return {
        "threads": threads,
        "date": today(),
        "lorank": __version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "machine": _machine(),
    }
