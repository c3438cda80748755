"""Observations from data frames: those of Dask, one of whose partitions is in memory at a time, or a list of any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..io.archive import FileError
from ..io.delimited_text import polars
from .sources import Piece, or_ones, typed_columns


@dataclass(frozen=True)
class FrameSource:
    """A Dask data frame, a pandas or polars data frame, or a list of these, all with the same columns.

    Attributes
    ----------
    frames : data frame or list
    names : (row, col, value or None, weight or None)
        Columns; without one of values each line counts one.
    """

    frames: Any
    names: tuple[str, str, str | None, str | None]

    def check(self) -> None:
        """A FileError where there is no such column."""
        for k, frame in enumerate(self._each(lazily=True)):
            known = [str(name) for name in frame.columns]
            for name in self.names:
                if name is not None and name not in known:
                    raise FileError(f"data frame {k} has no column {name!r}: its columns are {', '.join(map(repr, known))}")

    def pieces(self) -> Iterator[Piece]:
        pl = polars()
        for k, frame in enumerate(self._each()):
            if not len(frame):
                continue  # a filter may leave some of Dask's partitions empty
            origin = f"data frame {k}"
            whole = pl.DataFrame([_series(pl, frame[name], name, origin) for name in self.names if name is not None])
            rows, cols, values, weights = typed_columns(whole, self.names, origin, unsigned=True)
            yield Piece(rows, cols, or_ones(values, len(whole)), weights, str(origin), 0)

    def _each(self, lazily: bool = False) -> Iterator[Any]:
        frames = self.frames if isinstance(self.frames, (list, tuple)) else [self.frames]
        for frame in frames:
            if hasattr(frame, "npartitions") and hasattr(frame, "partitions"):  # Dask's
                parts = range(frame.npartitions)
                yield from [frame] if lazily else (frame.partitions[k].compute() for k in parts)
            elif hasattr(frame, "columns"):
                yield frame
            else:
                raise FileError(f"data frames of Dask, pandas or polars are wanted, got {type(frame).__name__}")


def _series(pl: Any, column: Any, name: str, origin: str) -> Any:
    """A column as polars has it; without pyarrow."""
    if isinstance(column, pl.Series):
        return column
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf":
        return pl.Series(name, column.to_numpy())
    values = [None if x is None or x != x else x for x in column.tolist()]
    wrong = next((k for k, x in enumerate(values) if x is not None and not isinstance(x, str)), None)
    if wrong is not None:
        raise FileError(f"{origin}, row {wrong + 1}, column {name!r}: {values[wrong]!r} is neither a whole number nor text")
    return pl.Series(name, values, dtype=pl.String)
