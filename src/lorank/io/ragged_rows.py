"""Lines with fewer fields than the first: what they lack counts as gaps, as in pandas and polars, and it is said."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ..common.checks import counted
from .delimited_text import Part, records


class ShortLines:
    """Those of a file, part after part.

    Parameters
    ----------
    path : path
    separator : str
    width : int
        Fields of the first line.
    """

    def __init__(self, path: Path, separator: str, width: int) -> None:
        self.path, self.separator, self.width = path, separator, width
        self.count, self.first, self.fields = 0, 0, 0

    def add(self, part: Part, frame: Any, header: bool) -> None:
        """A part of the file, and its cells as polars reads them: null in what is empty or lacks."""
        if self.width < 2 or not frame.to_series(self.width - 1).null_count():
            return  # no line ends early
        lines = len(frame) + header
        if b'"' not in part.text and part.text.count(self.separator.encode()) == lines * (self.width - 1):
            return  # each has all its separators
        for line, record in records(self.path, self.separator, part):
            if len(record) < self.width and any(cell.strip() for cell in record):
                if not self.count:
                    self.first, self.fields = line, len(record)
                self.count += 1

    def warn(self, stacklevel: int = 2) -> None:
        """Say how many there are, and where the first is."""
        if self.count:
            where = f"{self.path}, line {self.first}"
            fields = f"{counted(self.fields, 'field')} where the first line has {self.width}"
            others = f", and {counted(self.count - 1, 'other line')} like it" if self.count > 1 else ""
            warnings.warn(
                f"{where}: {fields}{others}: what lacks at the end counts as gaps; is a separator missing?",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
