"""What stands for a gap in a table: an empty cell, NA and the like, and what a user names, as -999."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .delimited_text import GAPS, number, polars


@dataclass(frozen=True)
class Missing:
    """What was named: numbers, which match however they are written, and words, which match in small letters.

    Attributes
    ----------
    numbers : tuple of float
    words : tuple of str
    """

    numbers: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, cells: Sequence[str]) -> Missing:
        """As they were typed.

        Examples
        --------
        >>> Missing.of(["-999", "Unknown"])
        Missing(numbers=(-999.0,), words=('unknown',))
        """
        found = [(cell, number(cell)) for cell in cells]
        words = tuple(cell.strip().lower() for cell, value in found if value is None)
        return cls(tuple(value for _, value in found if value is not None), words)

    def gaps(self, cells: Any) -> Any:
        """Which cells of text, without blanks around them, are gaps."""
        found = cells.str.to_lowercase().is_in([*GAPS, *self.words])
        if self.numbers:
            found |= cells.cast(polars().Float64, strict=False).is_in(list(self.numbers)).fill_null(False)
        return found

    def nulled(self, frame: Any) -> Any:
        """A frame whose columns have types, with null in place of what is missing."""
        pl = polars()
        new = []
        for column in frame.iter_columns():
            if column.dtype.is_numeric() and self.numbers:
                new.append(column.set(column.cast(pl.Float64).is_in(list(self.numbers)).fill_null(False), None))
            elif column.dtype == pl.String and (self.words or self.numbers):
                new.append(column.set(_text_gaps(column, self).fill_null(False), None))
        return frame.with_columns(new) if new else frame


def _text_gaps(column: Any, missing: Missing) -> Any:
    cells = column.str.strip_chars()
    found = cells.str.to_lowercase().is_in(list(missing.words))
    if missing.numbers:
        found |= cells.cast(polars().Float64, strict=False).is_in(list(missing.numbers)).fill_null(False)
    return found


NOTHING = Missing()
