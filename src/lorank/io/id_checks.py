"""Ids that look like none, or like others: they are read as they are, and it is said."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ..common.checks import counted
from .delimited_text import polars
from .format_hints import NO_VALUE


class OddIds:
    """The ids of one column of a file, as they come.

    Parameters
    ----------
    path : path
    name : str
        The column.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.where = f"{path}, column {name!r}"
        self.none: dict[str, int] = {}  # how many lines have an id that looks like none
        self.blank: str | None = None

    def add(self, ids: Any) -> None:
        """Some more of them, a polars series."""
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
        """Say what was found."""
        for none, count in sorted(self.none.items()):
            warnings.warn(
                f"{self.where}: {counted(count, 'line')} with the id {none!r}: if that means that there is none, leave them "
                "out: they count as one and the same",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
        if self.blank is not None:
            warnings.warn(
                f"{self.where}: ids begin or end with blanks, such as {self.blank!r}, which belong to them: remove them in the "
                "file if they should not",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
