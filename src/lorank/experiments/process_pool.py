"""Execution of several experiments in a pool of processes.

The main process schedules the jobs and writes the stores. A run is scheduled when its setting is selected and the first seed of
its point has shown that the method does not exceed the time limit.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from ..common.timer import Timer
from .experiment import Experiment
from .progress import Progress
from .runner import Runner, skip_message, summary
from .single_process import Job, JobExecutor, warm_up


@dataclass
class Task:
    """A job of one of the experiments."""

    runner: Runner
    number: int  # of the experiment
    job: Job

    @property
    def place(self) -> tuple[int, str, int | None]:
        """Jobs at the same place share instances."""
        return self.number, str(sorted(self.job.point.params.items())), self.job.seed

    def __str__(self) -> str:
        return f"{self.runner.experiment.name}: {self.job}"


@dataclass
class Worker:
    """A process with its present task and its latest place."""

    process: Any
    line: Connection
    task: Task | None = None
    place: Any = None


def run_in_pool(runners: Sequence[Runner], workers: int, progress: Progress, threads: int = 1) -> None:
    """Execute all jobs that are not stored yet.

    Parameters
    ----------
    runners : sequence of Runner
        Experiments. Tuning precedes runs, and the runs of an experiment precede those of later ones.
    workers : int
        Number of processes.
    progress : Progress
    threads : int
        Threads of each process. With one thread times are CPU times.
    """
    todo = [Task(runner, number, job) for number, runner in enumerate(runners) for job in runner.jobs()]
    found = [(task, task.job.stored_in(task.runner.store)) for task in todo]
    progress.begin([(task.job.cost, None if record is None else float(record["wall"])) for task, record in found])
    left = [task for task, record in found if record is None]
    progress.workers = max(1, min(workers, len(left)))
    pool = [_start([runner.experiment for runner in runners], threads) for _ in range(min(workers, len(left)))]
    try:
        while left or any(worker.task for worker in pool):
            _schedule(left, pool, progress)
            for line in wait([worker.line for worker in pool if worker.task]):
                _collect(next(worker for worker in pool if worker.line is line), progress)
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


def _schedule(left: list[Task], pool: list[Worker], progress: Progress) -> None:
    """Send each idle process its next job: tuning first, then by experiment, and at its latest place if possible."""
    for task in [task for task in left if task.runner.is_skipped(task.job)]:
        left.remove(task)
        progress.skip(task.job.cost, skip_message(task.job))
    ready = [task for task in left if task.runner.is_ready(task.job)]
    for worker in pool:
        if worker.task or not ready:
            continue
        busy, latest = [other.place for other in pool if other.task], worker.place

        def priority(task: Task, busy: list[Any] = busy, latest: Any = latest) -> tuple[bool, int, bool, int]:
            return task.job.seed is not None, task.number, task.place != latest, busy.count(task.place)

        task = min(ready, key=priority)
        ready.remove(task)
        left.remove(task)
        worker.task, worker.place = task, task.place
        worker.line.send((task.number, task.job, task.runner.setting(task.job)))


def _collect(worker: Worker, progress: Progress) -> None:
    """Store the result of a process."""
    task, worker.task = worker.task, None
    assert task is not None
    try:
        found = worker.line.recv()
    except EOFError:
        raise RuntimeError(f"the process of this run has died: {task}") from None
    if isinstance(found, str):
        raise RuntimeError(f"{task} failed:\n{found}")
    progress.start(str(task))
    record = task.runner.keep(task.job, found)
    progress.end(task.job.cost, record["wall"], summary(record))


def _work(line: Connection, experiments: list[Experiment], threads: int) -> None:
    """The loop of a process: execute jobs until terminated."""
    import signal

    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process terminates this one
    executors = [JobExecutor(experiment, lambda *_: None) for experiment in experiments]
    warm_up()  # also loads the libraries whose threads are limited next
    with threadpool_limits(threads), Timer.by(time.thread_time if threads == 1 else time.perf_counter):
        while True:
            number, job, solver = line.recv()
            try:
                found: Any = executors[number].execute(job, solver)
            except Exception:
                found = traceback.format_exc()
            line.send(found)
