"""Tables with missing values, read and written in blocks: files may be larger than memory."""

from __future__ import annotations

import gzip
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from .archive import FileError, atomic
from .delimited_text import Layout, Part, polars, read_layout, records
from .format_hints import DECIMAL_COMMA, check_is_local, number_hint
from .header import MISSING, parse_number
from .missing_codes import NO_CODES, MissingCodes
from .observation_files import schema_of
from .text_columns import cell_blocks

ROWS = 1 << 16  # in a block of a Parquet file


@dataclass(frozen=True)
class Table:
    """A table in a file, whose columns have been scanned once.

    Attributes
    ----------
    path : Path
    names : list of str
    kinds : dict
        ``"number"``, ``"whole"`` or ``"text"`` for each column of a text file; empty for Parquet, whose columns have types.
    rows : int
        Number of rows.
    layout : Layout, optional
        Of a text file.
    missing : MissingCodes
        Further codes for missing values.
    """

    path: Path
    names: list[str]
    kinds: dict[str, str]
    rows: int
    layout: Layout | None = None
    missing: MissingCodes = NO_CODES

    def blocks(self) -> Iterator[Any]:
        """Frames of some rows; cells of text files are text."""
        if self.layout is not None:
            yield from (frame for _, frame in cell_blocks(self.path, self.layout))
            return
        lazy = polars().scan_parquet(self.path, glob=False)
        for at in range(0, self.rows, ROWS):
            yield lazy.slice(at, ROWS).collect()

    def typed(self, block: Any) -> Any:
        """A block with numbers as numbers, and null for missing values."""
        pl = polars()
        if not self.kinds:
            return self.missing.to_null(self._finite(block))
        found = []
        for name in self.names:
            cells = _stripped(block, name)
            cells = cells.set(self.missing.mask(cells), None)
            kind = self.kinds[name]
            found.append(cells if kind == "text" else cells.cast(pl.Float64).cast(pl.Int64 if kind == "whole" else pl.Float64))
        return pl.DataFrame(dict(zip(self.names, found, strict=True)))  # a name may be empty: the index of pandas

    def _finite(self, block: Any) -> Any:
        """A block with null for nan; raises a FileError for infinite numbers."""
        for column in block.iter_columns():
            if column.dtype.is_float() and column.is_infinite().any():
                raise FileError(f"{self.path}, column {column.name!r}: holds an infinite number; leave such cells empty")
        return block.fill_nan(None)

    def read(self) -> Any:
        """The whole table as one typed frame."""
        return polars().concat([self.typed(block) for block in self.blocks()])

    def sample(self, count: int, rng: np.random.Generator) -> Any:
        """A uniform sample of so many rows in the order of the file; all rows if there are fewer."""
        pl = polars()
        kept, keys, places, at = None, np.zeros(0), np.zeros(0, np.int64), 0
        for block in self.blocks():
            typed = self.typed(block)
            kept = typed if kept is None else pl.concat([kept, typed])
            keys = np.concatenate([keys, rng.random(len(block))])
            places = np.concatenate([places, np.arange(at, at + len(block))])
            at += len(block)
            if len(keys) > count:
                best = np.sort(np.argpartition(keys, count)[:count])
                kept, keys, places = kept[best.tolist()], keys[best], places[best]
        return kept

    @contextmanager
    def writing(self, path: str | Path) -> Iterator[Callable[[Any, Any], None]]:
        """Write the table in blocks; yields a function of a block and the completed block.

        Observed cells of text files are copied unchanged. The file appears when all blocks are written.
        """
        path = Path(path)
        with atomic(path) as temporary:
            if path.suffix.lower() == ".parquet":
                with _parquet_writer(temporary) as write:
                    yield lambda block, filled: write(filled)
                return
            plain = path.name.lower().removesuffix(".gz")
            separator = "\t" if plain.endswith((".tsv", ".tab")) else ","
            with gzip.open(temporary, "wb") if path.suffix.lower() == ".gz" else open(temporary, "wb") as file:
                first = True

                def write_text(block: Any, filled: Any) -> None:
                    nonlocal first
                    try:
                        self._merged(block, filled).write_csv(file, separator=separator, include_header=first)
                    except polars().exceptions.ComputeError as error:  # lists and durations
                        reason = str(error).splitlines()[0]
                        raise FileError(f"{path}: {reason}; write a .parquet file instead, or leave such columns out") from None
                    first = False

                yield write_text

    def _merged(self, block: Any, filled: Any) -> Any:
        if not self.kinds:
            return filled
        pl = polars()
        columns = []
        for name in self.names:
            cells, new = _stripped(block, name), filled.get_column(name)
            gaps = self.missing.mask(cells) & new.is_not_null()
            columns.append(block.get_column(name).zip_with(~gaps, new.cast(pl.String)))
        return pl.DataFrame(dict(zip(self.names, columns, strict=True)))


def open_table(path: str | Path, missing: MissingCodes = NO_CODES, *, header: bool | None = None) -> Table:
    """Scan a table: types of the columns, and number of rows. Columns with more text than numbers are text.

    Parameters
    ----------
    path : path
        CSV, TSV (also compressed, .gz) or Parquet.
    missing : MissingCodes, optional
        Further codes for missing values.
    header : bool, optional
        Whether the first line of a text file holds names; by default detected.
    """
    path = Path(path)
    pl = polars()
    check_is_local(path)
    if not path.exists():
        raise FileError(f"{path} does not exist")
    if path.suffix.lower() == ".parquet":
        names = list(schema_of(path))
        rows = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
        _check_rows(path, rows)
        return Table(path, names, {}, rows, missing=missing)
    layout = read_layout(path, header)
    names = layout.names
    kinds, rows = dict.fromkeys(names, "whole"), 0
    numbers, others, commas = (dict.fromkeys(names, 0) for _ in range(3))
    short: list[tuple[int, int]] = []
    for part, block in cell_blocks(path, layout):
        short += _short_lines(path, layout, part, block)
        rows += len(block)
        for name in names:
            cells = _stripped(block, name)
            there = ~missing.mask(cells)
            value = cells.cast(pl.Float64, strict=False)
            good = there & value.is_finite().fill_null(False)
            numbers[name] += int(good.sum())
            others[name] += int(there.sum()) - int(good.sum())
            commas[name] += int((there & cells.str.contains(DECIMAL_COMMA)).sum())
            if kinds[name] == "whole" and not cells.filter(good).str.contains(r"^[+-]?\d{1,15}$").all():
                kinds[name] = "number"
    for name in names:
        if others[name] and (numbers[name] > others[name] or commas[name] == others[name]):
            _raise_not_number(path, layout, name)
        elif others[name]:
            kinds[name] = "text"
        elif not numbers[name]:
            kinds[name] = "number"
    _check_rows(path, rows)
    if short:
        _warn_about_short_lines(path, len(names), short)
    return Table(path, names, kinds, rows, layout, missing)


def _short_lines(path: Path, layout: Layout, part: Part, frame: Any) -> list[tuple[int, int]]:
    """Number and fields of each line with fewer fields than the first: the missing ones are missing values, as in pandas."""
    width = len(layout.names)
    if width < 2 or not frame.to_series(width - 1).null_count():
        return []
    lines = len(frame) + part.header
    if b'"' not in part.text and part.text.count(layout.separator.encode()) == lines * (width - 1):
        return []
    found = records(path, layout.separator, part)
    return [(line, len(record)) for line, record in found if len(record) < width and any(cell.strip() for cell in record)]


def _warn_about_short_lines(path: Path, width: int, short: list[tuple[int, int]]) -> None:
    (line, fields), *others = short
    more = f", and {counted(len(others), 'other line')} like it" if others else ""
    warnings.warn(
        f"{path}, line {line}: {counted(fields, 'field')} where the first line has {width}{more}: the missing fields are read "
        "as missing values; is a separator missing?",
        UserWarning,
        stacklevel=3,
    )


def _check_rows(path: Path, rows: int) -> None:
    if not rows:
        raise FileError(f"{path} has no rows")


def _stripped(block: Any, name: str) -> Any:
    return block.get_column(name).fill_null("").str.strip_chars()


def _raise_not_number(path: Path, layout: Layout, name: str) -> None:
    """Raise a FileError with the first cell of a numeric column that is not a number."""
    at, skip = layout.names.index(name), layout.header
    for line, record in records(path, layout.separator):
        if skip:
            skip = False
            continue
        cell = record[at].strip() if at < len(record) else ""
        if cell.lower() not in MISSING and parse_number(cell) is None:
            why = number_hint(cell) if re.match(DECIMAL_COMMA, cell) else ", but other cells of this column are"
            why += "" if re.search("[0-9]", cell) else "; if the value is missing, leave the cell empty"
            raise FileError(f"{path}, line {line}, column {name!r}: {cell!r} is not a number{why}")
    raise FileError(f"{path}, column {name!r}: some cells are not numbers, but others are")


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Callable[[Any], None]]:
    """Write blocks to files of their own in a temporary folder, then join them block by block."""
    pl = polars()
    parts: list[Path] = []
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=path.name) as folder:

        def write(frame: Any) -> None:
            parts.append(Path(folder) / f"{len(parts):08d}.parquet")
            frame.write_parquet(parts[-1])

        yield write
        pl.scan_parquet(parts, glob=False).sink_parquet(path)
