"""Watching solvers at work: one line each, redrawn in place on a terminal, written one after the other elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ..loop.callbacks import TruthError
from .recorded_runs import Run

REDRAW = 0.1  # seconds between two pictures on a terminal
REPEAT = 5.0  # and between two lines elsewhere

Watch = Callable[[TruthError], None]


class Lines(Protocol):
    """One line for each solver."""

    def watch(self, solver: str) -> Watch:
        """What to call in each iteration of that solver."""
        ...

    def done(self, run: Run) -> None:
        """The solver has ended."""
        ...


@contextmanager
def follow(solvers: Sequence[str], tol: float, console: Any) -> Iterator[Lines]:
    """Lines for these solvers on that rich console."""
    if console.is_terminal and not console.is_dumb_terminal:
        with LiveLines(solvers, tol, console) as lines:
            yield lines
    else:
        yield PlainLines(console)


class PlainLines:
    """For logs and pipes: a line every few seconds and one at the end."""

    def __init__(self, console: Any) -> None:
        self._console = console

    def watch(self, solver: str) -> Watch:
        last = time.monotonic()

        def show(trace: TruthError) -> None:
            nonlocal last
            if time.monotonic() - last >= REPEAT:
                last = time.monotonic()
                self._print(solver, trace.iteration[-1], trace.error[-1], trace.seconds[-1], "")

        return show

    def done(self, run: Run) -> None:
        self._print(run.solver, run.n_iter, run.final, run.time, _ending(run))

    def _print(self, solver: str, iteration: int, error: float, seconds: float, ending: str) -> None:
        line = f"{solver:<8} iteration {iteration:>4}  relative error {error:.1e}  {seconds:>5.1f} s  {ending}"
        self._console.print(line.rstrip(), markup=False, soft_wrap=True)


class LiveLines:
    """For a terminal. Redrawn from the callbacks, while the solvers' clock stands still, and not by a thread beside them."""

    def __init__(self, solvers: Sequence[str], tol: float, console: Any) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._tol = tol
        self._progress = Progress(
            TextColumn("{task.description:<8}"),
            BarColumn(bar_width=12, complete_style="cyan", finished_style="green"),
            TextColumn("{task.fields[state]}"),
            console=console,
            auto_refresh=False,
        )
        self._tasks = {name: self._progress.add_task(name, total=1.0, state="") for name in solvers}

    def __enter__(self) -> LiveLines:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def watch(self, solver: str) -> Watch:
        last = -math.inf

        def show(trace: TruthError) -> None:
            nonlocal last
            if time.monotonic() - last < REDRAW:
                return
            last = time.monotonic()
            self._update(solver, trace.iteration[-1], trace.error[-1], trace.seconds[-1], "")

        return show

    def done(self, run: Run) -> None:
        self._update(run.solver, run.n_iter, run.final, run.time, _ending(run))

    def _update(self, solver: str, iteration: int, error: float, seconds: float, ending: str) -> None:
        state = f"iteration {iteration:>4}  error {error:.1e}  {seconds:>5.1f} s  {ending}"
        self._progress.update(self._tasks[solver], completed=self._digits(error), state=state, refresh=True)

    def _digits(self, error: float) -> float:
        """The share of the decimal digits that are won."""
        return min(max(math.log(error) / math.log(self._tol), 0.0), 1.0) if error > 0 else float(error == 0)


def _ending(run: Run) -> str:
    if run.reached:
        return "reached"
    return "interrupted" if run.status == "interrupted" else f"not reached ({run.status})"
