"""Tables with missing values, read into memory."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .archive import FileError, atomic
from .delimited_text import Layout, polars
from .missing_codes import NO_CODES, MissingCodes
from .table_blocks import open_table


@dataclass(frozen=True)
class Table:
    """A table: numeric columns as an array with nan for missing values, and the other columns.

    Attributes
    ----------
    names : list of str
        All columns, in the file's order.
    numbers : list of str
        Numeric columns.
    values : (n, len(numbers)) array
    frame : polars.DataFrame
        The whole table as it was read.
    cells : polars.DataFrame, optional
        Cells of a text file as written.
    kinds, layout
        As in :class:`TableBlocks`.
    """

    names: list[str]
    numbers: list[str]
    values: np.ndarray
    frame: Any
    cells: Any = None
    kinds: dict[str, str] = field(default_factory=dict)
    layout: Layout | None = None

    def with_times(self, name: str) -> tuple[np.ndarray, int | bool]:
        """The numeric columns with a column of times, and its index; True for ``rows``, the order of the rows.

        Dates are appended as a numeric column.
        """
        if name == "rows" and name not in self.names:
            return self.values, True
        if name in self.numbers:
            at = self.numbers.index(name)
            if np.isnan(self.values[:, at]).any():
                raise FileError(
                    f"column {name!r} must have a time in every row: row {np.isnan(self.values[:, at]).argmax() + 1}"
                )
            return self.values, at
        if name not in self.names:
            raise FileError(f"no column {name!r} for times: choose one of {', '.join(self.names[:12])}, or rows")
        pl = polars()
        cells = self.frame.get_column(name)
        try:
            dates = cells.str.to_datetime() if cells.dtype == pl.String else cells.cast(pl.Datetime)
        except pl.exceptions.PolarsError as error:
            raise FileError(f"column {name!r} holds no dates: {str(error).splitlines()[0]}") from None
        stamps = dates.cast(pl.Int64).cast(pl.Float64).to_numpy()
        if dates.null_count():
            raise FileError(f"column {name!r} must have a date in every row")
        return np.column_stack([self.values, stamps]), self.values.shape[1]

    def write(self, path: str | Path, values: np.ndarray) -> None:
        """Write the table with imputed values, as CSV or Parquet; observed cells of text files are copied unchanged."""
        pl = polars()
        path = Path(path)
        as_text = self.cells is not None and path.suffix.lower() != ".parquet"
        frame, new = self.cells if as_text else self.frame, []
        for k, name in enumerate(self.numbers):
            gaps, filled = pl.Series(np.isnan(self.values[:, k])), pl.Series(name, values[:, k])
            if gaps.any():
                old = frame.get_column(name)
                new.append(
                    filled.cast(pl.String if as_text else pl.Float64).zip_with(gaps, old if as_text else old.cast(pl.Float64))
                )
        frame = frame.with_columns(new) if new else frame
        with atomic(path) as temporary:
            if path.suffix.lower() == ".parquet":
                frame.write_parquet(temporary)
                return
            separator = "\t" if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")) else ","
            with gzip.open(temporary, "wb") if path.suffix.lower() == ".gz" else open(temporary, "wb") as file:
                try:
                    frame.write_csv(file, separator=separator)
                except pl.exceptions.ComputeError as error:  # lists and durations
                    reason = str(error).splitlines()[0]
                    raise FileError(f"{path}: {reason}; write a .parquet file instead, or leave such columns out") from None


def read_table(path: str | Path, missing: MissingCodes = NO_CODES, *, header: bool | None = None) -> Table:
    """Read a table into memory; parameters as for :func:`lorank.io.open_table`.

    Columns without numbers are kept as text. A column with numbers and text raises a FileError.
    """
    pl = polars()
    blocks = open_table(path, missing, header=header, strict=True)
    read = [(block, blocks.typed(block)) for block in blocks.blocks()]
    cells, frame = (pl.concat(frames) for frames in zip(*read, strict=True))
    numbers = [name for name in blocks.names if frame.schema[name].is_numeric()]
    if not numbers:
        raise FileError(f"{path} has no column of numbers")
    values = frame.select([pl.col(name).cast(pl.Float64) for name in numbers])
    if blocks.layout is not None:
        frame = cells.with_columns(values)
    as_written = None if blocks.layout is None else cells
    array = values.to_numpy().astype(np.float64)
    return Table(blocks.names, numbers, array, frame, as_written, blocks.kinds, blocks.layout)
