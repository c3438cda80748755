"""Header detection: does the first line of a delimited file hold names or data?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from enum import Enum

MISSING = ("", "na", "nan", "null", "none", "n/a", "#n/a", "n.a.", "<na>", "?", "-")  # cells without a value, in lower case
MAX_DIGITS = 18  # longer integers may not fit into 64 bits: they are text
YEARS = range(1800, 2201)
ROW_NAMES = ("user", "row", "customer", "client", "reader", "viewer", "member", "person", "account", "username", "userid", "i")
COL_NAMES = (
    *("item", "movie", "film", "col", "column", "product", "article", "book", "song", "track", "artist", "show", "game"),
    *("recipe", "business", "title", "isbn", "asin", "j"),
)
VALUE_NAMES = ("rating", "value", "score", "stars", "grade", "y", "x", "count", "plays", "ratings", "values", "scores")
KNOWN_NAMES = frozenset((*ROW_NAMES, *COL_NAMES, *VALUE_NAMES))


class Header(Enum):
    """What the first line is, by the evidence of the lines below it."""

    NAMES = "names"
    DATA = "data"
    ASSUMED = "names, without evidence"
    AMBIGUOUS = "names or data"


def detect_header(first: Sequence[str], sample: Sequence[Sequence[str]]) -> Header:
    """Decide whether the first line holds names.

    Text above numbers, and known names of columns such as ``user``, are names. A line of numbers is data, unless it consists of
    years or of 0, 1, 2, ... as pandas writes them: these are names if the values below differ in kind or range, and ambiguous
    otherwise. Text that occurs again in its own column is ambiguous, too.

    Parameters
    ----------
    first : sequence of str
        Cells of the first line.
    sample : sequence of records
        Some lines below it.
    """
    cells = [cell.strip() for cell in first]
    numbers = [parse_number(cell) for cell in cells]
    columns = [[record[k].strip() for record in sample if len(record) > k] for k in range(len(cells))]
    if any(number is None and cell.lower() not in MISSING for number, cell in zip(numbers, cells, strict=True)):
        return _detect_text(cells, numbers, columns)
    if not cells[0] and len(cells) > 1 and all(map(is_integer, cells[1:])):
        return Header.NAMES  # an index without a name, and years, as pandas writes them
    if all(number is None for number in numbers):
        return Header.NAMES
    if any(number is None for number in numbers) or len(cells) < 2 or not _is_label_sequence(cells):
        return Header.DATA
    differ = sum(_differs(float(cell), column) for cell, column in zip(cells, columns, strict=True))
    if 2 * differ >= len(cells):
        return Header.NAMES if cells[0] != "1" else Header.AMBIGUOUS
    return Header.DATA if cells[0] == "1" else Header.AMBIGUOUS


def _detect_text(cells: list[str], numbers: list[float | None], columns: list[list[str]]) -> Header:
    if any(plain_name(cell) in KNOWN_NAMES for cell in cells):
        return Header.NAMES
    texts = [k for k, number in enumerate(numbers) if number is None and cells[k].lower() not in MISSING]
    for k in texts:
        there = [cell for cell in columns[k] if cell.lower() not in MISSING]
        if there and all(parse_number(cell) is not None for cell in there):
            return Header.NAMES
    return Header.AMBIGUOUS if any(cells[k] in columns[k] for k in texts) else Header.ASSUMED


def _is_label_sequence(cells: list[str]) -> bool:
    """Whether cells are 0, 1, 2, ..., or 1, 2, 3, ..., or increasing years."""
    if not all(map(is_integer, cells)):
        return False
    labels = [int(cell) for cell in cells]
    years = all(label in YEARS for label in labels) and all(a < b for a, b in itertools.pairwise(labels))
    return years or (labels[0] in (0, 1) and labels == list(range(labels[0], labels[0] + len(labels))))


def _differs(label: float, column: list[str]) -> bool:
    """Whether a number in the first line is of another kind, or far from the values below it."""
    cells = [cell for cell in column if cell.lower() not in MISSING]
    values = [value for cell in cells if (value := parse_number(cell)) is not None]
    if len(values) < len(cells):
        return True
    if len(values) < 2:
        return False
    low, high = min(values), max(values)
    return any(value % 1 for value in values) or not low - (high - low) <= label <= high + (high - low)


def parse_number(cell: str) -> float | None:
    """A finite number, or None. Plain notation only: no underscores, no nan."""
    cell = cell.strip()
    if not cell or "_" in cell or not cell[-1:].isascii():
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_integer(cell: str) -> bool:
    """Whether a cell is an integer of 64 bits in canonical notation: not 007, not +7."""
    return cell.isascii() and cell.removeprefix("-").isdigit() and len(cell) < MAX_DIGITS and cell == str(int(cell))


def plain_name(name: str) -> str:
    """Name of a column for comparison: ``userId``, ``USER_ID`` and ``user`` are the same."""
    name = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    return name[:-2] if name.endswith("id") and len(name) > 2 else name
