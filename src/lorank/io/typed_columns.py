"""Typed columns of Parquet files and data frames: ids as 64-bit integers or text, values as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .archive import FileError
from .delimited_text import polars


def kind_of_ids(dtype: Any, name: str, path: Path | str) -> str:
    """``"whole numbers"`` or ``"text"``; raises a FileError for types that cannot be ids."""
    pl = polars()
    if dtype.is_integer():
        return "whole numbers"
    if dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum):
        return "text"
    hint = ": cast them to whole numbers, or to text" if dtype.is_numeric() or dtype.is_temporal() else ""
    raise FileError(f"{path}, column {name!r}: ids must be whole numbers or text, not {dtype}{hint}")


def ids_of(series: Any, path: Path | str, first: int = 0, unsigned: bool = False) -> Any:
    """Ids as 64-bit integers, or as text.

    Parameters
    ----------
    series : polars.Series
    path : path
        For messages.
    first : int
        Index of the first row there, for messages.
    unsigned : bool
        Keep unsigned 64-bit integers.
    """
    pl = polars()
    kind = kind_of_ids(series.dtype, series.name, path)
    found = series
    if not (unsigned and series.dtype == pl.UInt64):
        found = series.cast(pl.Int64, strict=False) if kind == "whole numbers" else series.cast(pl.String)
    if kind == "text" and (nul := found.str.contains("\x00", literal=True).fill_null(False)).any():
        k = int(nul.arg_true()[0])  # NumPy drops trailing NUL characters, so that two ids would become one
        raise FileError(f"{path}, row {first + k + 1}, column {series.name!r}: {found[k]!r} holds NUL characters: remove them")
    return _check_valid(found, found.is_null(), series, path, first)


def check_values(dtype: Any, name: str, path: Path | str) -> None:
    """Raise a FileError for types that are not numbers; true and false are 1 and 0."""
    if not dtype.is_numeric() and dtype != polars().Boolean:
        raise FileError(f"{path}, column {name!r}: holds {dtype}, not numbers")


def values_of(series: Any, path: Path | str, first: int = 0) -> Any:
    """Finite numbers; ``path`` and ``first`` as for :func:`ids_of`."""
    check_values(series.dtype, series.name, path)
    found = series.cast(polars().Float64)
    return _check_valid(found, found.is_null() | ~found.is_finite().fill_null(False), series, path, first)


def _check_valid(found: Any, bad: Any, series: Any, path: Path | str, first: int) -> Any:
    if not bad.any():
        return found
    k = int(bad.arg_true()[0])
    cell, why = series[k], "cannot be used"
    if cell is None:
        why = "is missing: leave out such rows"
    elif series.dtype.is_integer():
        why = "exceeds signed 64-bit integers: cast the column to text"
    raise FileError(f"{path}, row {first + k + 1}, column {series.name!r}: {cell!r} {why}")
