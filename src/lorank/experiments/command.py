"""``lorank bench``, and the errors of commands that run experiments."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from ..io.archive import FileError
from .bench import load_file, run
from .progress import follow

REFUSED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def run_bench(file: Path, out: Path | None, threads: int, jobs: int, formats: str) -> int:
    """Run the experiments of a file; returns the exit status."""
    folder = out or Path(f"{file.stem}-results")
    again = f"lorank bench {shlex.quote(str(file))} --out {shlex.quote(str(folder))}"

    def action(console: Any) -> Iterable[Path]:
        check_numbers(threads=threads, jobs=jobs)
        show: Any = partial(follow, console=console)
        return run(load_file(file), folder, jobs=jobs, threads=threads, formats=formats.split(","), progress=show).files

    return run_command(action, again)


def check_numbers(**numbers: int) -> None:
    """Raise a ValueError that names the first option that is below 1."""
    for name, value in numbers.items():
        if value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}")


def run_command(action: Callable[[Any], Iterable[object]], again: str) -> int:
    """Print what an action returns, mostly paths, or its error, and return the exit status. Progress and errors go to stderr.

    Parameters
    ----------
    action : callable
        Takes a rich console.
    again : str
        The command that resumes an interrupted call.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)

    def say(kind: str, message: object, style: str) -> None:
        console.print(f"{kind}: {message}", style=style, markup=False, soft_wrap=True)

    try:
        for path in action(console):
            print(path)
    except KeyboardInterrupt:
        say("interrupted", f"finished runs are stored; resume with: {again}", "yellow")
        return INTERRUPTED
    except MemoryError:
        say("lorank", f"not enough memory; finished runs are stored. Resume with: {again}", "red")
        return BAD_INPUT
    except BrokenPipeError:  # the reader of a pipe, such as head, has enough: typer ends the command
        raise
    except (ValueError, OSError, RuntimeError) as error:
        say("lorank", error, "red")
        return REFUSED if isinstance(error, (OSError, FileError)) else BAD_INPUT
    return 0
