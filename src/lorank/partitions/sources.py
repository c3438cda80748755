"""Observations from files or arrays too large to hold twice, piece by piece, as often as they are asked for."""

from __future__ import annotations

import csv
import glob
import gzip
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..files import FileError

CHUNK = 1 << 21  # observations at a time
LOOK = 10_000  # lines of text that say what a column holds


class Piece(NamedTuple):
    """Some observations: ids of rows and columns (whole numbers or text), values, weights, and where they come from."""

    rows: Any
    cols: Any
    values: np.ndarray
    weights: np.ndarray | None
    origin: str
    first: int  # the place of the first of them there


class Source(Protocol):
    """Observations that can be gone through more than once."""

    def pieces(self) -> Iterator[Piece]: ...


@dataclass(frozen=True)
class TableSource:
    """Parquet or CSV files with the same columns.

    Attributes
    ----------
    files : list of paths
    names : (row, col, value or None, weight or None)
        Columns; without one of values each line counts one.
    """

    files: list[Path]
    names: tuple[str, str, str | None, str | None]

    def check(self) -> None:
        """A FileError where a file lacks a column, has another kind of it than the first file, or cannot be read."""
        first: dict[str, Any] = {}
        for file in self.files:
            schema = schema_of(file, self.names[:2])
            for name, role in zip(self.names, ("rows", "cols", "values", "weights"), strict=True):
                if name is None:
                    continue
                if name not in schema:
                    known = ", ".join(map(repr, schema))
                    raise FileError(f"{file} has no column {name!r} (asked for with {role}=): its columns are {known}")
                kind = _kind(schema[name], role, name, file)
                if first.setdefault(name, (kind, file))[0] != kind:
                    before, other = first[name]
                    raise FileError(
                        f"{file} and {other} have different schemas: the column {name!r} is of {kind} in one and of {before} "
                        "in the other"
                    )

    def pieces(self) -> Iterator[Piece]:
        pl = polars()
        wanted = [name for name in self.names if name is not None]
        for file in self.files:
            at, ids = 0, self.names[:2]
            kinds = schema_of(file, ids)
            for frame in _filled(_scan(file, ids, self.names[2:]).select(wanted), file):
                frame = _as_kinds(frame, kinds, ids, file, at)
                columns = [self._column(pl, frame, name, k, file, at) for k, name in enumerate(self.names)]
                yield Piece(columns[0], columns[1], or_ones(columns[2], len(frame)), columns[3], str(file), at)
                at += len(frame)
            if not at:
                raise FileError(f"{file} is empty: leave it out")

    def _column(self, pl: Any, frame: Any, name: str | None, role: int, file: Path, at: int) -> Any:
        if name is None:
            return None
        series = frame.get_column(name)
        if role < 2:
            ids = series.cast(pl.Int64) if series.dtype.is_integer() and series.dtype != pl.UInt64 else series
            ids = ids.cast(pl.String) if not ids.dtype.is_integer() else ids
            bad = ids.is_null()
            if ids.dtype == pl.String and file.suffix != ".parquet":
                bad |= (ids.str.strip_chars() == "").fill_null(False)  # refused in memory, too
        else:
            ids = series.cast(pl.Float64)
            bad = ids.is_null() | ~ids.is_finite().fill_null(False)
        if bad.any():
            k = int(bad.arg_true()[0])
            raise FileError(f"{file}, row {at + k + 1}, column {name!r}: {series[k]!r} cannot be used")
        return ids if role < 2 else ids.to_numpy()


def or_ones(values: np.ndarray | None, count: int) -> np.ndarray:
    return np.ones(count) if values is None else values


def pair_batches(files: list[Path], row: str, col: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ids of rows and columns, whole numbers or text, some at a time."""
    pl = polars()
    source = TableSource(files, (row, col, row, None))
    for file in files:
        schema, at = schema_of(file, (row, col)), 0
        for name, role in ((row, "rows"), (col, "cols")):
            if name not in schema:
                raise FileError(f"{file} has no column {name!r}: its columns are {', '.join(map(repr, schema))}")
            _kind(schema[name], role, name, file)
        for frame in _filled(_scan(file, (row, col)).select([row, col]), file):
            frame = _as_kinds(frame, schema, (row, col), file, at)
            rows, cols = (source._column(pl, frame, name, k, file, at).to_numpy() for k, name in enumerate((row, col)))
            yield rows, cols
            at += len(frame)


def polars() -> Any:
    try:
        import polars as pl
    except ImportError:
        raise FileError('Parquet and CSV files need polars: pip install "lorank[files]"') from None
    return pl


def find_files(path: str | os.PathLike[str] | list[Any], endings: tuple[str, ...]) -> list[Path]:
    """The files that a path, a folder (also below it), a pattern or a list of them stand for, in the order of their names."""
    if isinstance(path, (list, tuple)):
        return [file for one in path for file in find_files(one, endings)]
    root = Path(path)
    if root.is_dir():
        found = sorted(f for f in root.rglob("*") if f.name.endswith(endings) and f.name[0] not in "._")
    elif root.exists():
        found = [root]
    else:
        found = sorted(Path(f) for f in glob.glob(str(path), recursive=True) if os.path.basename(f)[0] not in "._")
    if not found and not root.is_dir() and not glob.has_magic(str(path)):
        raise FileError(f"{path} does not exist")
    if not found:
        raise FileError(f"{path}: there are no files ending in {' or '.join(endings)}")
    return found


def schema_of(file: Path, ids: Sequence[str] = ()) -> dict[str, Any]:
    """Names and kinds of a file's columns. Ids in text are whole numbers only where the first of them are written as such."""
    pl = polars()
    try:
        lazy = _scan(file, ids)
        found = dict(lazy.collect_schema())
        texts = [] if file.suffix == ".parquet" else [name for name in dict.fromkeys(ids) if name in found]
        first: Any = lazy.select(texts).head(LOOK).collect() if texts else None
        return found | {name: pl.Int64 for name in texts if not _not_whole(first.get_column(name)).any()}
    except (pl.exceptions.PanicException, Exception) as error:
        raise FileError(f"{file} cannot be read: {str(error).splitlines()[0]}") from None


def _kind(dtype: Any, role: str, name: str, file: Path) -> str:
    if role in ("values", "weights"):
        if dtype.is_numeric() or str(dtype) == "Boolean":
            return "numbers"
        raise FileError(f"{file}, column {name!r}: holds {dtype}, not numbers")
    if dtype.is_integer():
        if str(dtype) == "UInt64" or str(dtype).endswith("128"):
            raise FileError(
                f"{file}, column {name!r}: {dtype} does not fit into 64 bits with a sign: cast it to Int64 or to text"
            )
        return "whole numbers"
    if str(dtype).startswith(("String", "Categorical", "Enum")):
        return "text"
    raise FileError(f"{file}, column {name!r}: ids must be whole numbers or text, not {dtype}")


def _scan(file: Path, ids: Sequence[str] = (), numbers: Sequence[str | None] = ()) -> Any:
    """The file, with ids as they are written: numbers that polars would make of them have lost their zeros in front. Values
    that are whole in the first lines may have fractions below.
    """
    pl = polars()
    if file.suffix == ".parquet":
        return pl.scan_parquet(file, glob=False)
    separator, start = _layout(file)
    named = not all(map(_is_number, start))
    options = {"separator": separator, "has_header": named, "infer_schema_length": LOOK, "glob": False}
    if named and not any(numbers):
        return pl.scan_csv(file, schema_overrides=dict.fromkeys(ids, pl.String), **options)
    first = dict(pl.scan_csv(file, **options).collect_schema())
    calls = {old: old if named else f"column_{k + 1}" for k, old in enumerate(first)}  # which differ from version to version
    kinds = {old: pl.Float64 for old, new in calls.items() if new in numbers and first[old].is_integer()}
    kinds |= {old: pl.String for old, new in calls.items() if new in ids}
    return pl.scan_csv(file, schema_overrides=kinds, **options).rename(calls)


def _text(file: Path) -> Any:
    """The file, opened for reading text."""
    opened: Any = gzip.open if file.suffix == ".gz" else open
    return opened(file, "rt", encoding="utf-8-sig", errors="replace", newline="")


def _layout(file: Path) -> tuple[str, list[str]]:
    """What separates cells, and those of the first line that is not empty."""
    with _text(file) as opened:
        start = opened.readline(1 << 16)
        while start in ("\n", "\r\n"):
            start = opened.readline(1 << 16)
    separator = max(",;\t|", key=start.count)
    separator = "\t" if {".tsv", ".tab"} & set(file.suffixes) else separator
    return separator, next(csv.reader([start.strip()], delimiter=separator), [""])


def _filled(lazy: Any, file: Path) -> Iterator[Any]:
    """The batches that hold something, without the empty lines of text, which polars takes for rows of nothing."""
    pl, only_lines = polars(), None
    nothing = pl.all_horizontal(pl.all().is_null())
    for frame in _batches(lazy, file):
        empty = None if file.suffix == ".parquet" else frame.select(nothing).to_series()
        if empty is not None and empty.any():
            if only_lines is None:
                names, count = lazy.collect_schema().names(), lazy.select(nothing.sum()).collect().item()
                only_lines = _empty_lines(file) == count or _lines_alone(file, names)
            frame = frame.filter(~empty) if only_lines else frame
        if len(frame):
            yield frame


def _empty_lines(file: Path) -> int:
    """Below the first line that is not empty; -1 in a file with quotes, within which they would be part of an id."""
    count, last = 0, b""
    with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as opened:
        while chunk := opened.read(1 << 24):
            if b'"' in chunk:
                return -1
            chunk = chunk.replace(b"\r", b"")
            ends = np.frombuffer(last + chunk if last else chunk.lstrip(b"\n"), np.uint8) == ord("\n")
            count += int((ends[1:] & ends[:-1]).sum())
            last = chunk[-1:] or last
    return count


def _lines_alone(file: Path, wanted: Sequence[str]) -> bool:
    """Whether no line lacks all that is wanted but those that are empty: a line of separators is refused, as in memory."""
    separator, first = _layout(file)
    names = [f"column_{k + 1}" for k in range(len(first))] if all(map(_is_number, first)) else first
    places = [names.index(name) for name in wanted if name in names]
    with _text(file) as opened:
        records = csv.reader(opened, delimiter=separator)
        return all(any(k < len(one) and one[k] for k in places) for one in records if one)


def _is_number(cell: str) -> bool:
    """Whether a cell of the first line is data, as in files without names."""
    try:
        return "_" not in cell and bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _not_whole(ids: Any) -> Any:
    """Which ids, as text, are no whole numbers as one would write them."""
    zeros = (ids.str.starts_with("0") & (ids.str.len_bytes() > 1)) | ids.str.starts_with("-0") | ids.str.starts_with("+")
    return (zeros | ids.cast(polars().Int64, strict=False).is_null()) & ids.is_not_null()


def _as_kinds(frame: Any, kinds: dict[str, Any], ids: Sequence[str], file: Path, at: int) -> Any:
    """A frame whose ids are whole numbers where they are to be; a FileError where one is none."""
    pl = polars()
    for name in ids:
        series = frame.get_column(name)
        if series.dtype != pl.String or kinds[name] != pl.Int64:
            continue
        bad = _not_whole(series)
        if bad.any():
            k = int(bad.arg_true()[0])
            raise FileError(
                f"{file}, row {at + k + 1}, column {name!r}: {series[k]!r} is no whole number, as the ids before it are: put a "
                "line with such an id first, and all of them are taken for text"
            )
        frame = frame.with_columns(series.cast(pl.Int64))
    return frame


def _batches(lazy: Any, file: Path) -> Iterator[Any]:
    pl = polars()
    try:
        if hasattr(lazy, "collect_batches"):
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it may change: its result is a sequence of frames either way
                batches = lazy.collect_batches(chunk_size=CHUNK, maintain_order=True)
            yield from batches
            return
        at = 0
        while len(frame := lazy.slice(at, CHUNK).collect()):
            yield frame
            at += len(frame)
    except (pl.exceptions.PanicException, Exception) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{file} cannot be read: {str(error).splitlines()[0]}") from None
