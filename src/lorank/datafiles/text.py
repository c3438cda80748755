"""Delimited text: what polars reads fast, and what Python's csv module says where it cannot."""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files import FileError
from ..parameter_checks import counted
from .hints import NOT_UTF8, comma_hint, refuse_others, separator_of

csv.field_size_limit(1 << 20)


def polars() -> Any:
    """The package, or what to install."""
    try:
        import polars
    except ImportError:
        raise FileError('reading files needs polars: pip install "lorank[files]"') from None
    return polars


def lines(path: Path) -> Any:
    """The file as text; bytes that are not UTF-8 show up as U+FFFD."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return open(path, encoding="utf-8-sig", errors="replace", newline="")


def records(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The records with their line numbers, empty lines left out: slow and exact."""
    with lines(path) as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        first = 1
        try:
            for record in reader:
                if record:
                    yield first, record
                first = reader.line_num + 1
        except csv.Error as error:
            raise FileError(f"{path}, line {reader.line_num}: {error}") from None


def head(path: Path, separator: str | None) -> tuple[str, list[str], bool, list[list[str]]]:
    """The separator, the names of the columns, whether they stand in the first line, and some records."""
    refuse_others(path)
    try:
        with lines(path) as file:
            start = file.readline(1 << 16)
        if separator is None:
            separator = separator_of(path, start)
        sample = [record for _, record in itertools.islice(records(path, separator), 200)]
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except (OSError, EOFError, UnicodeError) as error:
        raise FileError(f"{path} cannot be read: {error}") from None
    except Exception as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} cannot be read as text: {error}") from None
    if not sample:
        raise FileError(f"{path} is empty")
    if any("\x00" in cell or "\ufffd" in cell for record in sample for cell in record):
        raise FileError(f"{path} {NOT_UTF8}")
    first = sample[0]
    named = not all(number(cell) is not None for cell in first)
    names = [cell.strip() for cell in first] if named else [f"column_{k + 1}" for k in range(len(first))]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileError(f"{path}: two columns are called {twice!r}")
    return separator, names, named, sample[1:] if named else sample


def number(cell: str) -> float | None:
    """A finite number, or None. Plain notation only: no underscores, no nan."""
    cell = cell.strip()
    if not cell or "_" in cell or not cell[-1:].isascii():
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def whole(cell: str) -> bool:
    """Whether a cell is a whole number as polars reads it into 64 bits, written as one would write it back."""
    return cell.isascii() and cell.lstrip("-").isdigit() and len(cell) < 18 and cell == str(int(cell))


def complain(
    path: Path, separator: str, names: Sequence[str], named: bool, numbers: Sequence[str], wanted: Sequence[str]
) -> None:
    """Find the first record that is wrong, and raise an error with its line, column and value."""
    at = {name: names.index(name) for name in wanted}
    skip = named
    for line, record in records(path, separator):
        if skip:
            skip = False
            continue
        if len(record) != len(names):
            raise FileError(f"{path}, line {line}: {counted(len(record), 'field')} where the first line has {len(names)}")
        for name in wanted:
            cell = record[at[name]]
            if not cell.strip():
                raise FileError(f"{path}, line {line}, column {name!r}: empty")
            if name in numbers and number(cell) is None:
                raise FileError(f"{path}, line {line}, column {name!r}: {cell!r} is no number{comma_hint(cell)}")
            if "\ufffd" in cell:
                raise FileError(f"{path}, line {line}, column {name!r}: {cell!r} {NOT_UTF8}")


def read_cells(source: Any, path: Path, separator: str, names: Sequence[str], header: bool) -> Any:
    """All cells of a file, or of a part of it, as text; an error names the first record of another length."""
    pl = polars()
    try:
        return pl.read_csv(
            source,
            separator=separator,
            has_header=header,
            schema=dict.fromkeys(names, pl.String),
            raise_if_empty=False,
            glob=False,
        )
    except (pl.exceptions.PanicException, pl.exceptions.PolarsError, OSError, ValueError) as error:
        for line, record in records(path, separator):
            if len(record) != len(names):
                raise FileError(
                    f"{path}, line {line}: {counted(len(record), 'field')} where the first line has {len(names)}"
                ) from None
        raise FileError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def without_empty_lines(text: bytes, separator: str) -> bytes:
    """Lines with nothing but spaces are left out, but for those within quotes: they are no rows of a table of several columns.

    Parameters
    ----------
    text : bytes
        Whole records.
    separator : str
        That lines may consist of: those are rows, of empty cells.
    """
    blank = b" \t\r\n".replace(separator.encode(), b"")
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if inside or line.strip(blank):
            kept.append(line)
        inside ^= line.count(b'"') % 2 == 1
    return b"".join(kept)


def read_columns(path: Path, separator: str, names: Sequence[str], named: bool, kinds: dict[str, str]) -> dict[str, Any]:
    """Columns by name, as polars series: ``kinds`` says "number", "whole" or "text".

    Raises
    ------
    FileError
        With line, column and value where something does not parse.
    """
    pl = polars()
    types = {"number": pl.Float64, "whole": pl.Int64, "text": pl.String}
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    full = {name: types[kinds[name]] if name in kinds else pl.String for name in names}
    try:
        frame = pl.read_csv(
            path,
            separator=separator,
            has_header=named,
            schema=full,
            columns=[names.index(name) for name in kinds],
            low_memory=True,
            raise_if_empty=False,
            glob=False,
        )
    except (pl.exceptions.PanicException, pl.exceptions.PolarsError, OSError, ValueError):
        return _slowly(path, separator, names, named, kinds)
    out = {}
    for name in kinds:
        series = frame.get_column(name)
        bad = series.null_count() or (name in numbers and not series.is_finite().all())
        if bad or (kinds[name] == "text" and (series.str.strip_chars() == "").any()):
            return _slowly(path, separator, names, named, kinds)
        out[name] = series
    wholes = [name for name, kind in kinds.items() if kind == "whole"]
    if wholes and _zeros_in_front(path, separator, names, named, wholes):
        raise FileError(f"{path}, {' or '.join(map(repr, wholes))}: ids such as 007 are no whole numbers")
    return out


def _zeros_in_front(path: Path, separator: str, names: Sequence[str], named: bool, ids: Sequence[str]) -> bool:
    """Whether ids are written otherwise than the numbers that polars makes of them: 007 and +7 would both be 7."""
    pl = polars()
    options = {"separator": separator, "has_header": named, "schema": dict.fromkeys(names, pl.String)}
    cells = pl.scan_csv(path, raise_if_empty=False, glob=False, **options)
    text = [pl.col(name).str for name in ids]
    zeros = [(one.starts_with("0") & (one.len_bytes() > 1)) | one.starts_with("-0") | one.starts_with("+") for one in text]
    return bool(cells.select(pl.any_horizontal(zeros).any()).collect().item())


def _slowly(path: Path, separator: str, names: Sequence[str], named: bool, kinds: dict[str, str]) -> dict[str, Any]:
    """The same by Python's csv module, for what polars stumbles over (empty lines, say) and to find what is wrong."""
    pl = polars()
    complain(path, separator, names, named, [name for name, kind in kinds.items() if kind == "number"], list(kinds))
    rows = [record for _, record in records(path, separator)][int(named) :]
    out = {}
    for name, kind in kinds.items():
        cells = [row[names.index(name)] for row in rows]
        bad = next((cell for cell in cells if kind == "whole" and not whole(cell)), None)
        if bad is not None:
            raise FileError(f"{path}, column {name!r}: {bad!r} is no whole number")
        make = {"number": float, "whole": int, "text": str}[kind]
        types = {"number": pl.Float64, "whole": pl.Int64, "text": pl.String}
        out[name] = pl.Series(name, [make(cell) for cell in cells], types[kind])
    return out
