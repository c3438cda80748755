"""What the commands share: errors for people, JSON for programs."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

BAD_INPUT = 2


@contextlib.contextmanager
def for_people() -> Iterator[None]:
    """Turn what a person can mend into one line on stderr and exit code 2; show warnings as lines too."""
    import typer

    def show(message: Any, *ignored: Any, **also: Any) -> None:
        print(f"lorank: note: {message}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield
    except ModuleNotFoundError as error:
        print(f'lorank: this needs {error.name}: pip install "lorank[files]"', file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None
    except (ValueError, ImportError, MemoryError, OSError) as error:
        print(f"lorank: {error or type(error).__name__}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None


@contextlib.contextmanager
def busy(text: str) -> Iterator[None]:
    """Say what is going on, on stderr, and how long it took."""
    from rich.console import Console

    console, begin = Console(stderr=True), time.perf_counter()
    with console.status(text):
        yield
    console.print(f"{text}: {time.perf_counter() - begin:.1f} s", highlight=False, style="dim")


def show_json(content: dict[str, Any]) -> None:
    print(json.dumps(plain(content), indent=1))


def plain(value: Any) -> Any:
    """As JSON takes it; what is not a number becomes null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def table(columns: list[str], rows: list[list[Any]]) -> None:
    """Columns on stdout."""
    cells = [[str(c) for c in row] for row in [columns, *rows]]
    widths = [max(len(row[k]) for row in cells) for k in range(len(columns))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def whole_or(text: str, words: tuple[str, ...], name: str) -> int | str:
    """A whole number or one of some words."""
    if text in words:
        return text
    if not text.isdigit():
        raise ValueError(f"--{name} must be a whole number or {' or '.join(words)}, got {text!r}")
    return int(text)


def number_or(text: str, words: tuple[str, ...], name: str) -> float | str:
    """A number or one of some words."""
    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--{name} must be a number or {' or '.join(words)}, got {text!r}") from None
