"""Where the runs of an experiment are made, in one process."""

from __future__ import annotations

import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .experiment import Experiment, Instance, Method, Outcome, Point
from .progress import Cost
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


class Workbench:
    """Makes the runs of one experiment; keeps the last instances, which serve several methods.

    Parameters
    ----------
    experiment : Experiment
    watch : callable
        A callback, called in each iteration.
    """

    def __init__(self, experiment: Experiment, watch: Callable[..., None]) -> None:
        self.experiment, self.watch = experiment, watch
        self._where: Any = None
        self._instances: OrderedDict[int, Instance] = OrderedDict()

    def do(self, job: Job, solver: Any) -> dict[str, Any]:
        """What tuning found, or what the run with that solver gave; ``wall`` is the time it took, instances included."""
        begin = time.perf_counter()
        with warnings.catch_warnings():  # candidates that diverge overflow on the way: the tables say so, warnings need not
            warnings.simplefilter("ignore")
            found = self._tune(job.point, job.method) if job.seed is None else self._report(job, job.seed, solver)
        return {**found, "wall": time.perf_counter() - begin}

    def _tune(self, point: Point, method: Method) -> dict[str, Any]:
        seconds = point.cap(method, tuning=True)

        def run(candidate: Any, seed: int, instance: Instance, max_iter: int) -> Outcome:
            watch = [self.watch]
            return self.experiment.run(point, instance, candidate, max_iter=max_iter, max_seconds=seconds, callbacks=watch)

        return tune(self.experiment, point, method, self.instance, run)

    def _report(self, job: Job, seed: int, solver: Any) -> dict[str, Any]:
        point = job.point
        outcome = self.experiment.run(
            point,
            self.instance(point, seed),
            solver,
            max_iter=point.max_iter,
            max_seconds=point.cap(job.method),
            traced=seed in point.traced,
            callbacks=[self.watch],
        )
        return outcome.record()

    def instance(self, point: Point, seed: int) -> Instance:
        """The instance, made anew unless it was one of the last at this point."""
        if point.params != self._where:
            self._where = point.params
            self._instances.clear()
        if seed not in self._instances:
            while len(self._instances) >= self.experiment.instances_kept:
                self._instances.popitem(last=False)
            self._instances[seed] = self.experiment.instance(point, seed)
        self._instances.move_to_end(seed)
        return self._instances[seed]


def warm_up() -> None:
    """Imports and the first touch of libraries are no method's own time."""
    from ..datasets import random_completion
    from ..loop.stopping import Iterations
    from ..plans import SOLVERS, solve

    problem, _ = random_completion(60, 50, 2, seed=0)
    for solver in SOLVERS:
        solve(problem, 2, solver, stop=Iterations(2))
