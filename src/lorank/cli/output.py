"""What the commands share: errors for people, JSON for programs, places for files, and how things are going."""

from __future__ import annotations

import contextlib
import glob
import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted, did_you_mean

REFUSED, MISUSED, INTERRUPTED = 1, 2, 130  # exit codes: a file or its data; an option; Ctrl-C

# What the options are called in Python: messages come from there.
OPTIONS = {
    "coverage": "--interval",
    "share": "--holdout",
    "n": "-n",
    "rows": "--row",
    "cols": "--col",
    "values": "--value",
    "random_state": "--seed",
    "row_features": "--row-features",
    "col_features": "--col-features",
}
SAME = ("by", "cluster", "device", "duplicates", "folder", "loss", "memory", "rank", "refine", "regularization", "seed", "time")
OPTIONS |= {name: f"--{name}" for name in SAME}
# With underscores they are no words that a message would have otherwise, but for names of files and columns
NAMES = re.compile(rf"(?<![\w./\\'\"-])(?<!\w\()({'|'.join(name for name in OPTIONS if '_' in name)})(?![\w/\\'\"-]|\.\w)")
MODEL = (".lorank",)
TABLE = (".csv", ".tsv", ".parquet")
PAGE = (".html", ".htm")
OTHERS = (".xlsx", ".xls", ".ods", ".json", ".pkl", ".pickle", ".npz", ".npy", ".h5", ".feather", ".pdf", ".png", ".zip")


ENDINGS = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")  # of files of ratings that may be many


class Misuse(ValueError):
    """An option that is wrong, or does not go with another."""


@contextlib.contextmanager
def for_people() -> Iterator[None]:
    """Turn what a person can mend, and Ctrl-C, into a line on stderr and an exit code; show warnings as lines too."""
    import typer

    def show(message: Any, *ignored: Any, **also: Any) -> None:
        tell(f"note: {in_options(str(message))}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield
    except KeyboardInterrupt:
        tell("interrupted: no file was written")
        raise typer.Exit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        tell(f'this needs {error.name}: pip install "lorank[files]"')
        raise typer.Exit(REFUSED) from None
    except (ValueError, ImportError, MemoryError, OSError) as error:
        said = in_options(str(error) or type(error).__name__)
        tell(NAMES.sub(lambda found: OPTIONS[found[1]], said))
        option = re.match(r"--?\w", said) is not None  # "-" alone is a file
        raise typer.Exit(MISUSED if isinstance(error, Misuse) or option else REFUSED) from None


def tell(line: str) -> None:
    """A line on stderr."""
    print(f"lorank: {line}", file=sys.stderr)


def in_options(text: str) -> str:
    """A message of the library in the words of the command line: ``loss='robust'`` is ``--loss robust`` there.

    >>> in_options("coverage must lie between 0 and 1, got 2.0")
    '--interval must lie between 0 and 1, got 2.0'
    >>> in_options("use loss='robust', or regularization=1.5")
    'use --loss robust, or --regularization 1.5'
    >>> in_options("in Python, MatrixCompletion(loss='robust')")
    "in Python, MatrixCompletion(loss='robust')"
    """
    names, here = "|".join(OPTIONS), r"(?<![\w/\\])(?<!\w\()"  # not in names of files, nor in calls, which are Python
    text = re.sub(rf"^(?:\w+: )?({names}) must ", lambda found: f"{OPTIONS[found[1]]} must ", text)
    text = re.sub(rf"{here}({names})=(['\"])(.*?)\2", lambda found: f"{OPTIONS[found[1]]} {found[3]}", text)
    return re.sub(rf"{here}({names})=([\w.]*\w)?", lambda found: f"{OPTIONS[found[1]]} {found[2] or ''}".rstrip(), text)


@contextlib.contextmanager
def busy(text: str) -> Iterator[Callable[[str], None]]:
    """Say what is going on, on stderr, and how long it took; gives a function that says how far it has come."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console, begin = Console(stderr=True), time.perf_counter()
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=None)
        yield lambda more: progress.update(task, description=f"{text}: {more}")
    console.print(f"{text}: {time.perf_counter() - begin:.1f} s", highlight=False, style="dim")


def say_columns(path: Any, columns: Any) -> None:
    """Which columns of a file were taken for what."""
    values = "" if columns.value is None else f", values from {columns.value!r}"
    times = "" if columns.time is None else f", times from {columns.time!r}"
    tell(f"{path}: rows from {columns.row!r}, columns from {columns.col!r}{values}{times}")


def check_place(path: Path | None, endings: Sequence[str], what: str, option: str = "-o") -> None:
    """Refuse a place for a file before any work is done: a folder that is not there, or a name that promises another kind.

    Parameters
    ----------
    path : path or None
    endings : sequence of str
        What its name may end in. A model may be called anything that is no other kind of file.
    what : str
        What is written there.
    option : str
    """
    if path is None:
        return
    if not path.name:
        raise Misuse(f"{option} {path} is a folder: name a file in it, such as {path / ('out' + endings[0])}")
    if not path.absolute().parent.is_dir():
        raise Misuse(f"{option} {path}: there is no folder {path.absolute().parent}")
    name = path.name.lower()
    other = tuple(one for one in (*MODEL, *TABLE, *PAGE, *OTHERS) if one not in endings)
    wrong = name.endswith(other) if endings == MODEL else not name.endswith(tuple(endings))
    if wrong:
        excel = ", which Excel opens" if name.endswith((".xlsx", ".xls", ".ods")) and ".csv" in endings else ""
        better = path.with_suffix(endings[0])
        raise Misuse(f"{option} {path}: {what} is written to a file that ends in {_or(endings)}, such as {better}{excel}")
    if path.is_dir() and not name.endswith(".parquet"):
        raise Misuse(f"{option} {path} is a folder: name a file in it, such as {path / ('out' + endings[0])}")


def check_device(device: str | None) -> None:
    """Refuse a device that this machine has not, with those it has."""
    from ..backends import device_backend

    if device is None:
        return
    try:
        device_backend(device)
    except ValueError as error:
        try:
            import torch
        except ImportError:
            raise Misuse(f"--device {device}: {error}. Without --device the fit needs no PyTorch") from None
        there = ["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count() if torch.cuda.is_available() else 0))]
        hint = "" if len(there) > 1 else " (PyTorch sees no GPU: lorank doctor says more)"
        raise Misuse(f"--device must be {_or(there)} on this machine, got {device!r}{hint}") from None


def only_one(files: list[Path], command: str) -> Path:
    """The file, where a command takes one: the shell makes several of a pattern."""
    if len(files) > 1:
        raise Misuse(f"{command} takes one file, got {len(files)}, from {files[0]} to {files[-1]}: join them first")
    return files[0]


def all_files(paths: list[str]) -> list[Path]:
    """The files that were named one by one, by a pattern, or by their folder; a single one as it is named."""
    from ..distributed.sources import find_files
    from ..io.archive import FileError

    if len(paths) == 1 and not Path(paths[0]).is_dir() and (Path(paths[0]).exists() or not glob.has_magic(paths[0])):
        return [Path(paths[0])]
    found = find_files(paths, ENDINGS)
    twice = [file for file in found if found.count(file) > 1] if len(paths) > 1 else []
    if twice:
        raise FileError(f"{twice[0]} is named twice: name it once")
    kinds = {file.name.removesuffix(".gz").rpartition(".")[2] for file in found}
    if len(kinds) > 1:
        raise FileError(
            f"{named(paths)}: files of different kinds ({', '.join(sorted(kinds))}): name those of one, as in "
            "'folder/*.parquet'"
        )
    return found


def named(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else f"{files[0]} and {counted(len(files) - 1, 'other')}"


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


def as_typed(text: str) -> str:
    """An argument in UTF-8, also where the locale is another one and Python could not read its bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def word(text: str, words: Sequence[str], option: str) -> str:
    """One of some words."""
    if text not in words:
        raise Misuse(f"{option} must be {_or(words)}, got {text!r}{did_you_mean(text, words)}")
    return text


def whole_or(text: str, words: tuple[str, ...], name: str) -> int | str:
    """A whole number or one of some words."""
    if text in words:
        return text
    if not text.isdigit():
        raise Misuse(f"--{name} must be a whole number or {_or(words)}, got {text!r}{did_you_mean(text, words)}")
    return int(text)


def number_or(text: str, words: tuple[str, ...], name: str) -> float | str:
    """A number or one of some words."""
    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise Misuse(f"--{name} must be a number or {_or(words)}, got {text!r}{did_you_mean(text, words)}") from None


def _or(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
