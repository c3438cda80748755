"""Definition of an experiment: points, methods, and the measurement of a run."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..geometry import FixedRank
from ..loop.callbacks import Callback
from ..loop.result import Result, Status
from ..loop.stopping import Rule, Seconds, TruthDistance
from ..plans import SOLVERS, solve
from ..problems import Problem

SCALES = ("tiny", "quick", "paper")  # tiny is for tests
TUNING_SEEDS = (1000, 1001)  # for the selection of settings; never reported
TRACED = ("iteration", "seconds", "residual", "error", "heldout_rmse")


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Parameters
    ----------
    name : str
    grid : tuple
        Candidate settings, the likely best first: solvers such as ``RGD(RowColumn(), Constant(0.7))``, or their names. A single
        entry is not tuned.
    max_seconds : float or None
        A time limit below that of the point.
    more_seeds : tuple of int
        Further tuning seeds, for a method whose fastest setting fails on one problem in ten.
    tuned_at : mapping or None
        The parameters of the point at which the setting of this method is selected; by default this point.
    """

    name: str
    grid: tuple[Any, ...]
    max_seconds: float | None = None
    more_seeds: tuple[int, ...] = ()
    tuned_at: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Point:
    """A point of the parameter grid, at which all methods run on all seeds.

    Parameters
    ----------
    params : mapping
        Names and values of the parameters, which identify the point.
    methods : sequence of Method
    seeds : sequence of int
        Seeds of the reported runs; none of them is a tuning seed.
    max_iter, max_seconds
        Limits of a run. A run stopped by one of them is reported as capped.
    tuning_seeds : sequence of int
    tuning_seconds : float
        Time limit of a tuning run.
    tuned_at : mapping or None
        The parameters of another point whose selected settings are used here, where tuning would cost too much.
    tuned_on : sequence of mapping
        The parameters of all points at which candidates are tried: the selected setting is the fastest that fails at none of
        them. By default this point alone.
    traced : sequence of int
        Seeds whose runs are stored iteration by iteration.
    extra : object
        Further data for :meth:`Experiment.instance`.
    """

    params: Mapping[str, Any]
    methods: Sequence[Method]
    seeds: Sequence[int] = (0, 1, 2, 3, 4)
    max_iter: int = 1000
    max_seconds: float = 60.0
    tuning_seeds: Sequence[int] = TUNING_SEEDS
    tuning_seconds: float = math.inf
    tuned_at: Mapping[str, Any] | None = None
    tuned_on: Sequence[Mapping[str, Any]] = ()
    traced: Sequence[int] = ()
    extra: Any = None

    def __post_init__(self) -> None:
        shared = set(self.seeds) & {*self.tuning_seeds, *(seed for method in self.methods for seed in method.more_seeds)}
        if shared:
            raise ValueError(f"tuning seeds must differ from the seeds of reported runs: {sorted(shared)} are both")

    def cap(self, method: Method, *, tuning: bool = False) -> float:
        """Time limit of a run of the method, in seconds."""
        own = math.inf if method.max_seconds is None else method.max_seconds
        return min(self.max_seconds, own, self.tuning_seconds if tuning else math.inf)

    def settings_of(self, method: Method) -> Mapping[str, Any]:
        """The parameters of the point at which the method's setting is selected."""
        return method.tuned_at or self.tuned_at or self.params

    def tunes(self, method: Method) -> bool:
        """Whether the method's setting is selected at this point."""
        own = self.tuned_at is None if method.tuned_at is None else method.tuned_at == self.params
        return own and len(method.grid) > 1

    @property
    def size(self) -> float:
        """Approximate cost of an iteration in arbitrary units, for estimates of time."""
        get = self.params.get
        return float(get("m") or get("n1") or get("n") or 1) * (10 + float(np.max(get("rank") or 1)))

    def label(self) -> str:
        """The parameters as text."""
        return ", ".join(
            f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in self.params.items()
            if name not in ("n2", "m")
        )


@dataclass(frozen=True)
class Instance:
    """A problem, its solution where that is known, and further data for measurements."""

    problem: Problem
    rank: int
    truth: FixedRank | None = None
    extra: Any = None


@dataclass
class Outcome:
    """The result of a run. Numbers that do not apply are None."""

    setting: str
    iterations: int
    seconds: float
    residual: float
    status: str
    reached: bool
    capped: bool
    start: float | None = None  # seconds of the initialization
    error: float | None = None
    heldout_rmse: float | None = None
    trace: dict[str, list[Any]] | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # further measurements, stored with the others

    def record(self) -> dict[str, Any]:
        """The record to be stored."""
        return {name: value for name, value in vars(self).items() if name != "extra"} | self.extra

    @property
    def failed(self) -> bool:
        """Whether the run diverged or stagnated, as opposed to reaching its aim or a limit."""
        return not (self.reached or self.capped)

    @property
    def merit(self) -> float:
        """The error, or the residual where the solution is unknown; infinite where it is not finite."""
        value = self.residual if self.error is None else self.error
        return value if math.isfinite(value) else math.inf


class Experiment:
    """Base class of experiments.

    A subclass defines ``name``, ``title``, :meth:`points` and :meth:`instance`. By default a run ends at a relative error of
    ``tol``, and the setting with the fewest iterations is the best.
    """

    name: str
    title: str
    tol: float = 1e-4
    stop_slower_candidates: bool = True  # in tuning, after more iterations than the best one
    protocol: int = 1  # increased when methods or grids change; stored with each run
    instances_kept: int = 2  # instances of a point held in memory

    def points(self, scale: str) -> Sequence[Point]:
        """The points at the scale ``"tiny"``, ``"quick"`` or ``"paper"``."""
        raise NotImplementedError

    def instance(self, point: Point, seed: int) -> Instance:
        """The problem for a seed."""
        raise NotImplementedError

    def missing(self, scale: str) -> str | None:
        """The reason why the experiment cannot run, or None."""
        return None

    def stop(self, point: Point, instance: Instance) -> Rule:
        """The stopping rule that means success."""
        assert instance.truth is not None
        return TruthDistance(instance.truth, self.tol)

    def measure(self, point: Point, instance: Instance, X: FixedRank) -> dict[str, float]:
        """``error`` and ``heldout_rmse`` of X, as far as they apply; for traces and for results."""
        return {} if instance.truth is None else {"error": instance.truth.distance(X) / instance.truth.norm()}

    def better(self, new: Sequence[Outcome], best: Sequence[Outcome]) -> bool:
        """Whether one candidate's tuning runs, one a seed, are better than another's.

        Compared are, in this order: failures, recovered seeds, iterations, and the error where some seeds were not recovered.
        Further runs never improve a candidate: one that is not better after its first seeds is not better in the end.
        """
        return _score(new) < _score(best)

    def setting(self, solver: Any) -> str:
        """The text of a solver in the stored records."""
        return repr(SOLVERS[solver]() if isinstance(solver, str) else solver)

    def run(
        self,
        point: Point,
        instance: Instance,
        solver: Any,
        *,
        max_iter: int,
        max_seconds: float,
        traced: bool = False,
        callbacks: Sequence[Callback] = (),
        start: Any = None,
    ) -> Outcome:
        """Solve an instance and measure the result. Raises KeyboardInterrupt after Ctrl-C."""
        problem = copy.copy(instance.problem)  # values cached in one run would save time in the next one
        trace = Trace(lambda X: self.measure(point, instance, X)) if traced else None
        result = solve(
            problem,
            instance.rank,
            solver,
            stop=self.stop(point, instance) | Seconds(max_seconds),
            max_iter=max_iter,
            callbacks=[*callbacks, *([trace] if trace else [])],
            start=start,
        )
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return self.outcome(point, instance, result, trace)

    def outcome(self, point: Point, instance: Instance, result: Result, trace: Trace | None) -> Outcome:
        """The record of a finished run."""
        found: dict[str, Any] = dict(self.measure(point, instance, result.X))
        return Outcome(
            setting=repr(result.solver),
            iterations=result.n_iter,
            seconds=result.seconds,
            residual=result.residual,
            status=str(result.status),
            reached=result.status.success,
            capped=str(result.status) in ("max_iter", "time"),
            start=float(result.history.seconds[0]) if len(result.history.seconds) else None,
            error=found.pop("error", None),
            heldout_rmse=found.pop("heldout_rmse", None),
            trace=trace.columns() if trace else None,
            extra=found,
        )


def _score(outcomes: Sequence[Outcome]) -> tuple[bool, int, int, float]:
    reached = sum(outcome.reached for outcome in outcomes)
    failed = any(outcome.failed for outcome in outcomes)
    missed = -reached if failed else len(outcomes) - reached
    iterations = 0 if missed else sum(outcome.iterations for outcome in outcomes)
    return failed, missed, iterations, max(outcome.merit for outcome in outcomes)


class Trace:
    """A callback that records residuals and the measurements of each iterate."""

    def __init__(self, measure: Callable[[FixedRank], Mapping[str, float]]) -> None:
        self._measure = measure
        self._rows: list[dict[str, float]] = []

    def __call__(self, problem: Problem, state: Any, clock: Any) -> None:
        row = {"iteration": state.iteration, "seconds": clock.seconds, "residual": state.residual}
        self._rows.append(row | dict(self._measure(state.X)))

    def columns(self) -> dict[str, list[Any]]:
        """The columns with values, rounded to six digits."""
        present = dict.fromkeys(name for row in self._rows for name in row)
        return {name: [_short(row.get(name)) for row in self._rows] for name in present}


def _short(value: float | None) -> float | int | None:
    if value is None or isinstance(value, (int, np.integer)):
        return None if value is None else int(value)
    return float(f"{value:.6g}")


@dataclass(frozen=True)
class PlannedIterations(Rule):
    """A fixed number of iterations counts as success, for experiments that compare curves."""

    number: int

    def check(self, problem: Problem, state: Any, history: Any, clock: Any) -> Status | None:
        if state.iteration < self.number:
            return None
        return Status("done", advice=f"Completed {self.number} iterations.", success=True)
