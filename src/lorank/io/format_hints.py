"""Checks of file formats, with remedies for files that cannot be read."""

from __future__ import annotations

import re
from pathlib import Path

from .archive import FileError

UTF8 = "save it as UTF-8 (in Excel: CSV UTF-8), or convert it: iconv -f {} -t UTF-8"
SHEET = "is a workbook: save the sheet as CSV, or read it in Python with pandas.read_excel"
KINDS = {  # by the first bytes
    b"PK\x03\x04": f"{SHEET} (or it is another ZIP archive)",
    b"\xd0\xcf\x11\xe0": SHEET,
    b"PAR1": "is a Parquet file: rename it to .parquet",
    b"\xff\xfe": f"is text in UTF-16: {UTF8.format('UTF-16')}",
    b"\xfe\xff": f"is text in UTF-16: {UTF8.format('UTF-16')}",
    b"%PDF": "is a PDF file: export its table as CSV",
    b"\x1f\x8b": "is packed by gzip: rename it to .csv.gz",
}
NOT_UTF8 = f"is not text in UTF-8 but perhaps in Latin-1: {UTF8.format('WINDOWS-1252')}"
SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
DECIMAL_COMMA = r"^[+-]?\d+,\d+$"
THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$"
NO_VALUE = ("na", "nan", "null", "none", "n/a", "#n/a", "n.a.", "<na>", "nil", "missing")
ADDRESS = re.compile(r"^(https?|ftp|s3|gs|gcs|az|file):/")
JSON = re.compile(rb'^\s*[\[{]\s*["{\[]')
MODEL = "is a model, and a table is needed: lorank inspect shows its content"
JSON_FILE = "is JSON: read it in Python with pandas.read_json, and write it with to_csv"
NUL = "holds NUL bytes: remove them, as with tr -d '\\000', or export it again"
POINTS = "numbers need decimal points: read it with pandas.read_csv(..., decimal=',') and write it again with to_csv"


def check_is_local(path: str | Path) -> None:
    """Raise a FileError for URLs and standard input."""
    if str(path) == "-":
        raise FileError("- (standard input) cannot be read: write it to a file first, because files are read twice")
    if ADDRESS.match(str(path)):
        raise FileError(f"{path} is an address: download the file first, for example with curl -O")


def check_is_text(path: Path) -> None:
    """Raise a FileError if the first bytes are not those of delimited text."""
    check_is_local(path)
    if path.is_dir():
        raise FileError(f"{path} is a folder: name a file in it")
    if path.suffix.lower() == ".lorank":
        raise FileError(f"{path} {MODEL}")
    try:
        with path.open("rb") as file:
            start = file.read(1 << 10)
    except OSError:
        return  # reading the file gives the error
    if re.match(rb"(\xef\xbb\xbf)?\s*<(!doctype|html|\?xml)", start, re.IGNORECASE):
        raise FileError(f"{path} is a web page or other XML, perhaps an error page: download the file again")
    if start.startswith(b"version https://git-lfs"):
        raise FileError(f"{path} is a pointer of Git LFS: run git lfs pull")
    if JSON.match(start):
        raise FileError(f"{path} {JSON_FILE}")
    if start.startswith(b"sep=") or start.startswith(b"\xef\xbb\xbfsep="):
        raise FileError(f"{path}: the first line, sep=..., is for Excel only: delete it, as with tail -n +2 {path} > table.csv")
    for begin, what in KINDS.items():
        if start.startswith(begin) and not (begin == b"\x1f\x8b" and path.suffix.lower() == ".gz"):
            raise FileError(f"{path} {what}")
    if start[:256].count(0) > len(start[:256]) // 4:
        raise FileError(f"{path} is text in UTF-16, or binary: {UTF8.format('UTF-16')}")


def number_hint(cell: str) -> str:
    """A remedy for a cell that is not a number, as the end of a message."""
    cell = cell.strip()
    if re.match(THOUSANDS, cell):
        decimal = "" if "." in cell or cell.count(",") > 1 else f" ({cell.replace(',', '.')} if it is a decimal one)"
        return f"; write it without commas between thousands{decimal}"
    if re.match(DECIMAL_COMMA, cell):
        return f"; {POINTS}"
    if cell.lower() in NO_VALUE:
        return "; leave out lines without a value"
    return "; write the number alone" if re.search(r"[0-9]", cell) and cell.isascii() and "_" not in cell else ""


def separator_of(path: Path, start: str) -> str:
    """Separator of the fields, from the first line of a file."""
    best = max("\t;,", key=start.count)  # in a tie with the semicolon, commas are decimal
    if best in start:
        return best
    if "::" in start:
        raise FileError(f"{path}: fields are separated by '::'; convert it to a tab: sed 's/::/\\t/g' {path} > ratings.tsv")
    if "|" in start:
        return "|"
    cells = start.split()
    if len(cells) > 1 and all(re.match(r"^[+-]?\d", cell) for cell in cells):
        raise FileError(f"{path}: fields are separated by spaces; convert them to tabs: tr -s ' ' '\\t' < {path} > table.tsv")
    return ","
