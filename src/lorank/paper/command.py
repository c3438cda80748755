"""``lorank reproduce``: run the experiments, then write tables, figures and the page."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.timer import Timer
from ..experiments import SCALES
from ..experiments.process_pool import run_in_pool
from ..experiments.progress import follow
from ..experiments.runner import Runner, run_experiment
from ..experiments.single_process import warm_up
from ..experiments.store import Store
from ..experiments.tables import stored, tables, write_csv
from ..io.archive import FileError
from . import EXPERIMENTS, load

REFUSED, BAD_INPUT, INTERRUPTED = 1, 2, 130


@dataclass(frozen=True)
class Request:
    """Options of the command."""

    names: tuple[str, ...] = ("all",)
    scale: str = "quick"
    out: Path = Path("lorank-reproduction")
    threads: int = 1
    only_render: bool = False
    show: bool = False
    jobs: int = 1

    def chosen(self) -> list[str]:
        """The experiments, each once, in the order given; a ValueError names the first unknown one."""
        chosen = list(EXPERIMENTS) if "all" in self.names else list(dict.fromkeys(self.names))
        for name in chosen:
            load(name)
        return chosen

    def check(self) -> None:
        """Raise a ValueError that names the first invalid option."""
        for wrong, message in (
            (self.scale not in SCALES, f"--scale must be quick or paper, got {self.scale}"),
            (self.threads < 1, f"--threads must be at least 1, got {self.threads}"),
            (self.jobs < 1, f"--jobs must be at least 1, got {self.jobs}"),
            (self.out.exists() and not self.out.is_dir(), f"--out must be a folder: {self.out} is a file"),
            (
                self.only_render and not (self.out / "runs").is_dir(),
                f"no runs in {self.out}: run some experiments first",
            ),
        ):
            if wrong:
                raise ValueError(message)

    def again(self) -> str:
        """The command that resumes an interrupted call."""
        options = "".join(f" --{name} {value}" for name in ("threads", "jobs") if (value := getattr(self, name)) != 1)
        return f"lorank reproduce {' '.join(self.names)} --scale {self.scale} --out {shlex.quote(str(self.out))}{options}"


def run_reproduce(request: Request) -> int:
    """Run the command and return its exit status. Paths of results go to stdout, progress and errors to stderr."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)

    def say(kind: str, message: object, style: str) -> None:
        console.print(f"{kind}: {message}", style=style, markup=False, soft_wrap=True)

    try:
        chosen = request.chosen()
        if request.show:
            for name in chosen:
                print(f"{name:<24} {load(name).title}")
            return 0
        request.check()
        if not request.only_render:
            reproduce(chosen, request.scale, request.out, threads=request.threads, jobs=request.jobs, console=console)
        for path in render(request.out):
            print(path)
    except KeyboardInterrupt:
        say("interrupted", f"finished runs are stored; resume with: {request.again()}", "yellow")
        return INTERRUPTED
    except MemoryError:
        say("error", f"not enough memory; finished runs are stored. Resume with: {request.again()}", "red")
        return BAD_INPUT
    except (ValueError, OSError) as error:
        say("error", error, "red")
        return REFUSED if isinstance(error, (OSError, FileError)) else BAD_INPUT
    return 0


def reproduce(names: Sequence[str], scale: str, out: Path, *, threads: int = 1, jobs: int = 1, console: Any) -> None:
    """Run experiments. Those whose data are missing are skipped with a note.

    Parameters
    ----------
    names : sequence of str
    scale : {"tiny", "quick", "paper"}
    out : Path
        A folder. Runs stored there by an earlier call at the same scale are not repeated.
    threads : int
        Threads of the kernels and of BLAS. With one thread times are CPU times, as in the paper, otherwise wall times.
    jobs : int
        Number of processes, each with that many threads.
    console : rich.console.Console
        For progress and notes.
    """
    stored(out, list(EXPERIMENTS), scale)  # refuses a folder of another scale
    possible = []
    for name in names:
        reason = load(name).missing(scale)
        if reason:
            console.print(f"{name}: skipped, {reason}", style="yellow", markup=False, soft_wrap=True)
        else:
            possible.append(name)
    run = _process_pool if jobs > 1 else _single_process
    try:
        run(possible, scale, out, threads, jobs, console)
    finally:
        if (out / "runs").is_dir():
            write_csv(out, stored(out, list(EXPERIMENTS)))


def _single_process(names: Sequence[str], scale: str, out: Path, threads: int, jobs: int, console: Any) -> None:
    from threadpoolctl import threadpool_limits

    warm_up()  # also loads the libraries whose threads are limited next
    clock = Timer.by(time.thread_time if threads == 1 else time.perf_counter)
    with threadpool_limits(threads), clock:
        for count, name in enumerate(names, 1):
            title = name if len(names) == 1 else f"{name} ({count} of {len(names)})"
            with follow(title, console) as progress:
                run_experiment(load(name), out / "runs" / f"{name}.jsonl", scale, threads=threads, progress=progress)


def _process_pool(names: Sequence[str], scale: str, out: Path, threads: int, jobs: int, console: Any) -> None:
    """Run all experiments in one pool, so that the last runs of one do not leave processes idle."""
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(Store(out / "runs" / f"{name}.jsonl", name, scale)) for name in names]
        runners = [Runner(load(name), scale, store, threads) for name, store in zip(names, stores, strict=True)]
        progress = stack.enter_context(follow(f"{len(names)} experiments", console))
        run_in_pool(runners, jobs, progress, threads)


def render(out: Path) -> list[Path]:
    """Write tables, figures and the page from the stored runs."""
    from .page import write_page
    from .plot_png import draw_all

    records = stored(out, list(EXPERIMENTS))
    found = tables(records)
    return [*write_csv(out, records), *draw_all(found, out), write_page(found, out)]
