"""Tables with gaps from a file."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .archive import FileError, atomic
from .delimited_text import GAPS, Part, head, number, polars, read_cells, records, without_empty_lines
from .format_hints import DECIMAL_COMMA, number_hint
from .missing import NOTHING, Missing
from .ragged_rows import ShortLines
from .text_columns import text_of


@dataclass(frozen=True)
class Table:
    """A table of numbers with nan in its gaps, and the columns beside them that hold something else.

    Attributes
    ----------
    names : list of str
        All columns, in the file's order.
    numbers : list of str
        Those that hold numbers.
    values : (n, len(numbers)) array
    frame : polars.DataFrame
        The whole table as it was read.
    cells : polars.DataFrame, optional
        Of a file of text, as it is written.
    """

    names: list[str]
    numbers: list[str]
    values: np.ndarray
    frame: Any
    cells: Any = None

    def with_times(self, name: str) -> tuple[np.ndarray, int | bool]:
        """The numbers, with the times of the rows among them, and the number of their column; True for ``rows``.

        Dates are read as such, and put beside the numbers.
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
            raise FileError(f"no column {name!r} to take times from: there are {', '.join(self.names[:12])}, or rows")
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
        """Write the table with numbers in its gaps, as CSV or Parquet, in one go; what is there stays, letter by letter."""
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
                except pl.exceptions.ComputeError as error:  # lists and durations, say
                    said = str(error).splitlines()[0]
                    raise FileError(f"{path}: {said}; write a .parquet file instead, or leave such columns out") from None


def read_table(path: str | Path, missing: Missing = NOTHING) -> Table:
    """Read a table from CSV, TSV or Parquet; ``""``, NA, nan, null, none, n/a, #N/A, ? and - are gaps, and what is ``missing``.

    Columns of which no cell is a number are left as they are. A column with both is an error that says where.
    """
    path = Path(path)
    pl = polars()
    if path.suffix.lower() == ".parquet":
        if not path.exists():
            raise FileError(f"{path} does not exist")
        try:
            frame = pl.read_parquet(path, glob=False)
        except (pl.exceptions.PanicException, Exception) as error:
            raise FileError(f"{path} is no Parquet file, or a damaged one: {str(error).splitlines()[0]}") from None
        numbers = [name for name in frame.columns if frame.schema[name].is_numeric()]
        return _table(path, missing.nulled(frame), numbers)
    separator, names, named, _ = head(path)
    text = text_of(path)
    source = text if len(names) < 2 else without_empty_lines(text, separator)  # which are rows where there is one column alone
    frame = read_cells(source, path, separator, names, named)
    short = ShortLines(path, separator, len(names))
    short.add(Part(text, 1, True), frame, named)
    short.warn()
    numbers, columns = [], {}
    for name in names:
        cells = frame.get_column(name).fill_null("").str.strip_chars()
        gap = missing.gaps(cells)
        value = cells.set(gap, None).cast(pl.Float64, strict=False)
        bad = (value.is_null() | ~value.is_finite().fill_null(True)) & ~gap
        if not bad.any():
            numbers.append(name)
            columns[name] = value
        elif bad.sum() < (~gap).sum() or cells.filter(bad).str.contains(DECIMAL_COMMA).all():
            _blame(path, separator, names, named, name)
    return _table(path, frame.with_columns(**columns), numbers, frame)


def _table(path: Path, frame: Any, numbers: list[str], cells: Any = None) -> Table:
    pl = polars()
    if not len(frame):
        raise FileError(f"{path} has no rows")
    if not numbers:
        raise FileError(f"{path} has no column of numbers")
    values = frame.select([pl.col(n).cast(pl.Float64) for n in numbers]).to_numpy().astype(np.float64)
    if np.isinf(values).any():
        i, j = np.argwhere(np.isinf(values))[0]
        raise FileError(f"{path}, row {i + 1}, column {numbers[j]!r}: infinite")
    return Table(list(frame.columns), numbers, values, frame, cells)


def _blame(path: Path, separator: str, names: list[str], named: bool, name: str) -> None:
    at, skip = names.index(name), named
    for line, record in records(path, separator):
        if skip:
            skip = False
            continue
        cell = record[at].strip() if at < len(record) else ""
        if cell.lower() not in GAPS and number(cell) is None:
            why = number_hint(cell) if re.match(DECIMAL_COMMA, cell) else ", but others in this column are"
            why += "" if re.search("[0-9]", cell) else "; where a value is missing, leave the cell empty"
            raise FileError(f"{path}, line {line}, column {name!r}: {cell!r} is no number{why}")
    raise FileError(f"{path}, column {name!r}: some cells are no numbers, but others are")
