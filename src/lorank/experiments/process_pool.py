"""Several processes make the runs of several experiments, one thread each.

This process hands out the jobs and alone writes to the stores. A run waits until its setting is chosen, and until the first
seed of its point has shown that the method does not run out of time there.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from ..common.timer import Clock
from .experiment import Experiment
from .progress import Progress
from .runner import Runner, summary, thinned_away
from .single_process import Job, Workbench, warm_up


@dataclass
class Task:
    """A job of one of the experiments."""

    runner: Runner
    number: int  # of the experiment
    job: Job

    @property
    def place(self) -> tuple[int, str, int | None]:
        """Jobs at one place share their instances."""
        return self.number, str(sorted(self.job.point.params.items())), self.job.seed

    def __str__(self) -> str:
        return f"{self.runner.experiment.name}: {self.job}"


@dataclass
class Worker:
    """A process, and what it does now or did last."""

    process: Any
    line: Connection
    task: Task | None = None
    place: Any = None


def run_side_by_side(runners: Sequence[Runner], workers: int, progress: Progress, threads: int = 1) -> None:
    """Do what is not stored yet.

    Parameters
    ----------
    runners : sequence of Runner
        Experiments: settings are chosen first, and the runs of the earlier ones made before those of the later.
    workers : int
    progress : Progress
    threads : int
        Of each process. With one, seconds are CPU time.
    """
    todo = [Task(runner, number, job) for number, runner in enumerate(runners) for job in runner.jobs()]
    found = [(task, task.job.stored_in(task.runner.store)) for task in todo]
    progress.begin([(task.job.cost, None if record is None else float(record["wall"])) for task, record in found])
    left = [task for task, record in found if record is None]
    progress.workers = max(1, min(workers, len(left)))
    pool = [_start([runner.experiment for runner in runners], threads) for _ in range(min(workers, len(left)))]
    try:
        while left or any(worker.task for worker in pool):
            _hand_out(left, pool, progress)
            for line in wait([worker.line for worker in pool if worker.task]):
                worker = next(worker for worker in pool if worker.line is line)
                _take_back(worker, progress)
    finally:
        for worker in pool:
            worker.process.terminate()
        for worker in pool:
            worker.process.join()


def _start(experiments: list[Experiment], threads: int) -> Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(there, experiments, threads), daemon=True)
    process.start()
    there.close()
    return Worker(process, here)


def _hand_out(left: list[Task], pool: list[Worker], progress: Progress) -> None:
    """Give each idle process the next job: tuning first, on which runs wait, and where it is, if there is more to do."""
    for task in [task for task in left if task.runner.thinned(task.job)]:
        left.remove(task)
        progress.skip(task.job.cost, thinned_away(task.job))
    ready = [task for task in left if task.runner.ready(task.job)]
    for worker in pool:
        if worker.task or not ready:
            continue
        busy = [other.place for other in pool if other.task]
        task = min(
            ready,
            key=lambda task: (
                task.job.seed is not None,
                task.number,
                task.place != worker.place,
                busy.count(task.place),
            ),
        )
        ready.remove(task)
        left.remove(task)
        worker.task, worker.place = task, task.place
        worker.line.send((task.number, task.job, task.runner.setting(task.job)))


def _take_back(worker: Worker, progress: Progress) -> None:
    """Store what a process has found."""
    task, worker.task = worker.task, None
    assert task is not None
    try:
        found = worker.line.recv()
    except EOFError:
        raise RuntimeError(f"the process that made this run has died: {task}") from None
    if isinstance(found, str):
        raise RuntimeError(f"{task} failed:\n{found}")
    progress.start(str(task))
    record = task.runner.keep(task.job, found)
    progress.end(task.job.cost, record["wall"], summary(record))


def _work(line: Connection, experiments: list[Experiment], threads: int) -> None:
    """What each process does: jobs, until it is ended."""
    import signal

    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that hands out jobs ends this one
    benches = [Workbench(experiment, lambda *_: None) for experiment in experiments]
    warm_up()  # also loads the libraries whose threads are limited next
    with threadpool_limits(threads), Clock.by(time.thread_time if threads == 1 else time.perf_counter):
        while True:
            number, job, solver = line.recv()
            try:
                found: Any = benches[number].do(job, solver)
            except Exception:
                found = traceback.format_exc()
            line.send(found)
