"""Scripted experiments whose runs cost nothing, for tests of the runner."""

from __future__ import annotations

import io
from dataclasses import dataclass

from lorank.experiments import Experiment, Instance, Method, Outcome, Point, bench
from lorank.paper import command


@dataclass(frozen=True)
class Setting:
    """A solver that does nothing."""

    name: str

    def __repr__(self) -> str:
        return self.name


class Scripted(Experiment):
    """A run is looked up: ``script(setting, seed)`` gives iterations, whether it got there, and the error or the status.

    Settings go by their names. The instance is its seed. ``made`` lists the runs that were made, in order.
    """

    name = "completion-size"
    title = "Made up"

    def __init__(self, points, script):
        self._points, self._script = points, script
        self.made = []
        self.instances = []

    def setting(self, solver):
        return solver.name

    def points(self, scale):
        return self._points

    def instance(self, point, seed):
        self.instances.append(seed)
        return Instance(None, 1, extra=seed)

    def run(self, point, instance, solver, *, max_iter, max_seconds, traced=False, callbacks=()):
        self.made.append((solver.name, instance.extra, max_iter))
        found = self._script(solver.name, instance.extra)
        iterations, reached = found.get("iterations", 10), found.get("reached", True)
        status = found.get("status", "recovered" if reached else "diverged")
        if iterations > max_iter:
            iterations, reached, status = max_iter, False, "max_iter"
        return Outcome(
            setting=repr(solver),
            iterations=iterations,
            seconds=0.1,
            residual=1e-5,
            status=status,
            reached=reached,
            capped=status in ("max_iter", "time"),
            error=found.get("error", 1e-4),
            trace={"iteration": [0, 1], "residual": [1.0, 0.5]} if traced else None,
        )


class Broken(Experiment):
    """Its only run raises an error."""

    name, title = "completion-size", "Broken"

    def points(self, scale):
        return [point([method("a")], seeds=(0,))]

    def instance(self, point, seed):
        raise ArithmeticError("this one cannot be solved")


def point(methods, **options) -> Point:
    """A point of a small completion problem."""
    params = options.pop("params", {"n1": 60, "n2": 60, "rank": 2, "oversampling": 5.0, "m": 1180})
    return Point(params, methods, **{"seeds": (0, 1), "max_iter": 100, **options})


def method(*grid, name="prgd") -> Method:
    return Method(name, tuple(map(Setting, grid)))


def console():
    """A rich console that keeps what it is told."""
    from rich.console import Console

    return Console(file=io.StringIO(), width=200, highlight=False)


def run(experiment, out, monkeypatch, scale="tiny") -> str:
    """All of it; what was said."""
    monkeypatch.setattr(command, "load", lambda name: experiment)
    monkeypatch.setattr(bench, "warm_up", lambda: None)
    screen = console()
    command.reproduce([experiment.name], scale, out, console=screen)
    return screen.file.getvalue()
