"""Observations in Parquet and text files, read chunk by chunk, more than once if needed, or at once."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..common.checks import counted
from .archive import FileError
from .delimited_text import Layout, kind_of_values, polars, read_layout
from .format_hints import NO_VALUE
from .header import parse_number
from .missing_codes import LEAVE_OUT, SuspectedCodes
from .text_columns import column_blocks
from .typed_columns import check_values, ids_of, kind_of_ids, values_of

CHUNK_SIZE = 1 << 21  # observations


class Chunk(NamedTuple):
    """Some observations: ids of rows and columns (integers or strings), values, weights, their origin, and times if read."""

    rows: Any
    cols: Any
    values: np.ndarray
    weights: np.ndarray | None
    origin: str
    first: int  # position of the first one in the origin
    times: Any = None  # numbers, dates or text, a polars series


class MixedIds(Exception):
    """Ids of a text file begin as integers and continue as strings: their type takes a pass over the whole files.

    Attributes
    ----------
    source : TableSource
    """

    def __init__(self, source: TableSource) -> None:
        super().__init__("the ids of a text file are not all integers")
        self.source = source


@dataclass
class TableSource:
    """Parquet or CSV files with the same columns.

    Attributes
    ----------
    files : list of paths
    names : (row, col, value or None, weight or None)
        Names of columns. Without a column of values, each line has the value 1.
    header : bool, optional
        Whether the first line of text files holds names; by default detected.
    """

    files: list[Path]
    names: tuple[str, str, str | None, str | None]
    header: bool | None = None
    time: str | None = None  # column of times
    _id_kinds: dict[Path, dict[str, str]] = field(default_factory=dict)  # of text files, where known
    _warned: set[Path] = field(default_factory=set)  # files whose suspicious ids were reported

    def check(self) -> None:
        """Raise a FileError if a file lacks a column, has another type of it than the first file, or cannot be read."""
        first: dict[str, Any] = {}
        for file in self.files:
            schema = schema_of(file, self.header)
            for name, role in zip(self.names, ("rows", "cols", "values", "weights"), strict=True):
                if name is None:
                    continue
                if name not in schema:
                    known = ", ".join(map(repr, schema))
                    raise FileError(f"{file} has no column {name!r} (asked for with {role}=): its columns are {known}")
                if schema[name] is None:
                    continue  # a text file, whose cells decide
                if role in ("values", "weights"):
                    check_values(schema[name], name, file)
                    continue
                kind = kind_of_ids(schema[name], name, file)
                before, other = first.setdefault(name, (kind, file))
                if kind != before:
                    raise _different(file, kind, other, before, name)

    def chunks(self) -> Iterator[Chunk]:
        """Observations of one file after the other.

        Raises
        ------
        MixedIds
            If ids of a text file begin as integers and continue as strings. After :meth:`resolve_ids` all are strings.
        """
        for file in self.files:
            count = 0
            for chunk in self._file_chunks(file):
                count += len(chunk.values)
                yield chunk
            if not count:
                raise FileError(f"{file} has no observations" + ("" if len(self.files) == 1 else ": leave it out"))

    def read(self) -> Chunk:
        """All observations of all files at once."""
        self.check()
        try:
            chunks = list(self.chunks())
        except MixedIds:
            self.resolve_ids()
            chunks = list(self.chunks())
        if len(self.files) > 1 and self.time is not None:
            for chunk in chunks:
                if chunk.times.dtype != (kind := chunks[0].times.dtype):
                    raise _different(Path(chunk.origin), chunk.times.dtype, self.files[0], kind, self.time)
        rows, cols, values, weights, _, _, times = zip(*chunks, strict=True)
        join = polars().concat
        return Chunk(
            join(rows),
            join(cols),
            np.concatenate(values),
            None if weights[0] is None else np.concatenate(weights),
            chunks[0].origin,
            0,
            None if self.time is None else join(times),
        )

    def resolve_ids(self) -> None:
        """Determine the type of the ids of text files: integers if every id of a file is written as one, else strings."""
        for file in self.files:
            if not is_parquet(file) and file not in self._id_kinds:
                ids = dict.fromkeys(self.names[:2], "whole numbers")
                for found in self._columns(file, dict.fromkeys(ids, "id")):
                    ids |= {name: "text" for name in ids if not found[name].dtype.is_integer()}
                self._id_kinds[file] = ids

    def _file_chunks(self, file: Path) -> Iterator[Chunk]:
        at, odd = 0, [IdWarnings(file, name) for name in self.names[:2]]
        seen = SuspectedCodes(f"{file}, column {self.names[2]!r}", LEAVE_OUT)
        for rows, cols, values, weights, times in self._parquet_columns(file) if is_parquet(file) else self._text_columns(file):
            if file not in self._warned:
                odd[0].add(rows)
                odd[1].add(cols)
                seen.add(np.zeros(0) if values is None else values)
            yield Chunk(rows, cols, np.ones(len(rows)) if values is None else values, weights, str(file), at, times)
            at += len(rows)
        if file not in self._warned:
            self._warned.add(file)
            for one in odd:
                one.warn()
            seen.warn()

    def _parquet_columns(self, file: Path) -> Iterator[tuple[Any, ...]]:
        wanted, at = [name for name in (*self.names, self.time) if name is not None], 0
        for frame in _batches(polars().scan_parquet(file, glob=False).select(wanted), file):
            times = None if self.time is None else _times_of(frame.get_column(self.time), file, at)
            yield *typed_columns(frame, self.names, file, at), times
            at += len(frame)

    def _text_columns(self, file: Path) -> Iterator[tuple[Any, ...]]:
        """Columns of a text file in chunks, with the types that they have when the file is read in memory."""
        layout = read_layout(file, self.header)
        known = self._id_kinds.get(file)
        numbers = {name: kind_of_values(layout, name) for name in self.names[2:] if name is not None}
        if self.time is not None:
            numbers[self.time] = _kind_of_times(layout, self.time)
        kinds = {name: "id" if (known or {}).get(name) != "text" else "text" for name in self.names[:2]}
        so_far: dict[str, str] = {}
        for found in self._columns(file, kinds | numbers):
            now = {name: "whole numbers" if found[name].dtype.is_integer() else "text" for name in self.names[:2]}
            so_far = so_far or now
            first = self._id_kinds.get(self.files[0], now)
            for name, kind in now.items():
                if kind != so_far[name] or (kind != first[name] and kind == "whole numbers" and known is None):
                    raise MixedIds(self)
                if kind != first[name]:
                    raise _different(file, kind, self.files[0], first[name], name)
                if kind == "text":
                    kinds[name] = "text"  # also if later ids are integers
            columns = [None if name is None else found[name] for name in self.names]
            numeric = (None if one is None else one.to_numpy() for one in columns[2:])
            yield *columns[:2], *numeric, None if self.time is None else found[self.time]
        self._id_kinds[file] = known or so_far

    def _columns(self, file: Path, kinds: dict[str, str]) -> Iterator[dict[str, Any]]:
        for found in column_blocks(file, read_layout(file, self.header), kinds):
            if len(found[self.names[0]]):
                yield found


def typed_columns(
    frame: Any, names: Sequence[str | None], origin: Path | str, first: int = 0, unsigned: bool = False
) -> tuple[Any, ...]:
    """Ids of rows and columns as series, values and weights as arrays, from a polars data frame."""
    ids = [ids_of(frame.get_column(name), origin, first, unsigned) for name in names[:2]]
    numbers = [None if name is None else values_of(frame.get_column(name), origin, first).to_numpy() for name in names[2:]]
    return *ids, *numbers


def _kind_of_times(layout: Layout, name: str) -> str:
    """``"number"``, or ``"text"`` for dates."""
    at = layout.names.index(name)
    return "number" if all(len(r) <= at or parse_number(r[at]) is not None for r in layout.sample) else "text"


def _times_of(series: Any, path: Path, first: int) -> Any:
    """Times of a Parquet file: numbers, dates or text, none missing."""
    if not series.dtype.is_temporal() and series.dtype != polars().String:
        return values_of(series, path, first)
    if series.null_count():
        raise FileError(f"{path}, row {first + series.is_null().arg_true()[0] + 1}, column {series.name!r}: no time")
    return series


def _different(file: Path, kind: Any, other: Path, before: Any, name: str) -> FileError:
    return FileError(
        f"{file} and {other} have different schemas: the column {name!r} is of {kind} in one and of {before} in the other"
    )


def pair_batches(files: list[Path], row: str, col: str, header: bool | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ids of rows and columns, integers or strings, in chunks."""
    source = TableSource(files, (row, col, None, None), header)
    source.check()
    source.resolve_ids()
    for file in files:
        for chunk in source._file_chunks(file):
            yield chunk.rows.to_numpy(), chunk.cols.to_numpy()


def is_parquet(file: Path) -> bool:
    return file.suffix.lower() == ".parquet"


def find_files(path: str | os.PathLike[str] | list[Any], endings: tuple[str, ...]) -> list[Path]:
    """Files of a path, a folder (recursively), a pattern or a list of them, in the order of their names."""
    if isinstance(path, (list, tuple)):
        return [file for one in path for file in find_files(one, endings)]
    root = Path(path)
    if root.is_dir():
        found = sorted(f for f in root.rglob("*") if f.name.lower().endswith(endings) and f.name[0] not in "._")
    elif root.exists():
        found = [root]
    else:
        found = sorted(Path(f) for f in glob.glob(str(path), recursive=True) if os.path.basename(f)[0] not in "._")
    if not found and not root.is_dir() and not glob.has_magic(str(path)):
        raise FileError(f"{path} does not exist")
    if not found:
        raise FileError(f"{path}: there are no files ending in {' or '.join(endings)}")
    return found


def schema_of(file: Path, header: bool | None = None) -> dict[str, Any]:
    """Names of the columns of a file, with their types; None for columns of text files."""
    if not is_parquet(file):
        return dict.fromkeys(read_layout(file, header).names)
    pl = polars()
    if not file.exists():
        raise FileError(f"{file} does not exist")
    try:
        return dict(pl.scan_parquet(file, glob=False).collect_schema())
    except (pl.exceptions.PanicException, Exception) as error:
        raise FileError(f"{file} is not a Parquet file, or a damaged one: {str(error).splitlines()[0]}") from None


def _batches(lazy: Any, file: Path) -> Iterator[Any]:
    pl = polars()
    try:
        if hasattr(lazy, "collect_batches"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # polars calls it unstable; its result is a sequence of frames
                batches = lazy.collect_batches(chunk_size=CHUNK_SIZE, maintain_order=True)
            yield from batches
            return
        at = 0
        while len(frame := lazy.slice(at, CHUNK_SIZE).collect()):
            yield frame
            at += len(frame)
    except (pl.exceptions.PanicException, Exception) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{file} cannot be read: {str(error).splitlines()[0]}") from None


class IdWarnings:
    """Suspicious ids in a column of a file. They are read as written, with a warning.

    Parameters
    ----------
    path : path
    name : str
        Name of the column.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.where = f"{path}, column {name!r}"
        self.none: dict[str, int] = {}  # number of lines by id
        self.blank: str | None = None

    def add(self, ids: Any) -> None:
        """Add ids, a polars series."""
        pl = polars()
        if ids.dtype != pl.String:
            return
        found = ids.unique()
        for none in found.filter(found.str.to_lowercase().is_in(["", *NO_VALUE])):
            self.none[none] = self.none.get(none, 0) + int((ids == none).sum())
        blank = found.filter(found.str.strip_chars() != found)
        if len(blank):
            self.blank = min(blank.min(), self.blank or blank.min())

    def warn(self, stacklevel: int = 2) -> None:
        """Warn about what was found."""
        for none, count in sorted(self.none.items()):
            warnings.warn(
                f"{self.where}: {counted(count, 'line')} with the id {none!r}, read as one id: if it means missing, leave "
                "out these lines",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
        if self.blank is not None:
            warnings.warn(
                f"{self.where}: ids begin or end with blanks, such as {self.blank!r}; blanks are part of the id: remove them "
                "from the file if they should not be",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
