"""Output of the commands: progress and results on the terminal, JSON, tables, checks of output paths."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..io.archive import FileError, atomic
from ..io.delimited_text import polars
from .errors import UsageError, is_quiet, join_or, print_note

MODEL = (".lorank",)
TABLE = (".csv", ".tsv", ".parquet")
PAGE = (".html", ".htm")


def show(outcome: Any, as_json: bool) -> None:
    """Print the numbers of an outcome as JSON or its text; exit with its code if that is not 0."""
    import typer

    if as_json:
        print_json(outcome.summary)
    elif outcome.text:
        print(outcome.text)
    if outcome.code:
        raise typer.Exit(outcome.code)


def check_output_path(path: Path | None, endings: Sequence[str], what: str, option: str = "-o") -> None:
    """Raise a UsageError if a file cannot be written at a path: missing folder, or the extension of another format.

    Parameters
    ----------
    path : path or None
        None is not checked.
    endings : sequence of str
        Allowed extensions.
    what : str
        Content of the file, for the message.
    option : str, default "-o"
        Option that set the path, for the message.
    """
    if path is None:
        return
    name, folder = path.name.lower(), path.absolute().parent
    if not name or (path.is_dir() and not name.endswith(".parquet")):
        raise UsageError(f"{option} {path} is a folder: name a file in it, such as {path / ('out' + endings[0])}")
    if not folder.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {folder}")
    if not name.endswith(tuple(endings)):
        excel = ", which Excel opens" if name.endswith((".xlsx", ".xls", ".ods")) and ".csv" in endings else ""
        raise UsageError(
            f"{option} {path}: the extension for {what} is {join_or(endings)}, as in {path.with_suffix(endings[0])}{excel}"
        )


@contextlib.contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show a running step on standard error, and its seconds at the end; yields a function that updates the text."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console, begin = Console(stderr=True, quiet=is_quiet()), time.perf_counter()
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=None)
        yield lambda more: bar.update(task, description=f"{text}: {more}")
    console.print(f"{text}: {time.perf_counter() - begin:.1f} s", highlight=False, style="dim")


def print_columns(path: Any, columns: Any) -> None:
    """Print which columns of a file are used, to standard error."""
    values = "" if columns.value is None else f", values from {columns.value!r}"
    times = "" if columns.time is None else f", times from {columns.time!r}"
    header = {None: "", True: "the first line is a header; ", False: "no header; "}[columns.header]
    print_note(f"{path}: {header}rows from {columns.row!r}, columns from {columns.col!r}{values}{times}")


def print_json(content: dict[str, Any]) -> None:
    """Print a JSON object."""
    print(json.dumps(json_ready(content), indent=1))


def json_ready(value: Any) -> Any:
    """The value in types of JSON; nan and inf become null."""
    if isinstance(value, dict):
        return {str(k): json_ready(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [json_ready(v) for v in value]
    if isinstance(value, np.generic):
        return json_ready(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


@contextlib.contextmanager
def table_writer(path: Path | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Write a table in blocks of rows; the file appears when all blocks are written.

    Parameters
    ----------
    path : path or None
        None: nothing is written.
        ``.csv`` or ``.tsv``: one file. ``.parquet``: a folder of files ``part-00000.parquet``, as Spark and Dask write it; it
        must not exist yet.

    Yields
    ------
    write : callable
        Takes the next rows, a dict from column names to arrays.
    """
    if path is None:
        yield lambda columns: None
        return
    suffix, count = path.suffix.lower(), 0
    if path.is_dir() or (path.exists() and suffix == ".parquet"):
        raise FileError(f"{path} exists: delete it, or choose another name")
    with atomic(path, folder=suffix == ".parquet") as temporary:

        def write(columns: dict[str, Any]) -> None:
            nonlocal count
            frame = polars().DataFrame(columns)
            if suffix == ".parquet":
                frame.write_parquet(temporary / f"part-{count:05d}.parquet")
            else:
                with open(temporary, "ab") as file:
                    frame.write_csv(file, include_header=not count, separator="\t" if suffix == ".tsv" else ",")
            count += 1

        yield write
