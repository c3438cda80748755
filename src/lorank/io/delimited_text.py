"""Delimited text: separator, names and records of CSV and TSV files, as Python's csv module reads them."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .archive import FileError
from .format_hints import NOT_UTF8, NUL, check_is_text, separator_of
from .header import Header, detect_header

MAX_FIELD = 1 << 20  # characters
SAMPLE = 200  # records
TRUTH = {"true": 1.0, "false": 0.0}  # in lower case


def polars() -> Any:
    """The module polars, or a FileError with the command that installs it."""
    try:
        import polars
    except ImportError:
        raise FileError('reading files needs polars: pip install "lorank[files]"') from None
    return polars


class Layout(NamedTuple):
    """Layout of a file: separator, names of the columns, whether they stand in the first line, and some records.

    ``assumed``: there is no evidence that the first line holds names.
    """

    separator: str
    names: list[str]
    header: bool
    sample: list[list[str]]
    assumed: bool = False


class Quotes(NamedTuple):
    """Quotation marks of a text: positions, whether some stand at the start of a field, and whether some enclose no field."""

    at: np.ndarray
    at_start: bool
    stray: bool

    def count_before(self, positions: Any) -> Any:
        """Number of quotation marks before each position."""
        return np.searchsorted(self.at, positions)


class Part(NamedTuple):
    """Complete records of a file: text, number of the first line, whether the first record is the header, quotation marks.

    Quotation marks are None where they have not been found, or where some enclose no field.
    """

    text: bytes
    line: int
    header: bool
    quotes: Quotes | None = None


def open_text(path: Path) -> Any:
    """The file as text; bytes that are not UTF-8 become U+FFFD."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    return opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="")


def records(path: Path, separator: str, part: Part | None = None) -> Iterator[tuple[int, list[str]]]:
    """Nonempty records of a file or of a part of it, with line numbers, by Python's csv module."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD))
    with open_text(path) if part is None else io.StringIO(part.text.decode("utf-8", "replace"), newline="") as file:
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
                raise FileError(f'{path}, line {first}: a quotation mark (") opens a field that never ends') from None
            raise FileError(f"{path}, line {before + reader.line_num}: {error}") from None


def read_layout(path: Path, header: bool | None = None) -> Layout:
    """Find the separator and the names of the columns.

    The separator is a tab in ``.tsv`` and ``.tab`` files, and else the most frequent candidate in the first line.

    Parameters
    ----------
    path : path
    header : bool, optional
        Whether the first line holds names; by default detected.

    Raises
    ------
    FileError
        If the file is not text, or it is ambiguous whether the first line holds names.
    """
    check_is_text(path)
    try:
        with open_text(path) as file:
            start = next((line for line in iter(lambda: file.readline(1 << 16), "") if line.strip("\r\n")), "")
        tabs = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
        separator = "\t" if tabs else separator_of(path, start)
        sample = [record for _, record in itertools.islice(records(path, separator), SAMPLE + 1)]
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except gzip.BadGzipFile:
        raise FileError(f"{path} is not compressed by gzip despite its ending .gz: rename it without .gz") from None
    except EOFError:
        raise FileError(f"{path} is truncated: the packed file is not complete; download or write it again") from None
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
    first, others = sample[0], sample[1:]
    found = detect_header(first, others) if header is None else (Header.NAMES if header else Header.DATA)
    if found is Header.AMBIGUOUS:
        raise FileError(
            f"{path}: the first line, {separator.join(first)!r}, may be a header or data: pass --header or --no-header "
            "(header=True or header=False in Python)"
        )
    if found is Header.DATA:
        return Layout(separator, [f"column_{k + 1}" for k in range(len(first))], False, sample)
    names = [cell.strip() for cell in first]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileError(f"{path}: two columns are called {twice!r}; rename one of them")
    return Layout(separator, names, True, others, found is Header.ASSUMED)


def kind_of_values(layout: Layout, name: str) -> str:
    """``"truth"`` for a column of true and false, which are read as 1 and 0; else ``"number"``."""
    at = layout.names.index(name)
    cells = [record[at].strip().lower() for record in layout.sample if len(record) > at]
    return "truth" if cells and all(cell in TRUTH for cell in cells) else "number"
