"""Columns of frames and arrays as numbers, and back: categories, Booleans, ordered levels, whole numbers and dates keep their
kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np

MOST_LEVELS = 60  # of a category; a column of text with more is left as it is
NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "D": 86400 * 10**9}
NUMBER, WHOLE, BOOLEAN, LEVELS, ORDERED, DATE, TEXT = "number", "whole", "Boolean", "levels", "ordered", "date", "text"
SAID = {
    NUMBER: "numbers",
    WHOLE: "whole numbers",
    BOOLEAN: "Booleans",
    LEVELS: "levels",
    ORDERED: "ordered levels",
    DATE: "dates",
}


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes
    ----------
    name : str
    kind : str
    levels : list
        Of categories, most frequent first, or in their order.
    unit : str
        Of dates as numbers: "ns", "us", "ms", "s" or "D".
    """

    name: str
    kind: str = NUMBER
    levels: list[Any] = field(default_factory=list)
    unit: str = ""  # as files of before have it: whatever a frame has

    @property
    def width(self) -> int:
        """How many numbers stand for a cell."""
        if self.kind == LEVELS:
            return 1 if len(self.levels) == 2 else len(self.levels)
        return 0 if self.kind == TEXT else 1

    def encode(self, cells: Any) -> np.ndarray:
        """Numbers with nan in the gaps: an (n, width) array."""
        if self.kind in (LEVELS, ORDERED):
            place = {level: k for k, level in enumerate(self.levels)}
            codes = np.array([np.nan if _is_gap(cell) else place.get(cell, np.nan) for cell in cells], float)
            if self.kind == ORDERED or self.width == 1:
                return codes[:, None]
            return np.where(np.isnan(codes)[:, None], np.nan, codes[:, None] == np.arange(len(self.levels)))
        if self.kind == TEXT:
            return np.empty((len(cells), 0))
        try:
            return np.array([np.nan if _is_gap(c) else c for c in cells] if isinstance(cells, list) else cells, np.float64)[
                :, None
            ]
        except (TypeError, ValueError):
            odd = next(cell for cell in cells if not _is_gap(cell) and not isinstance(cell, Real))
            raise ValueError(f"column {self.name!r} held numbers or dates in fit, and now holds {odd!r}") from None

    def decode(self, numbers: np.ndarray) -> list[Any] | np.ndarray:
        """Cells again, from an (n, width) array without gaps."""
        if self.kind == LEVELS and self.width > 1:
            return [self.levels[k] for k in numbers.argmax(axis=1)]
        if self.kind in (LEVELS, ORDERED):
            codes = np.clip(np.rint(numbers[:, 0]), 0, len(self.levels) - 1).astype(int)
            return [self.levels[k] for k in codes]
        if self.kind == BOOLEAN:
            return numbers[:, 0] > 0.5
        return np.rint(numbers[:, 0]) if self.kind in (WHOLE, DATE) else numbers[:, 0]


def frame_kind(X: Any) -> str:
    """``"pandas"``, ``"polars"``, or ``""`` for anything else."""
    module = type(X).__module__.partition(".")[0]
    return module if module in ("pandas", "polars") and hasattr(X, "columns") else ""


def describe(X: Any) -> list[Column]:
    """The columns of a frame."""
    return [_describe(str(name), *_cells(X, k), _unit(X, k)) for k, name in enumerate(X.columns)]


def encode(X: Any, columns: list[Column]) -> np.ndarray:
    """A frame as numbers, all columns side by side."""
    parts = [column.encode(_cells(X, k)[0]) * _units(X, k, column) for k, column in enumerate(columns)]
    return np.hstack(parts) if parts else np.empty((len(X), 0))


def restore(X: Any, columns: list[Column], numbers: np.ndarray) -> Any:
    """The frame with its gaps filled from numbers; types and cells that are there stay."""
    kind, at = frame_kind(X), 0
    out = X.copy() if kind == "pandas" else X
    for k, column in enumerate(columns):
        part = numbers[:, at : at + column.width]
        at += column.width
        if not column.width:
            continue
        series = X.iloc[:, k] if kind == "pandas" else X.to_series(k)
        gaps = series.isna().to_numpy() if kind == "pandas" else _polars_gaps(series)
        if gaps.any():
            filled = column.decode(part[gaps] / _units(X, k, column))
            try:
                out = (_pandas_fill if kind == "pandas" else _polars_fill)(out, k, series, gaps, filled, column)
            except (AttributeError, TypeError, ValueError) as error:
                raise ValueError(
                    f"column {column.name!r} held {SAID[column.kind]} in fit, and its type is {series.dtype} now, in which its "
                    f"gaps cannot be filled ({error})"
                ) from None
    return out


def _unit(X: Any, k: int) -> str:
    """Of a column of dates or durations; none of others."""
    series = X.iloc[:, k] if frame_kind(X) == "pandas" else X.to_series(k)
    if frame_kind(X) == "pandas":
        return str(getattr(series.dt, "unit", "")) if getattr(series.dtype, "kind", "") in ("m", "M") else ""
    import polars as pl

    if series.dtype not in _polars_dates():
        return ""
    return "D" if series.dtype == pl.Date else "ns" if series.dtype == pl.Time else str(series.dtype.time_unit)


def _units(X: Any, k: int, column: Column) -> float:
    """How many units of the fit one of this frame is: 1 but for dates."""
    own = _unit(X, k) if column.unit else ""
    return NANOSECONDS[own] / NANOSECONDS[column.unit] if own else 1.0


def _cells(X: Any, k: int) -> tuple[Any, str, list[Any]]:
    """The cells of a column as an array of numbers or a list, the kind, and levels where the type has them."""
    if frame_kind(X) == "polars":
        return _polars_cells(X.to_series(k))
    import pandas as pd

    series = X.iloc[:, k]
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return list(series), ORDERED if dtype.ordered else LEVELS, list(dtype.categories)
    if pd.api.types.is_bool_dtype(dtype):
        return series.astype("Float64").to_numpy(np.float64, na_value=np.nan), BOOLEAN, []
    if pd.api.types.is_complex_dtype(dtype):
        raise ValueError(f"column {str(X.columns[k])!r} is complex: pass its real and its imaginary part as two columns")
    if pd.api.types.is_numeric_dtype(dtype):
        kind = WHOLE if pd.api.types.is_integer_dtype(dtype) else NUMBER
        return series.to_numpy(np.float64, na_value=np.nan), kind, []
    if pd.api.types.is_datetime64_any_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        stamps = series.astype("int64").to_numpy().astype(np.float64)
        return np.where(series.isna().to_numpy(), np.nan, stamps), DATE, []
    cells = list(series)
    numbers = _as_numbers(cells) if dtype.kind == "O" else None
    return (cells, LEVELS, []) if numbers is None else numbers


def _as_numbers(cells: list[Any]) -> tuple[np.ndarray, str, list[Any]] | None:
    """Objects that are numbers all the same, as arrays of them with None are; None where one is not, or all are gaps."""
    seen = [cell for cell in cells if not _is_gap(cell)]
    if not seen or not all(isinstance(cell, Real) and not isinstance(cell, bool) for cell in seen):
        return None
    whole = all(isinstance(cell, Integral) for cell in seen)
    try:
        return np.array([np.nan if _is_gap(cell) else float(cell) for cell in cells]), WHOLE if whole else NUMBER, []
    except OverflowError:
        return None


def _polars_cells(series: Any) -> tuple[Any, str, list[Any]]:
    import polars as pl

    dtype = series.dtype
    if dtype == pl.Boolean or dtype.is_numeric():
        values = series.cast(pl.Float64).to_numpy().astype(np.float64)
        return values, BOOLEAN if dtype == pl.Boolean else WHOLE if dtype.is_integer() else NUMBER, []
    if dtype in _polars_dates():
        return series.cast(pl.Int64).cast(pl.Float64).to_numpy().astype(np.float64), DATE, []
    levels = list(dtype.categories) if isinstance(dtype, pl.Enum) else []
    return series.to_list(), ORDERED if levels else LEVELS, levels


def _polars_dates() -> tuple[Any, ...]:
    """Types that are whole numbers of a unit of time."""
    import polars as pl

    return pl.Datetime, pl.Date, pl.Duration, pl.Time


def _describe(name: str, cells: Any, kind: str, levels: list[Any], unit: str = "") -> Column:
    if kind == LEVELS:
        seen = [cell for cell in cells if not _is_gap(cell)]
        counts: dict[Any, int] = {}
        try:
            for cell in seen:
                counts[cell] = counts.get(cell, 0) + 1
        except TypeError:  # lists and the like, which are no levels of anything
            return Column(name, TEXT)
        levels = sorted(counts, key=lambda level: -counts[level])
        if len(levels) > MOST_LEVELS or len(levels) > 0.5 * max(len(seen), 4) or len(levels) < 2:
            return Column(name, TEXT)
    return Column(name, kind, list(levels), unit)


def _is_gap(cell: Any) -> bool:
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or bool(cell != cell)  # NA is not even unlike itself


def _polars_gaps(series: Any) -> np.ndarray:
    gaps = series.is_null()
    return np.asarray((gaps | series.is_nan().fill_null(True) if series.dtype.is_float() else gaps).to_numpy(), bool)


def _pandas_fill(out: Any, k: int, series: Any, gaps: np.ndarray, filled: Any, column: Column) -> Any:
    import pandas as pd

    sparse = isinstance(series.dtype, pd.SparseDtype)
    new = series.sparse.to_dense() if sparse else series.copy()
    dates = column.kind == DATE
    if column.kind == NUMBER and pd.api.types.is_integer_dtype(series.dtype):
        filled = np.rint(filled)  # numbers then, whole ones now
    if column.kind == WHOLE and series.dtype.kind == "O":
        filled = [int(cell) for cell in filled]
    new[gaps] = _dates(series, filled) if dates else pd.Series(filled, index=series.index[gaps]).astype(new.dtype)
    out.isetitem(k, new.astype(series.dtype) if sparse else new)
    return out


def _dates(series: Any, filled: Any) -> Any:
    """Numbers as this series' dates, or times between dates."""
    import pandas as pd

    if series.dtype.kind == "m":
        return pd.to_timedelta(np.asarray(filled, np.int64), unit=series.dt.unit).astype(series.dtype)
    dates = pd.to_datetime(np.asarray(filled, np.int64), unit=series.dt.unit, utc=True)
    dates = dates.tz_localize(None) if series.dt.tz is None else dates.tz_convert(series.dt.tz)
    return dates.astype(series.dtype)


def _polars_fill(out: Any, k: int, series: Any, gaps: np.ndarray, filled: Any, column: Column) -> Any:
    import polars as pl

    if series.dtype == pl.Null and column.kind != DATE:  # nothing but gaps: of the kind that was fitted
        return out.with_columns(pl.Series(series.name, np.asarray(filled).astype(np.int64) if column.kind == WHOLE else filled))
    try:
        return _polars_filled(out, series, gaps, filled)
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error).partition(" in column")[0]) from None


def _polars_filled(out: Any, series: Any, gaps: np.ndarray, filled: Any) -> Any:
    import polars as pl

    where = pl.Series(np.flatnonzero(gaps))
    if series.dtype in _polars_dates():
        values = (
            pl.Series(np.asarray(filled, np.int64)).cast(pl.Int32 if series.dtype == pl.Date else pl.Int64).cast(series.dtype)
        )
    else:
        values = pl.Series(filled if isinstance(filled, list) else np.asarray(filled)).cast(series.dtype)
    return out.with_columns(series.clone().scatter(where, values).alias(series.name))
