"""Delimited text: what polars reads fast, and what Python's csv module says where it cannot."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..common.checks import counted
from .archive import FileError
from .format_hints import NOT_UTF8, NUL, check_is_text, number_hint, separator_of

GAPS = ("", "na", "nan", "null", "none", "n/a", "#n/a", "n.a.", "<na>", "?", "-")  # in small letters
DIGITS = 18  # from here on ids are text: they might not fit into 64 bits
FIELD = 1 << 20  # letters in a field, at most
TRUTH = {"true": 1.0, "false": 0.0}  # in small letters


def polars() -> Any:
    """The package, or what to install."""
    try:
        import polars
    except ImportError:
        raise FileError('reading files needs polars: pip install "lorank[files]"') from None
    return polars


class Part(NamedTuple):
    """Whole records of a file: their text, the number of their first line, and whether they are the first of the file."""

    text: bytes
    line: int
    first: bool


def lines(path: Path) -> Any:
    """The file as text; bytes that are not UTF-8 show up as U+FFFD."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return open(path, encoding="utf-8-sig", errors="replace", newline="")


def records(path: Path, separator: str, part: Part | None = None) -> Iterator[tuple[int, list[str]]]:
    """The records of a file, or of a part of it, with their line numbers, empty lines left out: slow and exact."""
    csv.field_size_limit(max(csv.field_size_limit(), FIELD))
    with lines(path) if part is None else io.StringIO(part.text.decode("utf-8", "replace"), newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        before = 0 if part is None else part.line - 1
        first = before + 1
        try:
            for record in reader:
                if record:
                    yield first, record
                first = before + reader.line_num + 1
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                raise FileError(f'{path}, line {first}: a quotation mark (") is opened there, and never closed') from None
            raise FileError(f"{path}, line {before + reader.line_num}: {error}") from None


def head(path: Path) -> tuple[str, list[str], bool, list[list[str]]]:
    """The separator, the names of the columns, whether they stand in the first line, and some records.

    The separator is a tab in files called .tsv or .tab, and else what the first line has most of.
    """
    check_is_text(path)
    try:
        with lines(path) as file:
            start = next((line for line in iter(lambda: file.readline(1 << 16), "") if line.strip("\r\n")), "")
        tabs = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
        separator = "\t" if tabs else separator_of(path, start)
        sample = [record for _, record in itertools.islice(records(path, separator), 200)]
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except gzip.BadGzipFile:
        raise FileError(f"{path} is not packed by gzip, as its ending .gz says: rename it without .gz") from None
    except EOFError:
        raise FileError(f"{path} ends in the middle: the packed file is not all there, fetch or write it again") from None
    except (OSError, UnicodeError) as error:
        raise FileError(f"{path} cannot be read: {error}") from None
    except Exception as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} cannot be read as text: {error}") from None
    if not sample:
        raise FileError(f"{path} is empty")
    for sign, what in (("\x00", NUL), ("\ufffd", NOT_UTF8)):
        if any(sign in cell for record in sample for cell in record):
            raise FileError(f"{path} {what}")
    first = sample[0]
    named = not _is_data(first)
    names = [cell.strip() for cell in first] if named else [f"column_{k + 1}" for k in range(len(first))]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileError(f"{path}: two columns are called {twice!r}; give one of them another name")
    return separator, names, named, sample[1:] if named else sample


def _is_data(first: list[str]) -> bool:
    """Whether a first line holds no names: numbers, and gaps among them.

    Years with nothing but an empty cell before them are names: so pandas writes a table with an index.
    """
    cells = [cell.strip() for cell in first]
    if not cells[0] and len(cells) > 1 and all(whole(cell) for cell in cells[1:]):
        return False
    found = [number(cell) is not None for cell in cells]
    return any(found) and all(known or cell.lower() in GAPS for known, cell in zip(found, cells, strict=True))


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
    return cell.isascii() and cell.removeprefix("-").isdigit() and len(cell) < DIGITS and cell == str(int(cell))


def complain(
    path: Path, separator: str, names: Sequence[str], header: bool, kinds: Mapping[str, str], part: Part | None = None
) -> None:
    """Find the first record that is wrong, and raise an error with its line, column and value.

    ``kinds`` are those of :func:`lorank.io.text_columns.read_columns`; ``header`` says whether names stand above the records.
    """
    at = {name: names.index(name) for name in kinds}
    skip = header
    for line, record in records(path, separator, part):
        if skip:
            skip = False
            continue
        if len(record) > len(names) or len(record) <= max(at.values()):  # what is not wanted may lack, as polars has it
            raise FileError(f"{path}, line {line}: {counted(len(record), 'field')} where the first line has {len(names)}")
        for name, kind in kinds.items():
            cell, place = record[at[name]], f"{path}, line {line}, column {name!r}:"
            if not cell.strip():
                hint = ""
                if kind in ("number", "truth"):
                    hint = "; leave out lines without a value (tables with gaps are for lorank impute)"
                raise FileError(f"{place} empty{hint}")
            if "\ufffd" in cell:
                raise FileError(f"{place} {cell!r} {NOT_UTF8}")
            if "\x00" in cell:
                raise FileError(f"{place} {cell!r} {NUL}")
            if kind == "truth" and cell.strip().lower() not in TRUTH:
                raise FileError(f"{place} {cell!r} is neither true nor false, as the values above it are")
            if kind == "number" and number(cell) is None:
                raise FileError(f"{place} {cell!r} is no number{number_hint(cell)}")


def kind_of_values(sample: Sequence[Sequence[str]], at: int) -> str:
    """Whether a column holds numbers, or nothing but true and false in the first lines: these are 1 and 0."""
    cells = [record[at].strip().lower() for record in sample if len(record) > at]
    return "truth" if cells and all(cell in TRUTH for cell in cells) else "number"


def as_written(path: Path, separator: str, names: Sequence[str], named: bool) -> list[str]:
    """The names as they stand in the first line, with their blanks: polars looks for those."""
    return next(records(path, separator))[1] if named else list(names)


def read_cells(text: bytes, path: Path, separator: str, names: Sequence[str], header: bool) -> Any:
    """All cells of a file, or of a part of it, as text; an error names the first record of another length."""
    pl = polars()
    written = as_written(path, separator, names, header)
    if b"\r" in text and b"\n" not in text:
        text = text.replace(b"\r", b"\n")  # lines of old, which polars does not know

    def read(text: bytes, names: Sequence[str], header: bool) -> Any:
        schema = dict.fromkeys(names, pl.String)
        return pl.read_csv(text, separator=separator, has_header=header, schema=schema, raise_if_empty=False, glob=False)

    try:
        try:
            found = read(text, written, header)
        except pl.exceptions.SchemaError:  # the first line may be shorter than the others: with names above it that is no harm
            if header:
                raise
            above = [f"c{k}" for k in range(len(names))]
            found = read(separator.join(above).encode() + b"\n" + text, above, True)
        found.columns = list(names)
        return found
    except (pl.exceptions.PanicException, pl.exceptions.PolarsError, OSError, ValueError) as error:
        for line, record in records(path, separator):
            if len(record) > len(names):
                said = f"{path}, line {line}: {counted(len(record), 'field')} where the first line has {len(names)}"
                comment = ", a comment: delete it" if names[0].startswith("#") else ""
                raise FileError(said + comment) from None
        found = _cells_slowly(text, path, separator, names, header)
        if found is None:
            raise FileError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
        return found


def _cells_slowly(text: bytes, path: Path, separator: str, names: Sequence[str], header: bool) -> Any:
    """The same by Python's csv module: polars miscounts lines where fields such as 12" end in quotes. None if it fails."""
    pl, width = polars(), len(names)
    found = (record for _, record in records(path, separator, Part(text, 1, True)))
    rows = [record for record in found if len(record) > 1 or record[0].strip()][int(header) :]
    if width < 2 or any(len(row) > width or any("\ufffd" in cell for cell in row) for row in rows):
        return None  # of one column, empty lines are rows
    columns = [[row[k] or None if k < len(row) else None for row in rows] for k in range(width)]
    return pl.DataFrame([pl.Series(name, column, pl.String) for name, column in zip(names, columns, strict=True)])


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
