"""Jobs of an experiment, and their execution in one process."""

from __future__ import annotations

import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .experiment import Experiment, Instance, Method, Outcome, Point
from .progress import Cost
from .store import Record, Store, key
from .tuning import tune


@dataclass(frozen=True)
class Job:
    """The tuning of a method at a point (seed None), or a reported run."""

    point: Point
    method: Method
    seed: int | None

    @property
    def cost(self) -> Cost:
        """Kind, size and maximum time, for the estimate of its time."""
        point, method = self.point, self.method
        if self.seed is not None:
            return method.name, point.size, point.cap(method)
        runs = len(method.grid) * (len(point.tuning_seeds) + len(method.more_seeds)) * max(len(point.tuned_on), 1)
        return f"{method.name} (tuning)", point.size, runs * point.cap(method, tuning=True)

    def stored_in(self, store: Store) -> Record | None:
        return store.get("tuning" if self.seed is None else "run", self.point.params, self.method.name, self.seed)

    def __str__(self) -> str:
        what = "tuning" if self.seed is None else f"seed {self.seed}"
        return f"{self.method.name}, {self.point.label()}, {what}"


class JobExecutor:
    """Executes jobs of one experiment and caches the latest instances, which several methods share.

    Parameters
    ----------
    experiment : Experiment
    watch : callable
        A callback for each iteration.
    """

    def __init__(self, experiment: Experiment, watch: Callable[..., None]) -> None:
        self.experiment, self.watch = experiment, watch
        self._instances: OrderedDict[str, Instance] = OrderedDict()

    def execute(self, job: Job, solver: Any) -> dict[str, Any]:
        """The record of the tuning, or of the run with ``solver``; ``wall`` and ``cpu`` are times including the instances."""
        begin, cpu = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():  # diverging candidates overflow; their status is stored
            warnings.simplefilter("ignore")
            found = self._tune(job.point, job.method) if job.seed is None else self._report(job, job.seed, solver)
        return {**found, "wall": time.perf_counter() - begin, "cpu": round(time.process_time() - cpu, 3)}

    def _tune(self, point: Point, method: Method) -> dict[str, Any]:
        limits: dict[str, Any] = {"max_seconds": point.cap(method, tuning=True), "callbacks": [self.watch]}

        def run(candidate: Any, seed: int, instance: Instance, max_iter: int) -> Outcome:
            return self.experiment.run(point, instance, candidate, max_iter=max_iter, **limits)

        return tune(self.experiment, point, method, self.instance, run)

    def _report(self, job: Job, seed: int, solver: Any) -> dict[str, Any]:
        point = job.point
        limits: dict[str, Any] = {"max_iter": point.max_iter, "max_seconds": point.cap(job.method)}
        instance, traced = self.instance(point, seed), seed in point.traced
        return self.experiment.run(point, instance, solver, traced=traced, callbacks=[self.watch], **limits).record()

    def instance(self, point: Point, seed: int) -> Instance:
        """The instance for a seed, from the cache where possible."""
        place = key("instance", point.params, "", seed)
        if place not in self._instances:
            while len(self._instances) >= self.experiment.instances_kept:
                self._instances.popitem(last=False)
            self._instances[place] = self.experiment.instance(point, seed)
        self._instances.move_to_end(place)
        return self._instances[place]


def warm_up() -> None:
    """Run every solver briefly, so that imports and library initialization are not measured."""
    from ..datasets import random_completion
    from ..loop.stopping import Iterations
    from ..plans import SOLVERS, solve

    problem, _ = random_completion(60, 50, 2, seed=0)
    for solver in SOLVERS:
        solve(problem, 2, solver, stop=Iterations(2))
