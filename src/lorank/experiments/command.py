"""``lorank reproduce``: experiments, then tables, figures and the page."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import SCALES, load, names
from .runner import reproduce
from .store import check_folder, write_tables

BAD_INPUT, INTERRUPTED = 2, 130


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    names: tuple[str, ...] = ("all",)
    scale: str = "quick"
    out: Path = Path("lorank-reproduction")
    threads: int = 1
    only_render: bool = False
    show: bool = False

    def chosen(self) -> list[str]:
        """The experiments, each once, in the order given; a ValueError names the first one that there is not."""
        if "all" in self.names:
            return names()
        for name in self.names:
            if name not in names():
                raise ValueError(f"unknown experiment {name!r}: choose from {', '.join(names())}, or all")
        return list(dict.fromkeys(self.names))

    def check(self) -> None:
        """Raise a ValueError that names the first option that cannot be."""
        for wrong, message in (
            (self.scale not in SCALES, f"--scale must be quick or paper, got {self.scale}"),
            (self.threads < 1, f"--threads must be at least 1, got {self.threads}"),
            (self.out.exists() and not self.out.is_dir(), f"--out must be a folder, and {self.out} is a file"),
            (
                self.only_render and not (self.out / "runs").is_dir(),
                f"nothing is stored in {self.out}: run some experiments first",
            ),
        ):
            if wrong:
                raise ValueError(message)

    def again(self) -> str:
        """The command that goes on where this one was cut off."""
        options = f" --threads {self.threads}" if self.threads != 1 else ""
        return f"lorank reproduce {' '.join(self.names)} --scale {self.scale} --out {shlex.quote(str(self.out))}{options}"


def run_reproduce(request: Request) -> int:
    """Do it and return the exit status. Progress, notes and errors go to stderr, the paths of what was made to stdout."""
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
        if request.only_render:
            check_folder(request.out, None)
        else:
            reproduce(chosen, request.scale, request.out, threads=request.threads, console=console)
        for path in render(request.out):
            print(path)
    except KeyboardInterrupt:
        say("interrupted", f"finished runs are kept; go on with: {request.again()}", "yellow")
        return INTERRUPTED
    except MemoryError:
        say("error", f"not enough memory; finished runs are kept. Go on with: {request.again()}", "red")
        return BAD_INPUT
    except (ValueError, OSError) as error:
        say("error", error, "red")
        return BAD_INPUT
    return 0


def render(out: Path) -> list[Any]:
    """Tables, figures and the page, from what is stored."""
    from .figures import draw_all
    from .page import write_page

    return [*write_tables(out), *draw_all(out), write_page(out)]
