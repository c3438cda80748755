"""Columns of delimited text, read by polars in parts and checked to be the records of Python's csv module."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from .archive import FileError
from .delimited_text import MAX_FIELD, TRUTH, Layout, Part, Quotes, polars, records
from .format_hints import NOT_UTF8, NUL, number_hint
from .header import MAX_DIGITS, parse_number

BYTES = 1 << 24  # of a part
BOM = b"\xef\xbb\xbf"
NO_VALUE = "empty; leave out lines without a value (for tables with missing values use lorank impute)"


def column_blocks(path: Path, layout: Layout, kinds: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Columns of a file by name, as polars series, part by part.

    Parameters
    ----------
    path : path
    layout : Layout
    kinds : mapping
        For each column to be read: ``"number"``, ``"truth"`` (true and false, read as 1 and 0), ``"text"``, ``"id"`` (integers
        if each cell of the part is one in canonical notation, else text), or ``"cell"`` (text, null where a cell is empty or
        missing).

    Raises
    ------
    FileError
        With line, column and value of a cell that does not parse.
    """
    for part in parts(path, layout):
        yield _read_part(path, layout, kinds, part)


def cell_blocks(path: Path, layout: Layout) -> Iterator[tuple[Part, Any]]:
    """All cells of a file as data frames of text, part by part; null where a cell is empty or missing.

    Blank lines are skipped where there are several columns.
    """
    kinds = dict.fromkeys(layout.names, "cell")
    for part in parts(path, layout):
        frame = polars().DataFrame(_read_part(path, layout, kinds, part))
        if len(frame):
            yield part, frame


def read_cells(path: Path, layout: Layout) -> Any:
    """All cells of a file as a data frame of text; null where a cell is empty or missing."""
    pl, frames = polars(), [frame for _, frame in cell_blocks(path, layout)]
    return pl.concat(frames) if frames else pl.DataFrame(schema=dict.fromkeys(layout.names, pl.String))


def _read_part(path: Path, layout: Layout, kinds: Mapping[str, str], part: Part) -> dict[str, Any]:
    found = _columns_by_polars(layout, kinds, part)
    return _columns_by_csv(path, layout, kinds, part) if found is None else found


# -- polars ------------------------------------------------------------------------------------------------------------
def _columns_by_polars(layout: Layout, kinds: Mapping[str, str], part: Part) -> dict[str, Any] | None:
    """The columns as polars reads them; None where records or cells might not be those of Python's csv module.

    polars takes every quotation mark for the begin or end of a quoted field, also in columns that are not read. Text with
    quotation marks inside unquoted fields (12" vinyl) is read without quoting if no field begins with one, and by the csv
    module otherwise. The number of records is checked.
    """
    pl, text, separator, names = polars(), part.text, layout.separator, layout.names
    if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):
        return None  # lines that end in a carriage return, which polars does not know
    if len(names) > 1 and "cell" in kinds.values() and re.search(_blank_line(separator), text):
        return None
    quotes = find_quotes(text, separator) if part.quotes is None else part.quotes
    if quotes.stray and quotes.at_start:
        return None
    lines = text.count(b"\n")
    if len(quotes.at) and not quotes.stray:
        lines = int((quotes.count_before(_positions(text, "\n")) % 2 == 0).sum())
    own = [f"c{k}" for k in range(len(names))]  # names of the file may be empty
    types = {name: pl.Float64 if kind == "number" else pl.String for name, kind in kinds.items()}
    try:
        frame = pl.read_csv(
            separator.join(own).encode() + b"\n" + text,
            separator=separator,
            quote_char=None if quotes.stray else '"',
            schema={c: types.get(name, pl.String) for c, name in zip(own, names, strict=True)},
            columns=[names.index(name) for name in types],
            skip_rows_after_header=int(part.header),
            low_memory=True,
            raise_if_empty=False,
            glob=False,
        )
    except (pl.exceptions.PanicException, pl.exceptions.PolarsError, OSError, ValueError):
        return None
    if len(frame) != max(lines + (not text.endswith(b"\n")) - part.header, 0):
        return None
    found = {name: _checked(frame[own[names.index(name)]].alias(name), kind, text) for name, kind in kinds.items()}
    return None if any(column is None for column in found.values()) else found


def _checked(series: Any, kind: str, text: bytes) -> Any:
    """A column of a kind as polars read it; None if a cell is missing, invalid or perhaps read differently."""
    if kind == "cell":
        return series
    if kind == "number":
        return series if not series.null_count() and series.is_finite().all() else None
    if kind == "truth":
        found = series.str.strip_chars().str.to_lowercase()
        found = found.replace_strict(TRUTH, default=None, return_dtype=polars().Float64)
        return None if found.null_count() else found
    integers = as_integers(series) if kind == "id" else None
    if integers is not None:
        return integers
    odd = any(sign.encode() in text and series.str.contains(sign, literal=True).any() for sign in ("\x00", "\r"))
    return None if series.null_count() or odd or (series.str.strip_chars() == "").any() else series


def as_integers(series: Any) -> Any:
    """Text as integers if each cell is one in canonical notation, else None: 007 and 7 are different ids.

    The same rule as :func:`lorank.io.header.is_integer`.
    """
    pl = polars()
    if not len(series) or series.null_count() or series.str.len_bytes().max() >= MAX_DIGITS:
        return None
    found = series.cast(pl.Int64, strict=False)
    if found.null_count():
        return None
    text = series.str
    others = ((text.len_bytes() > 1) & text.starts_with("0")) | text.starts_with("-0") | text.starts_with("+")
    return None if others.any() else found


# -- Python's csv module -----------------------------------------------------------------------------------------------
def _columns_by_csv(path: Path, layout: Layout, kinds: Mapping[str, str], part: Part) -> dict[str, Any]:
    """The columns as Python's csv module reads them; a FileError for the first record or cell that does not parse."""
    pl, names = polars(), layout.names
    at = {name: names.index(name) for name in kinds}
    cells_alone = "cell" in kinds.values()
    fewest = 0 if cells_alone else max(at.values()) + 1  # columns that are not read may be missing
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    for line, record in itertools.islice(records(path, layout.separator, part), int(part.header), None):
        if cells_alone and len(names) > 1 and len(record) == 1 and not record[0].strip():
            continue
        if not fewest <= len(record) <= len(names):
            comment = ", a comment: delete it" if names[0].startswith("#") else ""
            raise FileError(
                f"{path}, line {line}: {counted(len(record), 'field')} where the first line has {len(names)}{comment}"
            )
        for name, kind in kinds.items():
            cell = record[at[name]] if at[name] < len(record) else ""
            if wrong := _what_is_wrong(cell, kind):
                shown = "" if wrong.startswith("empty") else f"{cell!r} "
                raise FileError(f"{path}, line {line}, column {name!r}: {shown}{wrong}")
            columns[name].append(
                float(cell) if kind == "number" else TRUTH[cell.strip().lower()] if kind == "truth" else cell or None
            )
    found = {}
    for name, kind in kinds.items():
        series = pl.Series(name, columns[name], pl.Float64 if kind in ("number", "truth") else pl.String)
        integers = as_integers(series) if kind == "id" else None
        found[name] = series if integers is None else integers
    return found


def _what_is_wrong(cell: str, kind: str) -> str:
    """Why a cell is not of a kind; empty if it is."""
    if "\ufffd" in cell:
        return NOT_UTF8
    if kind == "cell":
        return ""
    if not cell.strip():
        return NO_VALUE if kind in ("number", "truth") else "empty"
    if "\x00" in cell:
        return NUL
    if kind == "truth" and cell.strip().lower() not in TRUTH:
        return "is neither true nor false, as the values above it are"
    if kind == "number" and parse_number(cell) is None:
        return f"is not a number{number_hint(cell)}"
    return ""


# -- quotation marks and parts of a file -------------------------------------------------------------------------------
def find_quotes(text: bytes, separator: str) -> Quotes:
    """Find quotation marks, and whether they all enclose fields, unlike that of 12" vinyl."""
    at = _positions(text, '"')
    if not len(at):
        return Quotes(at, False, False)
    codes = np.frombuffer(text, np.uint8)
    between = np.zeros(256, bool)
    between[[ord(separator), ord("\r"), ord("\n")]] = True
    starts = between[codes[at - 1]] | (at == 0)
    # Every second mark ends a quoted part. A mark that begins one is at the start of a field, or the second of "" in it.
    between[ord('"')] = True
    begins = starts[0::2] | (codes[at[0::2] - 1] == ord('"'))
    ends = between[codes[np.minimum(at[1::2] + 1, len(codes) - 1)]] | (at[1::2] == len(codes) - 1)
    return Quotes(at, bool(starts.any()), not (begins.all() and ends.all()))


def _positions(text: bytes, sign: str) -> np.ndarray:
    return np.flatnonzero(np.frombuffer(text, np.uint8) == ord(sign)) if sign.encode() in text else np.zeros(0, np.int64)


def _blank_line(separator: str) -> bytes:
    """A pattern of lines of blanks; a line of separators is a record."""
    blank = re.escape(b" \t".replace(separator.encode(), b""))
    return rb"(?m)^[%s]*\r?\n|^[%s]+\r?\Z" % (blank, blank)


def parts(path: Path, layout: Layout) -> Iterator[Part]:
    """A file of text, packed or not, in parts of complete records. Line breaks in quoted fields do not end a record."""
    left, line, first = b"", 1, True
    with _open_bytes(path) as file:
        while True:
            data = file.read(BYTES)
            text = left + data
            if first:  # until a part was found
                text = text.removeprefix(BOM)
                blank = len(text) - len(text.lstrip(b"\r\n"))
                line, text = line + _lines(text[:blank]), text[blank:]
            end, quotes = _last_end(path, text, layout.separator, line) if data else (len(text), None)
            text, left = text[:end], text[end:]
            if text.strip(b"\r\n"):
                empty = text.endswith((b"\n\n", b"\n\r\n", b"\r\r"))  # lines at the end: with them polars counts too many
                yield Part(text.rstrip(b"\r\n") if empty else text, line, layout.header and first, quotes)
                first = False
            line += _lines(text)
            if not data:
                return


def _lines(text: bytes) -> int:
    """Number of line ends: line feeds, carriage returns, or both together."""
    return text.count(b"\n") + (text.count(b"\r") - text.count(b"\r\n") if b"\r" in text else 0)


@contextmanager
def _open_bytes(path: Path) -> Iterator[Any]:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield file
    except gzip.BadGzipFile:
        raise FileError(f"{path} is damaged, or not compressed by gzip despite its ending .gz: write it again") from None
    except EOFError:
        raise FileError(f"{path} is truncated: the packed file is not complete; download or write it again") from None
    except (OSError, zlib.error) as error:
        raise FileError(f"{path} cannot be read: {error}") from None


def _last_end(path: Path, text: bytes, separator: str, line: int) -> tuple[int, Quotes | None]:
    """The end of the last complete record: after a line break that is not in a quoted field; 0 if there is none.

    Also the quotation marks before it, if they all enclose fields: they need not be found again.
    """
    ending = "\n" if b"\n" in text else "\r"
    end = len(text) - (ending == "\r" and text.endswith(b"\r"))  # a line feed may follow
    quotes = find_quotes(text, separator)
    if not quotes.at_start:
        found = text.rfind(ending.encode(), 0, end) + 1
    elif quotes.stray:
        return _last_end_by_csv(path, text, separator, line), None
    else:
        breaks = _positions(text[:end], ending)
        outside = breaks[quotes.count_before(breaks) % 2 == 0]
        if not len(outside) and len(text) >= BYTES + MAX_FIELD:
            return _last_end_by_csv(path, text, separator, line), None
        found = int(outside[-1]) + 1 if len(outside) else 0
    before = int(quotes.count_before(found))
    return found, None if quotes.stray else quotes._replace(at=quotes.at[:before], at_start=before > 0 and quotes.at_start)


def _last_end_by_csv(path: Path, text: bytes, separator: str, line: int) -> int:
    """The same line by line, where some quotation marks are ordinary characters."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD))
    each = text.splitlines(keepends=True)
    reader = csv.reader((one.decode("utf-8", "replace") for one in each), delimiter=separator)
    last = before = 0
    try:
        for _ in reader:
            before, last = last, reader.line_num  # the last record may be incomplete
    except csv.Error:
        raise FileError(f'{path}, line {line + last}: a quotation mark (") opens a field that never ends') from None
    return sum(map(len, each[:before]))
