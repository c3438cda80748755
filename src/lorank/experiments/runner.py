"""Runs an experiment: what is stored is skipped, what ends is stored, and the time left is said."""

from __future__ import annotations

import functools
import os
import platform
import time
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .experiment import Experiment, Instance, Method, Outcome, Point
from .progress import Cost, Progress
from .store import Record, Store
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

    def stored_in(self, store: Store) -> Record | None:
        return store.get("tuning" if self.seed is None else "run", self.point.params, self.method.name, self.seed)

    def __str__(self) -> str:
        what = "tuning" if self.seed is None else f"seed {self.seed}"
        return f"{self.method.name}, {self.point.label()}, {what}"


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
        Processes that make reported runs side by side. Tuning, on which they depend, is done before them.
    progress : Progress

    Returns
    -------
    list of dict
        All that is stored now.
    """
    with Store(path, experiment.name, scale) as store:
        Runner(experiment, scale, store, progress, threads).run(workers)
        return list(store.records.values())


class Runner:
    """One experiment at one scale."""

    def __init__(self, experiment: Experiment, scale: str, store: Store, progress: Progress, threads: int) -> None:
        self.experiment, self.store, self.progress = experiment, store, progress
        self.points = list(experiment.points(scale))
        self.about = provenance(threads) | {"protocol": experiment.protocol}
        self._where: Point | None = None
        self._instances: OrderedDict[int, Instance] = OrderedDict()

    def run(self, workers: int = 1) -> None:
        """Do what is not stored yet."""
        jobs = [job for point in self.points for job in self.jobs(point)]
        found = [(job, job.stored_in(self.store)) for job in jobs]
        self.progress.begin([(job.cost, None if record is None else float(record["wall"])) for job, record in found])
        todo = [job for job, record in found if record is None]
        if workers > 1:
            self._side_by_side([job for job in todo if job.seed is not None], workers, [j for j in todo if j.seed is None])
            return
        for job in todo:
            if self.thinned(job):
                self.progress.skip(job.cost, f"{job}: thinned, an earlier seed ran out of time")
                continue
            self.progress.start(str(job))
            begin = time.perf_counter()
            with _quiet():
                record = self.tune(job, begin) if job.seed is None else self.report(job, job.seed, begin)
            self.progress.end(job.cost, record["wall"], _summary(record))

    def _side_by_side(self, runs: list[Job], workers: int, tuning: list[Job]) -> None:
        import multiprocessing

        for job in tuning:
            self.progress.start(str(job))
            record = self.tune(job, time.perf_counter())
            self.progress.end(job.cost, record["wall"], _summary(record))
        tasks = [(self.experiment, job, self.setting(job.point, job.method)) for job in runs]
        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            for job, outcome, wall in pool.imap_unordered(_run_elsewhere, tasks):
                self.progress.start(str(job))
                self.progress.end(job.cost, wall, _summary(self._keep(job, outcome, wall)))

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
            seconds = point.cap(method, tuning=True)
            watch = [self.progress.watch]
            return self.experiment.run(point, instance, candidate, max_iter=max_iter, max_seconds=seconds, callbacks=watch)

        found = tune(self.experiment, point, method, self.instance, run)
        values = {**found, "wall": time.perf_counter() - begin, **self.about}
        return self.store.add("tuning", point.params, method.name, None, values)

    def report(self, job: Job, seed: int, begin: float) -> Record:
        solver, instance = self.setting(job.point, job.method), self.instance(job.point, seed)
        outcome = _run(self.experiment, job, solver, instance, [self.progress.watch])
        return self._keep(job, outcome, time.perf_counter() - begin)

    def _keep(self, job: Job, outcome: Outcome, wall: float) -> Record:
        values = {**outcome.record(), "wall": wall, **self.about, "date": today()}
        return self.store.add("run", job.point.params, job.method.name, job.seed, values)

    def setting(self, point: Point, method: Method) -> Any:
        """The solver that tuning chose."""
        if len(method.grid) == 1:
            return method.grid[0]
        record = self.store.get("tuning", point.tuned_at or point.params, method.name)
        if record is None:
            raise ValueError(f"{self.experiment.name}: {method.name} was not tuned at {dict(point.tuned_at or point.params)}")
        for solver in method.grid:
            if self.experiment.setting(solver) == record["chosen"]:
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
            while len(self._instances) >= self.experiment.instances_kept:
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


def _run(experiment: Experiment, job: Job, solver: Any, instance: Instance, callbacks: list[Any]) -> Outcome:
    point, seconds = job.point, job.point.cap(job.method)
    return experiment.run(
        point,
        instance,
        solver,
        max_iter=point.max_iter,
        max_seconds=seconds,
        traced=job.seed in point.traced,
        callbacks=callbacks,
    )


def _run_elsewhere(task: tuple[Experiment, Job, Any]) -> tuple[Job, Outcome, float]:
    """One reported run, in a process of its own."""
    experiment, job, solver = task
    assert job.seed is not None
    begin = time.perf_counter()
    with _quiet():
        outcome = _run(experiment, job, solver, experiment.instance(job.point, job.seed), [])
    return job, outcome, time.perf_counter() - begin


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

    from .._version import __version__

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
