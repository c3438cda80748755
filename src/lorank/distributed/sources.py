"""Sources of observations for partitions: data frames, and the interface that they share with files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..io.archive import FileError
from ..io.delimited_text import polars
from ..io.observation_files import Chunk, typed_columns


class Source(Protocol):
    """Observations that can be read more than once."""

    @property
    def names(self) -> tuple[str, str, str | None, str | None]:
        """Names of the columns of rows, columns, values and weights."""
        ...

    def chunks(self) -> Iterator[Chunk]: ...


@dataclass(frozen=True)
class FrameSource:
    """Dask, pandas or polars data frames with the same columns. One partition of a Dask data frame is in memory at a time.

    Attributes
    ----------
    frames : data frame or list
    names : (row, col, value or None, weight or None)
        Names of columns. Without a column of values, each line has the value 1.
    """

    frames: Any
    names: tuple[str, str, str | None, str | None]

    def check(self) -> None:
        """Raise a FileError if a data frame lacks a column."""
        for k, frame in enumerate(self._each(lazily=True)):
            known = [str(name) for name in frame.columns]
            for name in self.names:
                if name is not None and name not in known:
                    raise FileError(f"data frame {k} has no column {name!r}: its columns are {', '.join(map(repr, known))}")

    def chunks(self) -> Iterator[Chunk]:
        pl = polars()
        for k, frame in enumerate(self._each()):
            if not len(frame):
                continue  # partitions of a filtered Dask data frame may be empty
            origin = f"data frame {k}"
            whole = pl.DataFrame([_series(pl, frame[name], name, origin) for name in self.names if name is not None])
            rows, cols, values, weights = typed_columns(whole, self.names, origin, unsigned=True)
            yield Chunk(rows, cols, np.ones(len(whole)) if values is None else values, weights, origin, 0)

    def _each(self, lazily: bool = False) -> Iterator[Any]:
        frames = self.frames if isinstance(self.frames, (list, tuple)) else [self.frames]
        for frame in frames:
            if hasattr(frame, "npartitions") and hasattr(frame, "partitions"):  # of Dask
                parts = range(frame.npartitions)
                yield from [frame] if lazily else (frame.partitions[k].compute() for k in parts)
            elif hasattr(frame, "columns"):
                yield frame
            else:
                raise FileError(f"frames must be data frames of Dask, pandas or polars, got {type(frame).__name__}")


def _series(pl: Any, column: Any, name: str, origin: str) -> Any:
    """A column as a polars Series; does not need pyarrow."""
    if isinstance(column, pl.Series):
        return column
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf":
        return pl.Series(name, column.to_numpy())
    values = [None if x is None or x != x else x for x in column.tolist()]
    wrong = next((k for k, x in enumerate(values) if x is not None and not isinstance(x, str)), None)
    if wrong is not None:
        raise FileError(f"{origin}, row {wrong + 1}, column {name!r}: {values[wrong]!r} is neither an integer nor a string")
    return pl.Series(name, values, dtype=pl.String)
