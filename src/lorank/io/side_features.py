"""Side features of rows or columns, from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .archive import FileError
from .delimited_text import polars, read_layout
from .ratings import as_type_of
from .text_columns import read_cells


def read_side_features(path: str | Path, label: str, known: np.ndarray) -> Any:
    """Features of rows (columns), one line for each, as a polars data frame.

    Parameters
    ----------
    path : path
        CSV, TSV or Parquet.
    label : str
        Column of ids, named as in the ratings.
    known : array
        Ids of the ratings; those of the features get the same type.
    """
    path, pl = Path(path), polars()
    if not path.exists():
        raise FileError(f"{path} does not exist")
    try:
        if path.suffix.lower() == ".parquet":
            frame = pl.read_parquet(path, glob=False)
        else:
            layout = read_layout(path)
            cells = read_cells(path, layout)
            others = [name for name in layout.names if name != label]  # ids stay text: leading zeros belong to them
            frame = cells.with_columns([_typed(cells.get_column(name)) for name in others])
    except FileError:
        raise
    except Exception as error:
        raise FileError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    if label not in frame.columns:
        there = ", ".join(map(repr, frame.columns))
        raise FileError(f"{path} has no column {label!r} with ids, as the ratings have: its columns are {there}")
    if frame.get_column(label).null_count():
        raise FileError(f"{path}, column {label!r}: an id is missing")
    ids = as_type_of(frame.get_column(label).to_numpy(), known)
    return frame.with_columns(pl.Series(label, ids.tolist()))


def _typed(cells: Any) -> Any:
    """Integers, numbers or text, whatever all cells are."""
    pl = polars()
    stripped = cells.str.strip_chars()
    for dtype in (pl.Int64, pl.Float64):
        found = stripped.cast(dtype, strict=False)
        if found.null_count() == cells.null_count():
            return found
    if stripped.str.to_lowercase().is_in(["true", "false"]).fill_null(True).all():
        return stripped.str.to_lowercase() == "true"
    return cells
