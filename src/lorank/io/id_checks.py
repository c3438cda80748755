"""Warnings about ids: codes for missing values, and blanks at the ends."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ..common.checks import counted
from .delimited_text import polars
from .format_hints import NO_VALUE


class IdWarnings:
    """Suspicious ids in a column of a file. They are read as written, with a warning.

    Parameters
    ----------
    path : path
    name : str
        Name of the column.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.where = f"{path}, column {name!r}"
        self.none: dict[str, int] = {}  # number of lines by id
        self.blank: str | None = None

    def add(self, ids: Any) -> None:
        """Add ids, a polars series."""
        pl = polars()
        if ids.dtype != pl.String:
            return
        found = ids.unique()
        for none in found.filter(found.str.to_lowercase().is_in(["", *NO_VALUE])):
            self.none[none] = self.none.get(none, 0) + int((ids == none).sum())
        blank = found.filter(found.str.strip_chars() != found)
        if len(blank):
            self.blank = min(blank.min(), self.blank or blank.min())

    def warn(self, stacklevel: int = 2) -> None:
        """Warn about what was found."""
        for none, count in sorted(self.none.items()):
            warnings.warn(
                f"{self.where}: {counted(count, 'line')} with the id {none!r}, read as one id: if it means missing, leave "
                "out these lines",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
        if self.blank is not None:
            warnings.warn(
                f"{self.where}: ids begin or end with blanks, such as {self.blank!r}; blanks are part of the id: remove them "
                "from the file if they should not be",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
