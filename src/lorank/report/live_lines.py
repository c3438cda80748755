"""Progress of several solvers: one line each, updated in place on a terminal, printed one after another elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..loop.callbacks import TruthError
from .recorded_runs import Run

REDRAW = 0.1  # seconds between two updates on a terminal
REPEAT = 5.0  # seconds between two lines elsewhere


class PlainLines:
    """Progress for logs and pipes: a line every few seconds and one at the end of each run."""

    interval = REPEAT

    def __init__(self, console: Any) -> None:
        self._console = console

    def watch(self, solver: str) -> Callable[[TruthError], None]:
        """The callback for the iterations of a solver."""
        last = time.monotonic()

        def show(trace: TruthError) -> None:
            nonlocal last
            if time.monotonic() - last >= self.interval:
                last = time.monotonic()
                self.show(solver, trace.iteration[-1], trace.error[-1], trace.seconds[-1], "")

        return show

    def done(self, run: Run) -> None:
        """Show the end of a run."""
        self.show(run.solver, run.n_iter, run.final, run.time, run.outcome)

    def show(self, solver: str, iteration: int, error: float, seconds: float, outcome: str) -> None:
        line = f"{solver:<8} iteration {iteration:>4}  relative error {error:.1e}  {seconds:>5.1f} s  {outcome}"
        self._console.print(line.rstrip(), markup=False, soft_wrap=True)


class LiveLines(PlainLines):
    """Progress bars on a terminal, drawn by the callbacks while the solver's timer is paused, not by a thread."""

    interval = REDRAW

    def __init__(self, solvers: Sequence[str], tol: float, console: Any) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__(console)
        self._tol = tol
        self.bars = Progress(
            TextColumn("{task.description:<8}"),
            BarColumn(bar_width=12, complete_style="cyan", finished_style="green"),
            TextColumn("{task.fields[state]}"),
            console=console,
            auto_refresh=False,
        )
        self._tasks = {name: self.bars.add_task(name, total=1.0, state="") for name in solvers}

    def show(self, solver: str, iteration: int, error: float, seconds: float, outcome: str) -> None:
        state = f"iteration {iteration:>4}  error {error:.1e}  {seconds:>5.1f} s  {outcome}"
        # The bar is the share of the decimal digits that are reached.
        share = min(max(math.log(error) / math.log(self._tol), 0.0), 1.0) if error > 0 else float(error == 0)
        self.bars.update(self._tasks[solver], completed=share, state=state, refresh=True)


@contextmanager
def follow(solvers: Sequence[str], tol: float, console: Any) -> Iterator[PlainLines]:
    """Lines for these solvers on a rich console."""
    if console.is_terminal and not console.is_dumb_terminal:
        lines = LiveLines(solvers, tol, console)
        with lines.bars:
            yield lines
    else:
        yield PlainLines(console)
