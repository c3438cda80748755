"""Runs experiments: what is stored is skipped, what ends is stored, and the time left is told."""

from __future__ import annotations

import functools
import os
import platform
import time
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..solvers.loop import Clock
from . import load
from .base import Experiment, Instance, Method, Outcome, Point
from .progress import Cost, Progress, follow
from .store import Record, Store, check_folder, write_tables
from .tuning import tune


@dataclass(frozen=True)
class Job:
    """One thing to do: the tuning of a method at a point (seed None), or a reported run."""

    point: Point
    method: Method
    seed: int | None

    @property
    def cost(self) -> Cost:
        """What to estimate its time by: jobs of the same sort take about as long for each unit of size."""
        point, method = self.point, self.method
        if self.seed is not None:
            return method.name, point.size, point.cap(method)
        runs = len(method.grid) * (len(point.tuning_seeds) + len(method.more_seeds))
        return f"{method.name} (tuning)", point.size, runs * point.cap(method, tuning=True)

    def __str__(self) -> str:
        what = "tuning" if self.seed is None else f"seed {self.seed}"
        return f"{self.method.name}, {self.point.label()}, {what}"


def reproduce(names: Sequence[str], scale: str, out: Path, *, threads: int = 1, console: Any) -> list[str]:
    """Run the experiments of these names and make the tables. Returns the names of those that could not run.

    Parameters
    ----------
    names : sequence of str
    scale : {"tiny", "quick", "paper"}
    out : Path
        A folder. What was stored there by an earlier call at the same scale is not run again.
    threads : int
        Of the kernels and of BLAS. With one, seconds are CPU time, as in the paper; with more, wall time.
    console : rich.console.Console
        For progress and notes.
    """
    from threadpoolctl import threadpool_limits

    check_folder(out, scale)
    missing = []
    warm_up()  # also loads the libraries whose threads are limited next
    try:
        # CPU time, as in the paper; it has no meaning for several threads.
        with threadpool_limits(threads), Clock.by(time.thread_time if threads == 1 else time.perf_counter):
            for count, name in enumerate(names, 1):
                experiment = load(name)
                reason = experiment.missing(scale)
                if reason:
                    console.print(f"{name}: skipped, {reason}", style="yellow", markup=False, soft_wrap=True)
                    missing.append(name)
                    continue
                with Store(out, name, scale) as store, follow(_title(name, count, len(names)), console) as progress:
                    Runner(experiment, scale, store, progress, threads).run()
                write_tables(out)
    finally:
        if (out / "runs").is_dir():
            write_tables(out)
    return missing


def _title(name: str, count: int, total: int) -> str:
    return name if total == 1 else f"{name} ({count} of {total})"


def warm_up() -> None:
    """Imports and the first touch of libraries are no method's own time."""
    from ..datasets import random_completion
    from ..solvers import SOLVERS, solve

    problem, _ = random_completion(60, 50, 2, seed=0)
    for solver in SOLVERS:
        solve(problem, 2, solver, max_iter=2)


class Runner:
    """One experiment at one scale."""

    def __init__(self, experiment: Experiment, scale: str, store: Store, progress: Progress, threads: int) -> None:
        self.experiment, self.store, self.progress = experiment, store, progress
        self.points = list(experiment.points(scale))
        self.about = provenance(threads)
        self._where: Point | None = None
        self._instances: OrderedDict[int, Instance] = OrderedDict()

    def run(self) -> None:
        """Do what is not stored yet."""
        jobs = [job for point in self.points for job in self.jobs(point)]
        self.progress.begin([(job.cost, self._wall(job)) for job in jobs])
        for job in jobs:
            if self._wall(job) is not None:
                continue
            if self.thinned(job):
                self.progress.skip(job.cost, f"{job}: thinned, an earlier seed ran out of time")
                continue
            self.progress.start(str(job))
            begin = time.perf_counter()
            with _quiet():
                record = self.tune(job, begin) if job.seed is None else self.report(job, job.seed, begin)
            self.progress.end(job.cost, record["wall"], _summary(record))

    def jobs(self, point: Point) -> list[Job]:
        """Tuning first, then seed by seed, so that an instance serves all methods."""
        tuned = [method for method in point.methods if len(method.grid) > 1 and point.tuned_at is None]
        return [
            *(Job(point, method, None) for method in tuned),
            *(Job(point, method, seed) for seed in point.seeds for method in point.methods),
        ]

    def tune(self, job: Job, begin: float) -> Record:
        point, method = job.point, job.method

        def run(candidate: Any, seed: int, instance: Instance, max_iter: int) -> Outcome:
            return self._run(point, instance, candidate, max_iter, point.cap(method, tuning=True))

        found = tune(self.experiment, point, method, self.instance, run)
        values = {**found, "wall": time.perf_counter() - begin, **self.about}
        return self.store.add("tuning", point.params, method.name, None, values)

    def report(self, job: Job, seed: int, begin: float) -> Record:
        point, method = job.point, job.method
        solver = self.setting(point, method)
        instance = self.instance(point, seed)
        outcome = self._run(point, instance, solver, point.max_iter, point.cap(method), traced=seed in point.traced)
        values = {**asdict(outcome), "wall": time.perf_counter() - begin, **self.about, "date": today()}
        return self.store.add("run", point.params, method.name, seed, values)

    def setting(self, point: Point, method: Method) -> Any:
        """The solver that tuning chose."""
        if len(method.grid) == 1:
            return method.grid[0]
        record = self.store.get("tuning", point.tuned_at or point.params, method.name)
        if record is None:
            raise ValueError(f"{self.experiment.name}: {method.name} was not tuned at {dict(point.tuned_at or point.params)}")
        for solver in method.grid:
            if _setting(solver) == record["chosen"]:
                return solver
        raise ValueError(
            f"{self.store.path}: the setting chosen for {method.name}, {record['chosen']}, is no longer among those tried: "
            "choose another --out"
        )

    def instance(self, point: Point, seed: int) -> Instance:
        """The instance, made anew unless it was one of the last at this point."""
        if point is not self._where:
            self._where = point
            self._instances.clear()
        if seed not in self._instances:
            while len(self._instances) >= self.experiment.kept:
                self._instances.popitem(last=False)
            self._instances[seed] = self.experiment.instance(point, seed)
        self._instances.move_to_end(seed)
        return self._instances[seed]

    def thinned(self, job: Job) -> bool:
        """Whether the method ran out of time on an earlier seed here: the others would, too."""
        if job.seed is None:
            return False
        seeds = list(job.point.seeds)
        before = seeds[: seeds.index(job.seed)]
        records = (self.store.get("run", job.point.params, job.method.name, seed) for seed in before)
        return any(record is not None and record["status"] == "time" for record in records)

    def _run(
        self, point: Point, instance: Instance, solver: Any, max_iter: int, max_seconds: float, traced: bool = False
    ) -> Outcome:
        watch = [self.progress.watch]
        return self.experiment.run(
            point, instance, solver, max_iter=max_iter, max_seconds=max_seconds, traced=traced, callbacks=watch
        )

    def _wall(self, job: Job) -> float | None:
        """The seconds that a stored job took."""
        record = self.store.get("tuning" if job.seed is None else "run", job.point.params, job.method.name, job.seed)
        return None if record is None else float(record["wall"])


def _setting(solver: Any) -> str:
    """As a result would say it."""
    from ..solvers import SOLVERS

    return repr(SOLVERS[solver]() if isinstance(solver, str) else solver)


def _summary(record: Record) -> str:
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

    from .. import __version__

    return {
        "threads": threads,
        "date": today(),
        "lorank": __version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "machine": _machine(),
    }


class _quiet(warnings.catch_warnings):
    """Candidates that diverge overflow on the way: numbers in the tables say so, warnings need not."""

    def __enter__(self) -> Any:
        found = super().__enter__()
        warnings.simplefilter("ignore")
        return found
