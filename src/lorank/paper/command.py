"""``lorank reproduce``: run the experiments, then write tables, figures and the page."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..experiments import SCALES
from ..experiments.bench import execute
from ..experiments.command import check_numbers, run_command
from ..experiments.progress import follow
from ..experiments.tables import stored, tables, write_csv
from . import EXPERIMENTS, load


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
        if self.scale not in SCALES:
            raise ValueError(f"--scale must be quick or paper, got {self.scale}")
        check_numbers(threads=self.threads, jobs=self.jobs)
        if self.out.exists() and not self.out.is_dir():
            raise ValueError(f"--out must be a folder: {self.out} is a file")
        if self.only_render and not (self.out / "runs").is_dir():
            raise ValueError(f"no runs in {self.out}: run some experiments first")

    def again(self) -> str:
        """The command that resumes an interrupted call."""
        options = "".join(f" --{name} {value}" for name in ("threads", "jobs") if (value := getattr(self, name)) != 1)
        return f"lorank reproduce {' '.join(self.names)} --scale {self.scale} --out {shlex.quote(str(self.out))}{options}"


def run_reproduce(request: Request) -> int:
    """Run the command and return its exit status. Paths of results go to stdout, progress and errors to stderr."""

    def action(console: Any) -> Iterable[object]:
        chosen = request.chosen()
        if request.show:
            return [f"{name:<24} {load(name).title}" for name in chosen]
        request.check()
        if not request.only_render:
            reproduce(chosen, request.scale, request.out, threads=request.threads, jobs=request.jobs, console=console)
        return render(request.out)

    return run_command(action, request.again())


def reproduce(names: Sequence[str], scale: str, out: Path, *, threads: int = 1, jobs: int = 1, console: Any) -> None:
    """Run experiments; stored runs are not repeated. Experiments whose data are missing are skipped with a note.

    With one thread times are CPU times, as in the paper, otherwise wall times. ``console`` is a rich console.
    """
    stored(out, list(EXPERIMENTS), scale)  # refuses a folder of another scale
    possible = []
    for name in names:
        experiment = load(name)
        reason = experiment.missing(scale)
        if reason:
            console.print(f"{name}: skipped, {reason}", style="yellow", markup=False, soft_wrap=True)
        else:
            possible.append(experiment)
    try:
        execute(possible, out, scale, jobs=jobs, threads=threads, progress=partial(follow, console=console))
    finally:
        if (out / "runs").is_dir():
            records = stored(out, list(EXPERIMENTS))
            write_csv(out, records)
            console.print(spent(records), markup=False, soft_wrap=True)


def spent(records: Sequence[Mapping[str, Any]]) -> str:
    """CPU seconds of the stored runs by experiment, with tuning and instances, and of this call with everything else."""
    runs = Counter[str]()
    for record in records:
        runs[record["experiment"]] += record.get("cpu", 0.0)
    listed = ", ".join(f"{name} {seconds:.0f}" for name, seconds in runs.items())
    return f"CPU seconds: {sum(runs.values()):.0f} in runs ({listed}), {sum(os.times()[:4]):.0f} in this call"


def render(out: Path) -> list[Path]:
    """Write tables, figures and the page from the stored runs."""
    from .page import write_page
    from .panels import draw_all

    records = stored(out, list(EXPERIMENTS))
    found = tables(records)
    return [*write_csv(out, records), *draw_all(found, out), write_page(found, out)]
