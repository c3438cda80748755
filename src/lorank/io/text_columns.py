"""Columns of delimited text, read by polars in parts and checked to be the records of Python's csv module."""

from __future__ import annotations

import copy
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from .archive import FileError
from .delimited_text import MAX_FIELD, TRUTH, Layout, Part, polars, raise_first_error, records
from .header import MAX_DIGITS

BYTES = 1 << 24  # of a part
FEW = 1 << 10  # bytes
BOM = b"\xef\xbb\xbf"


def read_columns(
    path: Path, separator: str, names: Sequence[str], header: bool, kinds: Mapping[str, str], part: Part | None = None
) -> dict[str, Any]:
    """Columns by name, as polars series, of a file or of a part of it.

    Parameters
    ----------
    path : path
    separator : str
    names : sequence of str
        All columns of the file.
    header : bool
        Whether the file's first line holds the names.
    kinds : mapping
        For each column to be read: ``"number"``, ``"truth"`` (true and false, read as 1 and 0), ``"text"``, or ``"id"``, which
        is integers if each cell is one in canonical notation, and else text.
    part : Part, optional
        By default the whole file.

    Raises
    ------
    FileError
        With line, column and value of a cell that does not parse.
    """
    pl = polars()
    read = [_read_part(path, separator, names, header, kinds, one) for one in ([part] if part else parts(path, separator))]
    found = {}
    for name, kind in kinds.items():
        columns = [column for part_columns in read if len(column := part_columns.pop(name))]
        if len({column.dtype for column in columns}) > 1:  # integers in some parts: their notation is canonical
            columns = [column.cast(pl.String) for column in columns]
        empty = pl.Series(name, [], pl.Float64 if kind in ("number", "truth") else pl.String)
        found[name] = pl.concat(columns) if columns else empty
    return found


def _read_part(
    path: Path, separator: str, names: Sequence[str], header: bool, kinds: Mapping[str, str], part: Part
) -> dict[str, Any]:
    pl = polars()
    header = header and part.first
    types = {name: pl.Float64 if kind == "number" else pl.String for name, kind in kinds.items()}
    frame = _polars_frame(part.text, separator, names, header, types, part.quotes)
    found = None if frame is None else _parsed(frame, kinds, part)
    if found is None:  # cells that do not parse, empty lines, or text that polars reads differently
        raise_first_error(path, separator, names, header, kinds, part)
        found = _parsed(_csv_frame(path, separator, names, header, types, part), kinds, None)
    assert found is not None
    return found


def _parsed(frame: Any, kinds: Mapping[str, str], part: Part | None) -> dict[str, Any] | None:
    """Series of the kinds; None if cells are missing or invalid. Without a part, cells have been checked."""
    pl = polars()
    found = {}
    for name, kind in kinds.items():
        series = frame.get_column(name)
        if kind == "truth":
            series = series.str.strip_chars().str.to_lowercase().replace_strict(TRUTH, default=None, return_dtype=pl.Float64)
        integers = as_integers(series) if kind == "id" else None
        if part is not None and integers is None:
            numeric = series.dtype == pl.Float64
            if series.null_count() or (not series.is_finite().all() if numeric else _has_invalid_text(series, part.text)):
                return None
        found[name] = series if integers is None else integers
    return found


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


def _has_invalid_text(series: Any, source: bytes) -> bool:
    """Whether cells are blank, or hold NUL or a carriage return."""
    text = series.str
    odd = any(sign.encode() in source and text.contains(sign, literal=True).any() for sign in ("\x00", "\r"))
    return odd or bool((text.strip_chars() == "").any())


# -- exact reading -----------------------------------------------------------------------------------------------------
def _polars_frame(
    text: bytes,
    separator: str,
    names: Sequence[str],
    header: bool,
    types: Mapping[str, Any],
    quotes: Quotes | None = None,
) -> Any:
    """The columns in ``types`` as polars reads them; None where its records might not be those of Python's csv module.

    polars takes every quotation mark for the begin or end of a quoted field, also in columns that are not read. Text with
    quotation marks inside unquoted fields (12" vinyl) is read without quoting if no field begins with one, and by the csv
    module otherwise. The number of records is checked.
    """
    pl = polars()
    if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):
        return None  # lines that end in a carriage return, which polars does not know
    quotes = quotes or Quotes(text, separator)
    if quotes.stray and quotes.at_start:
        return None
    lines = text.count(b"\n") if quotes.stray else quotes.lines
    expected = lines + (not text.endswith(b"\n") and bool(text)) - header
    body = text
    if header:
        stream = io.BytesIO(text)
        reader = csv.reader((line.decode("utf-8", "replace") for line in iter(stream.readline, b"")), delimiter=separator)
        skipped = 0
        for record in reader:
            if record:
                break
            skipped += 1
        body, expected = text[stream.tell() :], expected - skipped
    own = [f"c{k}" for k in range(len(names))]  # names of the file may be empty
    try:
        frame = pl.read_csv(
            separator.join(own).encode() + b"\n" + body,  # without names, polars refuses a short first line
            separator=separator,
            quote_char=None if quotes.stray else '"',
            schema={c: types.get(name, pl.String) for c, name in zip(own, names, strict=True)},
            columns=[names.index(name) for name in types],
            low_memory=True,
            raise_if_empty=False,
            glob=False,
        )
    except (pl.exceptions.PanicException, pl.exceptions.PolarsError, OSError, ValueError):
        return None
    if len(frame) != max(expected, 0):
        return None
    frame = frame.select([own[names.index(name)] for name in types])
    frame.columns = list(types)
    return frame


class Quotes:
    """Quotation marks of a text: do they all enclose fields?

    Attributes
    ----------
    stray : bool
        Whether some enclose no field, as in 12" vinyl.
    at_start : bool
        Whether some stand at the start of a field.
    open : bool
        Whether the text ends within a quoted field.
    """

    def __init__(self, text: bytes, separator: str) -> None:
        self.text = text
        self.stray = self.at_start = self.open = False
        self.at = np.zeros(0, np.int64)
        if b'"' not in text:
            return
        codes = np.frombuffer(text, np.uint8)
        self.at = np.flatnonzero(codes == ord('"'))
        between = np.zeros(256, bool)
        between[[ord(separator), ord("\r"), ord("\n")]] = True
        starts = between[codes[self.at - 1]] | (self.at == 0)
        self.at_start, self.open = bool(starts.any()), len(self.at) % 2 == 1
        # Every second mark ends a quoted part. A mark that begins one is at the start of a field, or the second of "" in it.
        between[ord('"')] = True
        begins = starts[0::2] | (codes[self.at[0::2] - 1] == ord('"'))
        after = np.minimum(self.at[1::2] + 1, len(codes) - 1)
        ends = between[codes[after]] | (self.at[1::2] == len(codes) - 1)
        self.stray = not (begins.all() and ends.all())

    def before(self, text: bytes) -> Quotes:
        """Those of a beginning of the text that ends outside of quoted fields."""
        found = copy.copy(self)
        found.text, found.at, found.open = text, self.at[: np.searchsorted(self.at, len(text))], False
        return found

    @property
    def lines(self) -> int:
        """Number of line feeds outside of quoted fields."""
        if not len(self.at):
            return self.text.count(b"\n")
        feeds = np.flatnonzero(np.frombuffer(self.text, np.uint8) == ord("\n"))
        return int((np.searchsorted(self.at, feeds) % 2 == 0).sum())


def _csv_frame(path: Path, separator: str, names: Sequence[str], header: bool, types: Mapping[str, Any], part: Part) -> Any:
    """The same by Python's csv module; cells must have been checked by :func:`raise_first_error`, or be text."""
    pl = polars()
    rows = [record for _, record in records(path, separator, part)][int(header) :]
    found = []
    for name, kind in types.items():
        at = names.index(name)
        cells = [row[at] if at < len(row) else None for row in rows]
        numbers = kind == pl.Float64
        found.append(pl.Series(name, [float(c) if c is not None else None for c in cells] if numbers else cells, kind))
    return pl.DataFrame(found)


def cell_blocks(path: Path, layout: Layout) -> Iterator[tuple[Part, Any]]:
    """All cells of a file as text, part by part; missing cells at the end of a line are null.

    Lines of blanks are skipped where there are several columns.
    """
    pl = polars()
    separator, names = layout.separator, layout.names
    types = dict.fromkeys(names, pl.String)
    for part in parts(path, separator):
        header = layout.header and part.first
        text = _without_blank_lines(part.text, separator) if len(names) > 1 else part.text
        frame = _polars_frame(text, separator, names, header, types)
        if frame is None:
            frame = _checked_csv_cells(path, layout, part, header)
        if len(frame):
            yield part, frame


def read_cells(path: Path, layout: Layout) -> Any:
    """All cells of a file as text; null where they are empty or missing."""
    pl = polars()
    frames = [frame for _, frame in cell_blocks(path, layout)]
    return pl.concat(frames) if frames else pl.DataFrame(dict.fromkeys(layout.names, pl.Series([], dtype=pl.String)))


def _checked_csv_cells(path: Path, layout: Layout, part: Part, header: bool) -> Any:
    pl = polars()
    names, rows = layout.names, []
    for line, record in records(path, layout.separator, part):
        if len(record) > len(names):
            comment = ", a comment: delete it" if names[0].startswith("#") else ""
            raise FileError(
                f"{path}, line {line}: {counted(len(record), 'field')} where the first line has {len(names)}{comment}"
            )
        if any("\ufffd" in cell for cell in record):
            raise FileError(f"{path}, line {line}: cannot be read as UTF-8")
        if len(names) < 2 or len(record) > 1 or record[0].strip():
            rows.append(record)
    columns = [[row[k] or None if k < len(row) else None for row in rows[int(header) :]] for k in range(len(names))]
    return pl.DataFrame([pl.Series(name, column, pl.String) for name, column in zip(names, columns, strict=True)])


def _without_blank_lines(text: bytes, separator: str) -> bytes:
    """The text without lines of blanks outside of quoted fields. A line of separators is a record."""
    blank = b" \t".replace(separator.encode(), b"")
    if not re.search(rb"(?m)^[%s]*\r?\n|^[%s]+\r?\Z" % (re.escape(blank), re.escape(blank)), text):
        return text
    quotes = Quotes(text, separator)
    quoted = bool(len(quotes.at)) and not quotes.stray
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if inside or line.strip(blank + b"\r\n"):
            kept.append(line)
        inside ^= quoted and line.count(b'"') % 2 == 1
    return b"".join(kept)


# -- parts of a file -------------------------------------------------------------------------------------------------------
def parts(path: Path, separator: str) -> Iterator[Part]:
    """A file of text, packed or not, in parts of complete records. Line breaks in quoted fields do not end a record."""
    left, line, first = b"", 1, True
    with _open_bytes(path) as file:
        while True:
            data = file.read(BYTES)
            some = (left + data).removeprefix(BOM) if first else left + data
            quotes = Quotes(some, separator)
            end = _last_end(path, some, separator, line, quotes) if data else len(some)
            text, left = some[:end], some[end:]
            if text[:FEW].lstrip(b"\r\n") or text.lstrip(b"\r\n"):
                empty = text.endswith((b"\n\n", b"\n\r\n", b"\r\r"))  # lines at the end: with them polars counts too many
                text_of_part = text.rstrip(b"\r\n") if empty else text
                yield Part(text_of_part, line, first, None if quotes.stray else quotes.before(text_of_part))
                first = False
            line += text.count(b"\n") + (text.count(b"\r") - text.count(b"\r\n") if b"\r" in text else 0)
            if not data:
                return


@contextmanager
def _open_bytes(path: Path) -> Iterator[Any]:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield file
    except gzip.BadGzipFile:
        raise FileError(f"{path} is not packed by gzip, as its ending .gz says, or damaged: write it again") from None
    except EOFError:
        raise FileError(f"{path} is truncated: the packed file is not complete; download or write it again") from None
    except (OSError, zlib.error) as error:
        raise FileError(f"{path} cannot be read: {error}") from None


def _last_end(path: Path, text: bytes, separator: str, line: int, quotes: Quotes) -> int:
    """The end of the last complete record: after a line break that is not in a quoted field."""
    ending = b"\n" if b"\n" in text else b"\r"
    end = len(text)
    if ending == b"\r":
        end -= text.endswith(b"\r")  # a line feed may follow
    if not quotes.at_start:
        return text.rfind(ending, 0, end) + 1
    if quotes.stray:
        return _last_end_exactly(path, text, separator, line)
    inside = quotes.open
    while (at := text.rfind(ending, 0, end)) >= 0:
        inside ^= text.count(b'"', at, end) % 2 == 1
        if not inside:
            return at + 1
        end = at
    return 0 if len(text) < BYTES + MAX_FIELD else _last_end_exactly(path, text, separator, line)


def _last_end_exactly(path: Path, text: bytes, separator: str, line: int) -> int:
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
