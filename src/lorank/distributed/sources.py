"""Sources of observations: Parquet and CSV files and data frames, read chunk by chunk, more than once if needed."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..io.archive import FileError
from ..io.delimited_text import kind_of_values, polars, read_layout
from ..io.id_checks import IdWarnings
from ..io.missing_codes import LEAVE_OUT, SuspectedCodes
from ..io.text_columns import column_blocks
from ..io.typed_columns import check_values, ids_of, kind_of_ids, values_of

CHUNK_SIZE = 1 << 21  # observations


class Chunk(NamedTuple):
    """Some observations: ids of rows and columns (integers or strings), values, weights, and their origin."""

    rows: Any
    cols: Any
    values: np.ndarray
    weights: np.ndarray | None
    origin: str
    first: int  # position of the first one in the origin


class Source(Protocol):
    """Observations that can be read more than once."""

    @property
    def names(self) -> tuple[str, str, str | None, str | None]:
        """Names of the columns of rows, columns, values and weights."""
        ...

    def chunks(self) -> Iterator[Chunk]: ...


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
        for rows, cols, values, weights in self._parquet_columns(file) if is_parquet(file) else self._text_columns(file):
            if file not in self._warned:
                odd[0].add(rows)
                odd[1].add(cols)
                seen.add(np.zeros(0) if values is None else values)
            yield Chunk(rows, cols, np.ones(len(rows)) if values is None else values, weights, str(file), at)
            at += len(rows)
        if file not in self._warned:
            self._warned.add(file)
            for one in odd:
                one.warn()
            seen.warn()

    def _parquet_columns(self, file: Path) -> Iterator[tuple[Any, ...]]:
        wanted, at = [name for name in self.names if name is not None], 0
        for frame in _batches(polars().scan_parquet(file, glob=False).select(wanted), file):
            yield typed_columns(frame, self.names, file, at)
            at += len(frame)

    def _text_columns(self, file: Path) -> Iterator[tuple[Any, ...]]:
        """Columns of a text file in chunks, with the types that they have when the file is read in memory."""
        layout = read_layout(file, self.header)
        known = self._id_kinds.get(file)
        numbers = {name: kind_of_values(layout, name) for name in self.names[2:] if name is not None}
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
            yield *columns[:2], *(None if one is None else one.to_numpy() for one in columns[2:])
        self._id_kinds[file] = known or so_far

    def _columns(self, file: Path, kinds: dict[str, str]) -> Iterator[dict[str, Any]]:
        for found in column_blocks(file, read_layout(file, self.header), kinds):
            if len(found[self.names[0]]):
                yield found


@dataclass(frozen=True)
class FrameSource:
    """Dask, pandas or polars data frames with the same columns. One partition of a Dask data frame is in memory at a time.

    Attributes
    ----------
    frames : data frame or list
    names : (row, col, value or None, weight or None)
        Names of columns. Without a column of values, each line has the value 1.
    """

    frames: Any
    names: tuple[str, str, str | None, str | None]

    def check(self) -> None:
        """Raise a FileError if a data frame lacks a column."""
        for k, frame in enumerate(self._each(lazily=True)):
            known = [str(name) for name in frame.columns]
            for name in self.names:
                if name is not None and name not in known:
                    raise FileError(f"data frame {k} has no column {name!r}: its columns are {', '.join(map(repr, known))}")

    def chunks(self) -> Iterator[Chunk]:
        pl = polars()
        for k, frame in enumerate(self._each()):
            if not len(frame):
                continue  # partitions of a filtered Dask data frame may be empty
            origin = f"data frame {k}"
            whole = pl.DataFrame([_series(pl, frame[name], name, origin) for name in self.names if name is not None])
            rows, cols, values, weights = typed_columns(whole, self.names, origin, unsigned=True)
            yield Chunk(rows, cols, np.ones(len(whole)) if values is None else values, weights, origin, 0)

    def _each(self, lazily: bool = False) -> Iterator[Any]:
        frames = self.frames if isinstance(self.frames, (list, tuple)) else [self.frames]
        for frame in frames:
            if hasattr(frame, "npartitions") and hasattr(frame, "partitions"):  # of Dask
                parts = range(frame.npartitions)
                yield from [frame] if lazily else (frame.partitions[k].compute() for k in parts)
            elif hasattr(frame, "columns"):
                yield frame
            else:
                raise FileError(f"frames must be data frames of Dask, pandas or polars, got {type(frame).__name__}")


def _series(pl: Any, column: Any, name: str, origin: str) -> Any:
    """A column as a polars Series; does not need pyarrow."""
    if isinstance(column, pl.Series):
        return column
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf":
        return pl.Series(name, column.to_numpy())
    values = [None if x is None or x != x else x for x in column.tolist()]
    wrong = next((k for k, x in enumerate(values) if x is not None and not isinstance(x, str)), None)
    if wrong is not None:
        raise FileError(f"{origin}, row {wrong + 1}, column {name!r}: {values[wrong]!r} is neither an integer nor a string")
    return pl.Series(name, values, dtype=pl.String)


def typed_columns(
    frame: Any, names: Sequence[str | None], origin: Path | str, first: int = 0, unsigned: bool = False
) -> tuple[Any, ...]:
    """Ids of rows and columns as series, values and weights as arrays, from a polars data frame."""
    ids = [ids_of(frame.get_column(name), origin, first, unsigned) for name in names[:2]]
    numbers = [None if name is None else values_of(frame.get_column(name), origin, first).to_numpy() for name in names[2:]]
    return *ids, *numbers


def _different(file: Path, kind: str, other: Path, before: str, name: str) -> FileError:
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
    try:
        return dict(pl.scan_parquet(file, glob=False).collect_schema())
    except (pl.exceptions.PanicException, Exception) as error:
        raise FileError(f"{file} is no Parquet file, or a damaged one: {str(error).splitlines()[0]}") from None


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
