"""Progress of experiments: finished jobs, and an estimate of the remaining time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

REDRAW = 0.5  # seconds between two updates on a terminal

Cost = tuple[str, float, float]  # kind of a job, its size, and its maximum time in seconds


class Estimate:
    """Expected time of the remaining jobs, from the time per unit of size of similar jobs."""

    def __init__(self) -> None:
        self._done: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._left: list[Cost] = []

    def expect(self, cost: Cost) -> None:
        self._left.append(cost)

    def done(self, cost: Cost, seconds: float | None) -> None:
        """Record the time of a finished job; None for a skipped one."""
        if cost in self._left:
            self._left.remove(cost)
        if seconds is not None:
            self._done[cost[0]].append((cost[1], seconds))

    def one(self, cost: Cost) -> float | None:
        """The expected time of a job, from jobs of its kind of the nearest size, else from all jobs; None without any."""
        kind, size, most = cost
        known = self._done.get(kind) or [entry for entries in self._done.values() for entry in entries]
        if not known:
            return None
        near = min(abs(other / size - 1) for other, _ in known)
        rates = [seconds / other for other, seconds in known if abs(other / size - 1) <= near * (1 + 1e-9)]
        return min(size * sum(rates) / len(rates), most)

    def left(self) -> float | None:
        """The expected time of all remaining jobs; None where one of them is unknown."""
        known = [seconds for cost in self._left if (seconds := self.one(cost)) is not None]
        return sum(known) if len(known) == len(self._left) else None


class Progress:
    """Progress for logs and pipes: a line per finished job."""

    def __init__(self, name: str, say: Callable[[str], object] = print) -> None:
        self.name, self.say = name, say
        self.estimate = Estimate()
        self.count = self.total = 0
        self.workers = 1  # processes that share the remaining jobs

    def begin(self, jobs: Sequence[tuple[Cost, float | None]]) -> None:
        """Start with all jobs; those that are stored have their time in seconds."""
        self.total = len(jobs)
        self.count = sum(seconds is not None for _, seconds in jobs)
        for cost, seconds in jobs:
            if seconds is None:
                self.estimate.expect(cost)
            else:
                self.estimate.done(cost, seconds)
        self.note(f"{self.total} runs" + (f", {self.count} of them stored" if self.count else ""))

    def start(self, label: str) -> None:
        self.label = label

    def watch(self, problem: Any, state: Any, clock: Any) -> None:
        """A callback for each iteration."""

    def end(self, cost: Cost, seconds: float, summary: str) -> None:
        self.count += 1
        self.estimate.done(cost, seconds)
        self.note(f"{self.count}/{self.total}  {self.label}: {summary}  [{self.time_left()}]")

    def skip(self, cost: Cost, message: str) -> None:
        self.count += 1
        self.estimate.done(cost, None)
        self.note(f"{self.count}/{self.total}  {message}")

    def note(self, text: str) -> None:
        self.say(f"{self.name}  {text}")

    def time_left(self) -> str:
        seconds = self.estimate.left()
        return "time left unknown" if seconds is None else f"about {duration(seconds / self.workers)} left"


class LiveProgress(Progress):
    """Progress on a terminal: a bar below the lines, drawn by the callbacks while the solver's timer is paused."""

    def __init__(self, name: str, console: Any) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        super().__init__(name, partial(console.print, markup=False, soft_wrap=True))
        text = "{task.completed:.0f}/{task.total:.0f}  {task.fields[state]}"
        columns = TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn(text)
        self.bars = Bars(*columns, console=console, auto_refresh=False, transient=True)
        self._task = self.bars.add_task(name, total=0, state="")
        self._last = 0.0

    def begin(self, jobs: Sequence[tuple[Cost, float | None]]) -> None:
        super().begin(jobs)
        self.bars.update(self._task, total=self.total, completed=self.count, refresh=True)

    def start(self, label: str) -> None:
        super().start(label)
        self._draw("")

    def watch(self, problem: Any, state: Any, clock: Any) -> None:
        if time.monotonic() - self._last >= REDRAW:
            self._draw(f"  iteration {state.iteration}, residual {state.residual:.1e}")

    def _draw(self, more: str) -> None:
        self._last = time.monotonic()
        self.bars.update(self._task, completed=self.count, state=f"{self.time_left()}  {self.label}{more}", refresh=True)


@contextmanager
def follow(name: str, console: Any) -> Iterator[Progress]:
    """Progress of an experiment on a rich console."""
    if console.is_terminal and not console.is_dumb_terminal:
        progress = LiveProgress(name, console)
        with progress.bars:
            yield progress
    else:
        yield Progress(name, partial(console.print, markup=False, soft_wrap=True))


def duration(seconds: float) -> str:
    """A time as text: 40 s, 12 min, 1 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
