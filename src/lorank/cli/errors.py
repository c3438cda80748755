"""Errors of the command line: one line on standard error and an exit code."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

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


class UsageError(ValueError):
    """An invalid option, or options that exclude each other."""


@contextlib.contextmanager
def cli_errors() -> Iterator[None]:
    """Print errors, warnings and Ctrl-C as lines on standard error; end with an exit code.

    A ParameterError whose parameter is set by an option is reported under the name of the option.
    """
    import typer

    def show(message: Any, *_: Any, **__: Any) -> None:
        print_error(f"note: {message}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield
    except KeyboardInterrupt:
        print_error("interrupted: no file was written")
        raise typer.Exit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        print_error(f'this needs {error.name}: pip install "lorank[files]"')
        raise typer.Exit(REFUSED) from None
    except UsageError as error:
        print_error(str(error))
        raise typer.Exit(MISUSED) from None
    except ParameterError as error:
        option = OPTIONS.get(error.name)
        print_error(str(error) if option is None else f"{option} {error.text}")
        raise typer.Exit(REFUSED if option is None else MISUSED) from None
    except (ValueError, ImportError, MemoryError, OSError) as error:
        print_error(str(error) or type(error).__name__)
        raise typer.Exit(REFUSED) from None


def print_error(line: str) -> None:
    """Print a line to standard error."""
    print(f"lorank: {line}", file=sys.stderr)
