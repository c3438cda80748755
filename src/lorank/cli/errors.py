"""Errors and notes of the command line: one line on standard error each, and an exit code."""

from __future__ import annotations

import contextlib
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..common.checks import ParameterError

REFUSED, MISUSED, INTERRUPTED = 1, 2, 130  # exit codes: a file or its data; an option; Ctrl-C

# Options by the names of the library's parameters. Array parameters (rows, values, ...) are data, not options.
OPTIONS = {
    "by": "--order-by",
    "coverage": "--interval",
    "folder": "--partitions-dir",
    "max_memory": "--max-memory",
    "n": "-n",
    "random_state": "--seed",
    "share": "--holdout",
}
SAME_NAME = ("cluster", "device", "duplicates", "host", "loss", "rank", "refine", "regularization", "seed", "time")
OPTIONS |= {name: f"--{name}" for name in SAME_NAME}

_verbosity = {-1: False, 1: False}  # --quiet and --verbose, as the command that runs was called


class Outcome(NamedTuple):
    """Result of a command: numbers for JSON, text for the terminal, and the exit code."""

    summary: dict[str, Any]
    text: str
    code: int = 0


class UsageError(ValueError):
    """An invalid option, or options that exclude each other."""


def set_verbosity(level: int, on: bool) -> bool:
    """Record ``--quiet`` (-1) or ``--verbose`` (1)."""
    _verbosity[level] = on
    return on


def is_quiet() -> bool:
    """Whether notes and progress are left out."""
    return _verbosity[-1]


@contextlib.contextmanager
def cli_errors() -> Iterator[None]:
    """Print errors, warnings (each once) and Ctrl-C as lines on standard error; end with an exit code.

    A ParameterError whose parameter is set by an option is reported under the name of the option.
    """
    import typer

    seen: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        if str(message) not in seen:
            seen.add(str(message))
            print_note(f"note: {message}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield
    except KeyboardInterrupt:
        print_error("interrupted: no file was written")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # the reader of a pipe, such as head, has enough: typer ends the command
        raise
    except (ValueError, ImportError, MemoryError, OSError) as error:
        if _verbosity[1]:
            traceback.print_exc()
        line, code = _line_and_code(error)
        print_error(line)
        raise typer.Exit(code) from None


def _line_and_code(error: Exception) -> tuple[str, int]:
    if isinstance(error, ModuleNotFoundError):
        return f'this needs {error.name}: pip install "lorank[files]"', REFUSED
    if isinstance(error, ParameterError) and error.name in OPTIONS:
        return f"{OPTIONS[error.name]} {error.text}", MISUSED
    return str(error) or type(error).__name__, MISUSED if isinstance(error, UsageError) else REFUSED


def print_error(line: str) -> None:
    """Print a line to standard error."""
    print(f"lorank: {line}", file=sys.stderr)


def print_note(line: str) -> None:
    """Print a line to standard error, unless ``--quiet`` was given."""
    if not is_quiet():
        print_error(line)


def join_or(words: Sequence[str]) -> str:
    """``a, b or c``."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
