"""Runs an experiment: what is stored is skipped, what ends is stored, and the time left is said."""

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
from .single_process import Job, Workbench
from .store import Record, Store


def run_experiment(
    experiment: Experiment, path: Path, scale: str = "paper", *, threads: int = 1, workers: int = 1, progress: Progress
) -> list[Record]:
    """Make the runs of an experiment that a file does not hold yet, and add them to it.

    Parameters
    ----------
    experiment : Experiment
    path : Path
        A file of JSON lines.
    scale : {"tiny", "quick", "paper"}
    threads : int
        Of the kernels and of BLAS; written down with each run. Limiting them is the caller's.
    workers : int
        Processes that make runs side by side.
    progress : Progress

    Returns
    -------
    list of dict
        All that is stored now.
    """
    with Store(path, experiment.name, scale) as store:
        runner = Runner(experiment, scale, store, threads)
        if workers > 1:
            from .process_pool import run_side_by_side

            run_side_by_side([runner], workers, progress, threads)
        else:
            runner.run(progress)
        return list(store.records.values())


class Runner:
    """One experiment at one scale, with what is stored of it."""

    def __init__(self, experiment: Experiment, scale: str, store: Store, threads: int = 1) -> None:
        self.experiment, self.store = experiment, store
        self.points = list(experiment.points(scale))
        self.about = provenance(threads) | {"protocol": experiment.protocol}

    def run(self, progress: Progress) -> None:
        """Do what is not stored yet, one job after another."""
        bench = Workbench(self.experiment, progress.watch)
        for job in self.begin(progress):
            if self.thinned(job):
                progress.skip(job.cost, thinned_away(job))
                continue
            progress.start(str(job))
            record = self.keep(job, bench.do(job, self.setting(job)))
            progress.end(job.cost, record["wall"], summary(record))

    def begin(self, progress: Progress) -> list[Job]:
        """The jobs to do; the others, with the time that they took, are told to the progress."""
        found = [(job, job.stored_in(self.store)) for job in self.jobs()]
        progress.begin([(job.cost, None if record is None else float(record["wall"])) for job, record in found])
        return [job for job, record in found if record is None]

    def jobs(self) -> Iterator[Job]:
        """Point by point: tuning first, then seed by seed, so that an instance serves all methods."""
        for point in self.points:
            yield from (Job(point, method, None) for method in point.methods if point.tunes(method))
            yield from (Job(point, method, seed) for seed in point.seeds for method in point.methods)

    def keep(self, job: Job, values: dict[str, Any]) -> Record:
        """Store what a job gave."""
        kind = "tuning" if job.seed is None else "run"
        return self.store.add(kind, job.point.params, job.method.name, job.seed, {**values, **self.about, "date": today()})

    def setting(self, job: Job) -> Any:
        """The solver that tuning chose; None for tuning itself."""
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
            f"{self.store.path}: the setting chosen for {method.name}, {record['chosen']}, is no longer among those tried: "
            "choose another --out"
        )

    def _choice(self, point: Point, method: Method) -> Record | None:
        return self.store.get("tuning", point.settings_of(method), method.name)

    def ready(self, job: Job) -> bool:
        """Whether all is stored that the job needs to know: its setting, and whether the first seed ran out of time."""
        if job.seed is None:
            return True
        first = job.point.seeds[0]
        tuned = len(job.method.grid) == 1 or self._choice(job.point, job.method) is not None
        return tuned and (job.seed == first or Job(job.point, job.method, first).stored_in(self.store) is not None)

    def thinned(self, job: Job) -> bool:
        """Whether the method ran out of time on an earlier seed here: the others would, too."""
        if job.seed is None:
            return False
        seeds = list(job.point.seeds)
        before = seeds[: seeds.index(job.seed)]
        records = (Job(job.point, job.method, seed).stored_in(self.store) for seed in before)
        return any(record is not None and record["status"] == "time" for record in records)


def thinned_away(job: Job) -> str:
    """Why a job is not done, for people."""
    return f"{job}: thinned, an earlier seed ran out of time"


def summary(record: Record) -> str:
    """What a job gave, for people."""
    if record["kind"] == "tuning":
        return f"chose {record['chosen']}"
    error = record["residual"] if record["error"] is None else record["error"]
    size = "" if error is None else f", {'residual' if record['error'] is None else 'error'} {error:.1e}"
    return f"{record['status']} after {record['iterations']} iterations, {record['seconds']:.2f} s{size}"


@functools.cache
def _machine() -> str:
    """The processor and how many of it, no names."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def today() -> str:
    """The date in Greenwich."""
    return datetime.now(UTC).date().isoformat()


def provenance(threads: int) -> dict[str, Any]:
    """Versions, machine and threads, for each row of the tables."""
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
