"""Lines with fewer fields than the first: the missing fields are missing values, as in pandas and polars, with a warning."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ..common.checks import counted
from .delimited_text import Part, records


class RaggedRows:
    """Short lines of a file, part by part.

    Parameters
    ----------
    path : path
    separator : str
    width : int
        Number of fields of the first line.
    """

    def __init__(self, path: Path, separator: str, width: int) -> None:
        self.path, self.separator, self.width = path, separator, width
        self.count, self.first, self.fields = 0, 0, 0

    def add(self, part: Part, frame: Any, header: bool) -> None:
        """Add a part of the file and its cells, null where they are empty or missing."""
        if self.width < 2 or not frame.to_series(self.width - 1).null_count():
            return  # no line is short
        lines = len(frame) + header
        if b'"' not in part.text and part.text.count(self.separator.encode()) == lines * (self.width - 1):
            return  # no line is short
        for line, record in records(self.path, self.separator, part):
            if len(record) < self.width and any(cell.strip() for cell in record):
                if not self.count:
                    self.first, self.fields = line, len(record)
                self.count += 1

    def warn(self, stacklevel: int = 2) -> None:
        """Warn with the number of short lines and the first of them."""
        if self.count:
            where = f"{self.path}, line {self.first}"
            fields = f"{counted(self.fields, 'field')} where the first line has {self.width}"
            others = f", and {counted(self.count - 1, 'other line')} like it" if self.count > 1 else ""
            warnings.warn(
                f"{where}: {fields}{others}: the missing fields are read as missing values; is a separator missing?",
                UserWarning,
                stacklevel=stacklevel + 1,
            )
