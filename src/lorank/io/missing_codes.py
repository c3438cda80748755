"""Codes for missing values: those that a user names, and numbers such as -999 that look like codes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.checks import counted
from .delimited_text import polars
from .header import MISSING, parse_number

CANDIDATES = np.array([sign * (10.0**k - 1) for k in range(2, 7) for sign in (-1, 1)])  # -99, 99, -999, ..., 999999
MIN_COPIES, MIN_SHARE = 3, 0.002  # of all values: rarer ones may be outliers
LEAVE_OUT = "leave out such lines"


@dataclass(frozen=True)
class MissingCodes:
    """Codes for missing values beyond empty cells, NA and the like.

    Attributes
    ----------
    numbers : tuple of float
        They match in any notation.
    words : tuple of str
        In lower case; they match in any case.
    """

    numbers: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, cells: Sequence[str]) -> MissingCodes:
        """Codes as they are written.

        Examples
        --------
        >>> MissingCodes.of(["-999", "Unknown"])
        MissingCodes(numbers=(-999.0,), words=('unknown',))
        """
        found = [(cell, parse_number(cell)) for cell in cells]
        words = tuple(cell.strip().lower() for cell, value in found if value is None)
        return cls(tuple(value for _, value in found if value is not None), words)

    def mask(self, cells: Any, always: Sequence[str] = MISSING) -> Any:
        """Which cells of text, stripped of blanks, are missing; ``always`` are codes of all files."""
        found = cells.str.to_lowercase().is_in([*always, *self.words])
        if self.numbers:
            found |= cells.cast(polars().Float64, strict=False).is_in(list(self.numbers)).fill_null(False)
        return found

    def to_null(self, frame: Any) -> Any:
        """A frame with typed columns, with null in place of the codes."""
        pl = polars()
        new = []
        for column in frame.iter_columns():
            if column.dtype.is_numeric() and self.numbers:
                new.append(column.set(column.cast(pl.Float64).is_in(list(self.numbers)).fill_null(False), None))
            elif column.dtype == pl.String and (self.words or self.numbers):
                new.append(column.set(self.mask(column.str.strip_chars(), ()).fill_null(False), None))
        return frame.with_columns(new) if new else frame


NO_CODES = MissingCodes()


class SuspectedCodes:
    """Detection of numbers that may be codes for missing values; they are read as numbers, with a warning.

    Parameters
    ----------
    where : str
        File and column, for the message.
    remedy : str
        What to do, with {} for the number.
    """

    def __init__(self, where: str, remedy: str) -> None:
        self.where, self.remedy, self.total = where, remedy, 0
        self.copies = np.zeros(len(CANDIDATES), np.int64)
        self.low, self.high = np.inf, -np.inf  # of the other values

    def add(self, values: np.ndarray) -> None:
        """Add values of the column; nan is missing."""
        values = values[~np.isnan(values)] if np.isnan(values).any() else values
        self.total += len(values)
        if not len(values):
            return
        low, high = values.min(), values.max()
        if low <= -99 or high >= 99:
            known = np.isin(values, CANDIDATES)
            self.copies += (values[known][:, None] == CANDIDATES).sum(0)
            values = values[~known]
            if not len(values):
                return
            low, high = values.min(), values.max()
        self.low, self.high = min(self.low, low), max(self.high, high)

    def found(self) -> list[tuple[float, int]]:
        """Candidates whose distance to the other values exceeds the range of these, and their numbers of copies."""
        spread = self.high - self.low
        if not np.isfinite(spread):
            return []
        far = np.maximum(self.low - CANDIDATES, CANDIDATES - self.high) > spread
        often = self.copies >= max(MIN_COPIES, MIN_SHARE * self.total)
        return [(float(CANDIDATES[k]), int(self.copies[k])) for k in np.flatnonzero(far & often)]

    def warn(self, stacklevel: int = 2) -> None:
        """Warn about what was found."""
        for value, copies in self.found():
            warnings.warn(
                f"{self.where}: {counted(copies, 'copy', 'copies')} of {value:g}; all others lie between {self.low:g} and "
                f"{self.high:g}. If {value:g} means missing, {self.remedy.format(f'{value:g}')}",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
