"""Columns of delimited text, all of them at once or part after part, by the same rules: ids as written, values as numbers."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .archive import FileError
from .delimited_text import DIGITS, FIELD, TRUTH, Part, as_written, complain, lines, polars, records, whole

BYTES = 1 << 24  # of a part
BOM = b"\xef\xbb\xbf"


def read_columns(
    path: Path, separator: str, names: Sequence[str], named: bool, kinds: Mapping[str, str], part: Part | None = None
) -> dict[str, Any]:
    """Columns by name, as polars series, of a file or of a part of it.

    Ids are read as text, in the same pass as all else, and are whole numbers where each is written as one.

    Parameters
    ----------
    path : path
    separator : str
    names : sequence of str
    named : bool
        Whether they stand in the file's first line.
    kinds : mapping
        "number", "truth" (true and false, which are 1 and 0), "text", or "id", which is whole numbers or text, for each column
        that is wanted.
    part : Part, optional

    Raises
    ------
    FileError
        With line, column and value where something does not parse.
    """
    pl = polars()
    header = named and (part is None or part.first)
    types = [pl.Float64 if kinds.get(name) == "number" else pl.String for name in names]
    written = as_written(path, separator, names, header)
    try:
        if _ends_of_old(path, part) or (part is None and len(kinds) < len(names) and _has_lone_returns(path)):
            raise ValueError("polars knows no lines that end so, and says nothing where some columns are not asked for")
        frame = pl.read_csv(
            path if part is None else part.text,
            separator=separator,
            has_header=header,
            schema=dict(zip(written, types, strict=True)),
            columns=[names.index(name) for name in kinds],
            low_memory=True,
            raise_if_empty=False,
            glob=False,
        )
    except (pl.exceptions.PanicException, pl.exceptions.PolarsError, OSError, ValueError):
        return _slowly(path, separator, names, header, kinds, part)
    out = {}
    for name, kind in kinds.items():
        column = written[names.index(name)]
        series = frame.get_column(column).alias(name)
        frame = frame.drop(column)  # ids as text take twice the room of numbers: one column at a time has both
        if kind == "truth":
            series = series.str.strip_chars().str.to_lowercase().replace_strict(TRUTH, default=None, return_dtype=pl.Float64)
        if series.null_count() or (kind == "number" and not series.is_finite().all()):
            return _slowly(path, separator, names, header, kinds, part)
        found = as_whole(series) if kind == "id" else None
        if found is None and series.dtype == pl.String and _doubtful(series):
            return _slowly(path, separator, names, header, kinds, part)
        out[name] = series if found is None else found
    return out


def _ends_of_old(path: Path, part: Part | None) -> bool:
    """Whether lines end in a carriage return alone: the first of a file, or any of a part."""
    if part is not None:
        return _lone_returns(part.text)
    with lines(path) as file:
        return str(file.readline(1 << 16)).endswith("\r")


def _has_lone_returns(path: Path) -> bool:
    with _opened(path) as file:
        last = b""
        while some := file.read(BYTES):
            if _lone_returns(last + some.removesuffix(b"\r")):
                return True
            last = b"\r" if some.endswith(b"\r") else b""
    return bool(last)


def _lone_returns(text: bytes) -> bool:
    """Whether there are carriage returns without a line feed after them."""
    return b"\r" in text and text.count(b"\r") != text.count(b"\r\n")


def as_whole(series: Any) -> Any:
    """Text as whole numbers where each is written as one would write it back, else None: 007 and +7 would both be 7.

    See :func:`lorank.io.delimited_text.whole`, which says the same of one cell.
    """
    pl = polars()
    if not len(series) or series.str.len_bytes().max() >= DIGITS:
        return None
    found = series.cast(pl.Int64, strict=False)
    if found.null_count():
        return None
    text = series.str
    others = ((text.len_bytes() > 1) & text.starts_with("0")) | text.starts_with("-0") | text.starts_with("+")
    return None if others.any() else found


def _doubtful(series: Any) -> bool:
    """Whether some cells are blank, or hold what no text has, or what may have ended a line."""
    text = series.str
    odd = (text.strip_chars() == "") | text.contains("\x00", literal=True) | text.contains("\r", literal=True)
    return bool(odd.any())


def _slowly(
    path: Path, separator: str, names: Sequence[str], header: bool, kinds: Mapping[str, str], part: Part | None
) -> dict[str, Any]:
    """The same by Python's csv module, for what polars stumbles over (empty lines, say) and to find what is wrong."""
    pl = polars()
    complain(path, separator, names, header, kinds, part)
    rows = [record for _, record in records(path, separator, part)][int(header) :]
    out = {}
    for name, kind in kinds.items():
        at = names.index(name)
        cells = [row[at] for row in rows]
        if kind == "number":
            out[name] = pl.Series(name, [float(cell) for cell in cells], pl.Float64)
        elif kind == "truth":
            out[name] = pl.Series(name, [TRUTH[cell.strip().lower()] for cell in cells], pl.Float64)
        elif kind == "id" and cells and all(map(whole, cells)):
            out[name] = pl.Series(name, [int(cell) for cell in cells], pl.Int64)
        else:
            out[name] = pl.Series(name, cells, pl.String)
    return out


# -- parts of a file -------------------------------------------------------------------------------------------------------
def parts(path: Path, separator: str) -> Iterator[Part]:
    """A file of text, packed or not, some records at a time. Line breaks within quotes do not end a record."""
    left, line, first = b"", 1, True
    with _opened(path) as file:
        while True:
            data = file.read(BYTES)
            some = (left + data).removeprefix(BOM) if first else left + data
            end = _last_end(path, some, separator, line) if data else len(some)
            text, left = some[:end], some[end:]
            if text.lstrip(b"\r\n"):
                empty = text.endswith((b"\n\n", b"\n\r\n", b"\r\r"))  # lines at the end: with them it would be read slowly
                yield Part(text.rstrip(b"\r\n") if empty else text, line, first)
                first = False
            line += text.count(b"\n") + (text.count(b"\r") - text.count(b"\r\n") if b"\r" in text else 0)
            if not data:
                return


def text_of(path: Path) -> bytes:
    """All of it, unpacked."""
    with _opened(path) as file:
        return bytes(file.read()).removeprefix(BOM)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield file
    except gzip.BadGzipFile:
        raise FileError(f"{path} is not packed by gzip, as its ending .gz says, or damaged: write it again") from None
    except EOFError:
        raise FileError(f"{path} ends in the middle: the packed file is not all there, fetch or write it again") from None
    except (OSError, zlib.error) as error:
        raise FileError(f"{path} cannot be read: {error}") from None


def _last_end(path: Path, text: bytes, separator: str, line: int) -> int:
    """The end of the last record that is whole: after a line break before which quotes come in pairs."""
    ending = b"\n" if b"\n" in text else b"\r"
    quotes, end = text.count(b'"'), len(text)
    if ending == b"\r":
        end -= text.endswith(b"\r")  # a line feed may follow
    if quotes and _has_letters_of_quotes(text, separator):
        return _last_end_exactly(path, text, separator, line)
    while (at := text.rfind(ending, 0, end)) >= 0:
        quotes -= text.count(b'"', at, end)
        if quotes % 2 == 0:
            return at + 1
        end = at
    return 0 if len(text) < BYTES + FIELD else _last_end_exactly(path, text, separator, line)


def _has_letters_of_quotes(text: bytes, separator: str) -> bool:
    """Whether some quotes may be letters like others, as in 5" pipe or 12": those do not come in pairs."""
    between = re.escape(separator.encode()) + rb'\r\n"'
    pairs = re.match(rb'(?:[^"]*+(?:\A|(?<=[%s]))"[^"]*+")*+' % between, text)  # that begin where a field does
    end = 0 if pairs is None else pairs.end()
    at = text.find(b'"', end)
    if at < 0:
        return False
    begins = at == 0 or text[at - 1 : at] in (separator.encode(), b"\r", b"\n", b'"')
    return not begins or text.find(b'"', at + 1) >= 0  # else the last field goes on


def _last_end_exactly(path: Path, text: bytes, separator: str, line: int) -> int:
    """The same line by line, where some quotes are letters like others: those within a field that does not begin with one."""
    csv.field_size_limit(max(csv.field_size_limit(), FIELD))
    each = text.splitlines(keepends=True)
    reader = csv.reader((one.decode("utf-8", "replace") for one in each), delimiter=separator)
    last = before = 0
    try:
        for _ in reader:
            before, last = last, reader.line_num  # the last of them may go on
    except csv.Error:
        raise FileError(f'{path}, line {line + last}: a quotation mark (") is opened there, and never closed') from None
    return sum(map(len, each[:before]))
