"""What a file is that cannot be read as it is, and what to do about it."""

from __future__ import annotations

import re
from pathlib import Path

from .archive import FileError

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
THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$"
NO_VALUE = ("na", "nan", "null", "none", "n/a", "#n/a", "n.a.", "<na>", "nil", "missing")
ADDRESS = re.compile(r"^(https?|ftp|s3|gs|gcs|az|file):/")
JSON = re.compile(rb'^\s*[\[{]\s*["{\[]')
NUL = "holds NUL bytes, which no text has: remove them, as with tr -d '\\000', or export it again"
POINTS = "numbers need decimal points: read it with pandas.read_csv(..., decimal=',') and write it again with to_csv"


def check_is_local(path: str | Path) -> None:
    """A FileError for what is no file on this machine: an address, or standard input."""
    if str(path) == "-":
        raise FileError(
            "- (standard input) cannot be read, as files are looked at twice: write it to a file first, and name that"
        )
    if ADDRESS.match(str(path)):
        raise FileError(f"{path} is an address: download the file first, with curl -O for example, and name that")


def check_is_text(path: Path) -> None:
    """A FileError where the first bytes are those of another kind of file than text."""
    check_is_local(path)
    if path.is_dir():
        raise FileError(f"{path} is a folder: name a file in it")
    if path.suffix.lower() == ".lorank":
        raise FileError(f"{path} is a model, where a table is asked for: lorank inspect says what it holds")
    try:
        with path.open("rb") as file:
            start = file.read(1 << 10)
    except OSError:
        return  # whoever reads it says why
    if re.match(rb"(\xef\xbb\xbf)?\s*<(!doctype|html|\?xml)", start, re.IGNORECASE):
        raise FileError(f"{path} is a web page or other XML, maybe one that says why there is no file: download it again")
    if start.startswith(b"version https://git-lfs"):
        raise FileError(f"{path} is a pointer to a file in Git LFS: git lfs pull brings the file itself")
    if JSON.match(start):
        raise FileError(f"{path} is JSON: read it in Python with pandas.read_json, and write it with to_csv")
    if start.startswith(b"sep=") or start.startswith(b"\xef\xbb\xbfsep="):
        raise FileError(
            f"{path}: its first line, sep=..., is for Excel alone: delete it, as with tail -n +2 {path} > table.csv"
        )
    for begin, what in KINDS.items():
        if start.startswith(begin) and not (begin == b"\x1f\x8b" and path.suffix.lower() == ".gz"):
            raise FileError(f"{path} {what}")
    if start[:256].count(0) > len(start[:256]) // 4:
        raise FileError(f"{path} is text in UTF-16, or no text at all: {UTF8.format('UTF-16')}")


def number_hint(cell: str) -> str:
    """The end of a message about a cell that is no number: what to do about it, where one can tell."""
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
