"""Observations from files or arrays too large to hold twice, piece by piece, as often as they are asked for."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..io.archive import FileError
from ..io.delimited_text import head, kind_of_values, polars
from ..io.id_checks import OddIds
from ..io.missing_codes import LEAVE_OUT, Sentinels
from ..io.text_columns import parts, read_columns
from ..io.typed_columns import check_values, ids_of, kind_of_ids, values_of

CHUNK = 1 << 21  # observations at a time


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


class Unsettled(Exception):
    """Ids were whole numbers, and then others: which of both they are, all of them, takes a look at the whole files.

    Attributes
    ----------
    source : TableSource
    """

    def __init__(self, source: TableSource) -> None:
        super().__init__("the ids of a file of text are not all whole numbers")
        self.source = source


@dataclass
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
    _settled: dict[Path, dict[str, str]] = field(default_factory=dict)  # what ids of files of text are
    _said: set[Path] = field(default_factory=set)  # files whose odd ids were warned about

    def check(self) -> None:
        """A FileError where a file lacks a column, has another kind of it than the first file, or cannot be read."""
        first: dict[str, Any] = {}
        for file in self.files:
            schema = schema_of(file)
            for name, role in zip(self.names, ("rows", "cols", "values", "weights"), strict=True):
                if name is None:
                    continue
                if name not in schema:
                    known = ", ".join(map(repr, schema))
                    raise FileError(f"{file} has no column {name!r} (asked for with {role}=): its columns are {known}")
                if schema[name] is None:
                    continue  # text: its cells will say
                if role in ("values", "weights"):
                    check_values(schema[name], name, file)
                    continue
                kind = kind_of_ids(schema[name], name, file)
                before, other = first.setdefault(name, (kind, file))
                if kind != before:
                    raise _different(file, kind, other, before, name)

    def pieces(self) -> Iterator[Piece]:
        """Observations of one file after the other, each time the same.

        Raises
        ------
        Unsettled
            Where ids of text begin as whole numbers and go on as others. After :meth:`settle` they are text from the beginning.
        """
        for file in self.files:
            count = 0
            for piece in self._of(file):
                count += len(piece.values)
                yield piece
            if not count:
                raise FileError(f"{file} has no observations" if len(self.files) == 1 else f"{file} is empty: leave it out")

    def settle(self) -> None:
        """Look at all ids of text: whole numbers where each in a file is written as one, else text."""
        for file in self.files:
            if not is_parquet(file) and file not in self._settled:
                ids = dict.fromkeys(self.names[:2], "whole numbers")
                for found in self._columns(file, dict.fromkeys(ids, "id")):
                    ids |= {name: "text" for name in ids if not found[name].dtype.is_integer()}
                self._settled[file] = ids

    def _of(self, file: Path) -> Iterator[Piece]:
        at, odd = 0, [OddIds(file, name) for name in self.names[:2]]
        seen = Sentinels(f"{file}, column {self.names[2]!r}", LEAVE_OUT)
        for rows, cols, values, weights in self._typed(file) if is_parquet(file) else self._written(file):
            if file not in self._said:
                odd[0].add(rows)
                odd[1].add(cols)
                seen.add(np.zeros(0) if values is None else values)
            yield Piece(rows, cols, or_ones(values, len(rows)), weights, str(file), at)
            at += len(rows)
        if file not in self._said:
            self._said.add(file)
            for one in odd:
                one.warn()
            seen.warn()

    def _typed(self, file: Path) -> Iterator[tuple[Any, ...]]:
        """Columns of a Parquet file, some rows at a time."""
        wanted, at = [name for name in self.names if name is not None], 0
        for frame in _batches(polars().scan_parquet(file, glob=False).select(wanted), file):
            yield typed_columns(frame, self.names, file, at)
            at += len(frame)

    def _written(self, file: Path) -> Iterator[tuple[Any, ...]]:
        """Columns of a file of text, some lines at a time: as it is read in memory."""
        _, names, _, sample = head(file)
        settled = self._settled.get(file)
        numbers = {name: kind_of_values(sample, names.index(name)) for name in self.names[2:] if name is not None}
        kinds = {name: "id" if (settled or {}).get(name) != "text" else "text" for name in self.names[:2]}
        so_far: dict[str, str] = {}
        for found in self._columns(file, kinds | numbers):
            now = {name: "whole numbers" if found[name].dtype.is_integer() else "text" for name in self.names[:2]}
            so_far = so_far or now
            first = self._settled.get(self.files[0], now)
            for name, kind in now.items():
                if kind != so_far[name] or (kind != first[name] and kind == "whole numbers" and settled is None):
                    raise Unsettled(self)
                if kind != first[name]:
                    raise _different(file, kind, self.files[0], first[name], name)
                if kind == "text":
                    kinds[name] = "text"  # whatever is below
            columns = [None if name is None else found[name] for name in self.names]
            yield *columns[:2], *(None if one is None else one.to_numpy() for one in columns[2:])
        self._settled[file] = settled or so_far

    def _columns(self, file: Path, kinds: dict[str, str]) -> Iterator[dict[str, Any]]:
        separator, names, named, _ = head(file)
        for part in parts(file, separator):
            found = read_columns(file, separator, names, named, kinds, part)
            if len(found[self.names[0]]):
                yield found


def typed_columns(
    frame: Any, names: Sequence[str | None], origin: Path | str, first: int = 0, unsigned: bool = False
) -> tuple[Any, ...]:
    """Ids of rows and columns as series, values and weights as arrays, from a data frame with types."""
    ids = [ids_of(frame.get_column(name), origin, first, unsigned) for name in names[:2]]
    numbers = [None if name is None else values_of(frame.get_column(name), origin, first).to_numpy() for name in names[2:]]
    return *ids, *numbers


def _different(file: Path, kind: str, other: Path, before: str, name: str) -> FileError:
    return FileError(
        f"{file} and {other} have different schemas: the column {name!r} is of {kind} in one and of {before} in the other"
    )


def or_ones(values: np.ndarray | None, count: int) -> np.ndarray:
    return np.ones(count) if values is None else values


def pair_batches(files: list[Path], row: str, col: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ids of rows and columns, whole numbers or text, some at a time."""
    source = TableSource(files, (row, col, None, None))
    source.check()
    source.settle()
    for file in files:
        for piece in source._of(file):
            yield piece.rows.to_numpy(), piece.cols.to_numpy()


def is_parquet(file: Path) -> bool:
    return file.suffix.lower() == ".parquet"


def find_files(path: str | os.PathLike[str] | list[Any], endings: tuple[str, ...]) -> list[Path]:
    """The files that a path, a folder (also below it), a pattern or a list of them stand for, in the order of their names."""
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


def schema_of(file: Path) -> dict[str, Any]:
    """Names of a file's columns, with their types where they have some: those of text have none."""
    if not is_parquet(file):
        return dict.fromkeys(head(file)[1])
    pl = polars()
    try:
        return dict(pl.scan_parquet(file, glob=False).collect_schema())
    except (pl.exceptions.PanicException, Exception) as error:
        raise FileError(f"{file} is no Parquet file, or a damaged one: {str(error).splitlines()[0]}") from None


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
