"""What is known of rows or columns, from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .archive import FileError
from .delimited_text import head, polars
from .ratings import alike


def read_side_features(path: str | Path, label: str, known: np.ndarray) -> Any:
    """A table with one line for each row (column) of ratings, as a polars data frame.

    Parameters
    ----------
    path : path
        CSV, TSV or Parquet.
    label : str
        The column with ids, called as in the ratings.
    known : array
        The ids of the ratings: whether they are numbers or text.
    """
    path, pl = Path(path), polars()
    if not path.exists():
        raise FileError(f"{path} does not exist")
    try:
        if path.suffix.lower() == ".parquet":
            frame = pl.read_parquet(path, glob=False)
        else:
            separator, names, named, _ = head(path)
            texts = {label: pl.String} if named and label in names else None  # zeros in front of an id belong to it
            options = {"separator": separator, "has_header": named, "schema_overrides": texts, "glob": False}
            frame = pl.read_csv(path, new_columns=None if named else names, **options)
    except FileError:
        raise
    except Exception as error:
        raise FileError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    if label not in frame.columns:
        there = ", ".join(map(repr, frame.columns))
        raise FileError(f"{path} has no column {label!r} with ids, as the ratings have: its columns are {there}")
    if frame.get_column(label).null_count():
        raise FileError(f"{path}, column {label!r}: an id is missing")
    ids = alike(frame.get_column(label).to_numpy(), known)
    return frame.with_columns(pl.Series(label, ids.tolist()))
