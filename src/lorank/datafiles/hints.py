"""What a file is that cannot be read as it is, and what to do about it."""

from __future__ import annotations

import re
from pathlib import Path

from ..files import FileError

UTF8 = "save it as UTF-8 (in Excel: CSV UTF-8), or convert it: iconv -f {} -t UTF-8"
SHEET = "is a workbook: save the sheet as CSV, or read it in Python with pandas.read_excel"
KINDS = {  # how files begin
    b"PK\x03\x04": f"{SHEET} (or it is another ZIP archive)",
    b"\xd0\xcf\x11\xe0": SHEET,
    b"PAR1": "is a Parquet file: give it the ending .parquet",
    b"\xff\xfe": f"is text in UTF-16: {UTF8.format('UTF-16')}",
    b"\xfe\xff": f"is text in UTF-16: {UTF8.format('UTF-16')}",
    b"%PDF": "is a PDF file: export its table as CSV",
    b"\x1f\x8b": "is packed by gzip: give it the ending .csv.gz",
}
NOT_UTF8 = f"is not text in UTF-8, maybe in Latin-1 as Windows writes it: {UTF8.format('WINDOWS-1252')}"
SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
DECIMAL_COMMA = r"^[+-]?\d+,\d+$"
POINTS = "numbers need decimal points: read it with pandas.read_csv(..., decimal=',') and write it again with to_csv"


def refuse_others(path: Path) -> None:
    """A FileError where the first bytes are those of another kind of file than text."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError:
        return  # whoever reads it says why
    for begin, what in KINDS.items():
        if start.startswith(begin) and not (begin == b"\x1f\x8b" and path.suffix.lower() == ".gz"):
            raise FileError(f"{path} {what}")


def comma_hint(cell: str) -> str:
    """The end of a message about a cell that is no number, where a decimal comma is the reason."""
    return f"; {POINTS}" if re.match(DECIMAL_COMMA, cell.strip()) else ""


def separator_of(path: Path, start: str) -> str:
    """What stands between the fields of a file's first line."""
    best = max("\t;,", key=start.count)  # the semicolon first: where it ties with the comma, that is a decimal one
    if best in start:
        return best
    if "::" in start:
        raise FileError(f"{path}: fields have '::' between them; make it a tab first: sed 's/::/\\t/g' {path} > ratings.tsv")
    if "|" in start:
        return "|"
    cells = start.split()
    if len(cells) > 1 and all(re.match(r"^[+-]?\d", cell) for cell in cells):
        raise FileError(f"{path}: fields have spaces between them; make them tabs first: tr -s ' ' '\\t' < {path} > table.tsv")
    return ","
