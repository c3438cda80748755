"""Columns of arrays and data frames as standardized numbers, and back to their types."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np

MAX_LEVELS = 60  # of a category; a text column with more is not imputed
NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "D": 86400 * 10**9}
NUMBER, WHOLE, BOOLEAN, LEVELS, ORDERED, DATE, TEXT = "number", "whole", "Boolean", "levels", "ordered", "date", "text"
MAX_VALUE = 1e300  # in magnitude: beyond, the difference of two numbers may overflow
SAFE_VALUES = 1e-100, 1e100  # between these, squares and their sums neither overflow nor vanish
MAX_DECIMALS = 6  # of a column whose imputed values are rounded to its decimals
MAX_DEVIATION = 1e15  # standard deviations: farther values are clipped, so that squares fit into single precision


@dataclass(frozen=True)
class Column:
    """Name, kind, categories, date unit and decimals of one column."""

    name: str
    kind: str = NUMBER
    levels: list[Any] = field(default_factory=list)  # of a category: most frequent first, or in their order
    unit: str = ""  # of dates as numbers: "ns", "us", "ms", "s" or "D"
    decimals: int | None = None  # of numbers in a data frame, where all have at most MAX_DECIMALS

    @property
    def width(self) -> int:
        """Number of encoded columns: one per category, except two categories; none for text."""
        if self.kind == LEVELS:
            return 1 if len(self.levels) == 2 else len(self.levels)
        return 0 if self.kind == TEXT else 1

    def encode(self, cells: Any) -> np.ndarray:
        """An (n, width) array, with nan for missing values."""
        if self.kind in (LEVELS, ORDERED):
            place = {level: k for k, level in enumerate(self.levels)}
            codes = np.array([np.nan if _is_missing(cell) else place.get(cell, np.nan) for cell in cells], float)
            if self.kind == ORDERED or self.width == 1:
                return codes[:, None]
            return np.where(np.isnan(codes)[:, None], np.nan, codes[:, None] == np.arange(len(self.levels)))
        if self.kind == TEXT:
            return np.empty((len(cells), 0))
        try:
            values = [np.nan if _is_missing(c) else c for c in cells] if isinstance(cells, list) else cells
            return np.array(values, np.float64)[:, None]
        except (TypeError, ValueError):
            odd = next(cell for cell in cells if not _is_missing(cell) and not isinstance(cell, Real))
            raise ValueError(f"column {self.name!r} held numbers or dates in fit, and now holds {odd!r}") from None

    def codes(self, numbers: np.ndarray) -> np.ndarray:
        """Indices of the categories of an (n, width) array without missing values."""
        if self.width > 1:
            return np.asarray(numbers.argmax(axis=1))
        return np.clip(np.rint(numbers[:, 0]), 0, len(self.levels) - 1).astype(int)

    def decode(self, numbers: np.ndarray) -> list[Any] | np.ndarray:
        """Cells of an (n, width) array without missing values."""
        if self.kind in (LEVELS, ORDERED):
            return [self.levels[k] for k in self.codes(numbers)]
        if self.kind == BOOLEAN:
            return numbers[:, 0] > 0.5
        if self.kind in (WHOLE, DATE):
            return np.rint(numbers[:, 0])
        return numbers[:, 0] if self.decimals is None else np.round(numbers[:, 0], self.decimals)


def frame_kind(X: Any) -> str:
    """``"pandas"``, ``"polars"``, or ``""`` for anything else."""
    module = type(X).__module__.partition(".")[0]
    return module if module in ("pandas", "polars") and hasattr(X, "columns") else ""


def describe(X: Any) -> list[Column]:
    """The columns of a data frame."""
    return [_describe(str(name), *_cells(X, k), _date_unit(X, k)) for k, name in enumerate(X.columns)]


def encode(X: Any, columns: list[Column]) -> np.ndarray:
    """A data frame as an array, the encoded columns next to each other."""
    parts = [column.encode(_cells(X, k)[0]) * _unit_ratio(X, k, column) for k, column in enumerate(columns)]
    return np.hstack(parts) if parts else np.empty((len(X), 0))


def restore(X: Any, columns: list[Column], numbers: np.ndarray) -> Any:
    """A copy of the data frame with its missing values filled from encoded columns; types are kept."""
    kind, at = frame_kind(X), 0
    out = X.copy() if kind == "pandas" else X
    for k, column in enumerate(columns):
        part = numbers[:, at : at + column.width]
        at += column.width
        if not column.width:
            continue
        series = _series(X, k)
        missing = series.isna().to_numpy() if kind == "pandas" else _polars_missing(series)
        if missing.any():
            filled = column.decode(part[missing] / _unit_ratio(X, k, column))
            try:
                out = (_pandas_fill if kind == "pandas" else _polars_fill)(out, k, series, missing, filled, column)
            except (AttributeError, TypeError, ValueError) as error:
                kinds = f"was of kind {column.kind!r} in fit, and is of type {series.dtype} now"
                raise ValueError(f"column {column.name!r} {kinds}, which cannot hold the imputed values: {error}") from None
    return out


def encoded_names(columns: list[Column]) -> list[str]:
    """Names of the encoded columns: the column's own, with ``=category`` for one of several categories."""
    return [
        column.name if column.width == 1 else f"{column.name}={column.levels[k]}"
        for column in columns
        for k in range(column.width)
    ]


def labelled(X: Any, columns: list[Column], numbers: np.ndarray) -> Any:
    """Encoded columns as a data frame of the kind and the index of X; dates are dates."""
    frame, at = {}, 0
    for k, column in enumerate(columns):
        for name, values in zip(encoded_names([column]), numbers[:, at : at + column.width].T, strict=True):
            frame[name] = _as_dates(_series(X, k), np.rint(values / _unit_ratio(X, k, column))) if column.unit else values
        at += column.width
    if frame_kind(X) == "pandas":
        import pandas as pd

        return pd.DataFrame(frame, index=X.index)
    import polars as pl

    return pl.DataFrame(frame)


def with_indicators(X: Any, filled: Any, missing: np.ndarray, names: list[str]) -> Any:
    """The filled table with further columns: whether values were missing."""
    if not frame_kind(X):
        return np.hstack([filled, missing.astype(filled.dtype)])
    if frame_kind(X) == "pandas":
        return filled.assign(**dict(zip(names, missing.T, strict=True)))
    import polars as pl

    return filled.with_columns(pl.Series(name, flags) for name, flags in zip(names, missing.T, strict=True))


def _as_dates(series: Any, numbers: np.ndarray) -> Any:
    """Numbers as dates or durations of the type of this series; nan as a missing date."""
    stamps, missing = np.where(np.isnan(numbers), 0, numbers).astype(np.int64), np.isnan(numbers)
    if type(series).__module__.partition(".")[0] == "pandas":
        dates = _pandas_dates(series, stamps)
        return dates.where(~missing) if hasattr(dates, "where") else dates
    import polars as pl

    values = pl.Series(stamps).cast(pl.Int32 if series.dtype == pl.Date else pl.Int64).cast(series.dtype)
    return pl.select(pl.when(pl.Series(missing)).then(None).otherwise(values)).to_series()


def column_moments(table: np.ndarray, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the columns; deviations of rounding error alone are 0.

    Columns of very large or very small numbers are scaled by a power of two, which is exact. Columns without any value have
    mean 0, and a warning is issued.
    """
    missing = np.isnan(table)
    counts = (~missing).sum(axis=0)
    if (counts == 0).any():
        empty = np.flatnonzero(counts == 0)
        warnings.warn(f"columns without any value are filled with 0: {', '.join(map(str, empty[:5]))}", stacklevel=4)
    safe = np.maximum(counts, 1)
    values = np.where(missing, 0.0, table)
    largest = np.maximum(values.max(axis=0), -values.min(axis=0))
    if (largest > MAX_VALUE).any():
        j = int(np.argmax(largest))
        raise ValueError(f"column {names[j]!r} has values of magnitude {largest[j]:.1e}: divide it by {largest[j]:.0e} first")
    extreme = (largest > 0) & ((largest < SAFE_VALUES[0]) | (largest > SAFE_VALUES[1]))
    power = np.where(extreme, np.frexp(largest)[1], 0)
    if extreme.any():
        values = np.ldexp(values, -power)
    means = values.sum(axis=0) / safe
    scales = np.sqrt((np.where(missing, 0.0, values - means) ** 2).sum(axis=0) / safe)
    scales[scales <= 1e-12 * np.maximum(np.abs(means), np.finfo(float).tiny)] = 0.0
    return np.ldexp(means, power), np.ldexp(scales, power)


def places(columns: list[Column]) -> list[slice]:
    """The encoded columns of each column."""
    ends = np.cumsum([column.width for column in columns])
    return [slice(int(end) - column.width, int(end)) for column, end in zip(columns, ends, strict=True)]


def held_out_quality(
    columns: list[Column], table: np.ndarray, held: np.ndarray, means: np.ndarray, scales: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Error of held-out predictions (nan elsewhere) of each column, and the encoded columns that the mode predicts as well.

    The error is the root mean square in standard deviations, for categories the share of wrong ones.
    """
    quality, by_mode = np.full(len(columns), np.nan), np.zeros(len(means), bool)
    for k, (column, place) in enumerate(zip(columns, places(columns), strict=True)):
        known = ~np.isnan(held[:, place]).any(axis=1)
        if not known.any() or not scales[place].any():
            continue
        truth, guess = table[known, place], held[known, place]
        if column.kind == LEVELS:
            right, found = column.codes(truth), column.codes(guess)
            errors = np.mean(found != right), np.mean(column.codes(means[None, place]) != right)
            quality[k], by_mode[place] = min(errors), errors[0] >= errors[1]
        else:
            quality[k] = np.sqrt(np.mean(((guess - truth) / scales[place]) ** 2))
    return quality, by_mode


def standardize(table: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """``(table - means) / scales``, clipped so that products of two values are finite."""
    with np.errstate(over="ignore"):
        return np.asarray(np.clip((table - means) / scales, -MAX_DEVIATION, MAX_DEVIATION))


def _series(X: Any, k: int) -> Any:
    return X.iloc[:, k] if frame_kind(X) == "pandas" else X.to_series(k)


def _date_unit(X: Any, k: int) -> str:
    """Unit of a column of dates or durations; empty for other columns."""
    series = _series(X, k)
    if frame_kind(X) == "pandas":
        return str(getattr(series.dt, "unit", "")) if getattr(series.dtype, "kind", "") in ("m", "M") else ""
    import polars as pl

    if series.dtype not in _polars_dates():
        return ""
    return "D" if series.dtype == pl.Date else "ns" if series.dtype == pl.Time else str(series.dtype.time_unit)


def _unit_ratio(X: Any, k: int, column: Column) -> float:
    """Date unit of this frame in units of the fit; 1 for other columns."""
    own = _date_unit(X, k) if column.unit else ""
    return NANOSECONDS[own] / NANOSECONDS[column.unit] if own else 1.0


def _cells(X: Any, k: int) -> tuple[Any, str, list[Any]]:
    """Cells of a column as an array of numbers or a list, the kind, and the categories where the type has them."""
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
    """Numbers of an object column; None where a cell is not a number, or all are missing."""
    known = [cell for cell in cells if not _is_missing(cell)]
    if not known or not all(isinstance(cell, Real) and not isinstance(cell, bool) for cell in known):
        return None
    whole = all(isinstance(cell, Integral) for cell in known)
    try:
        return np.array([np.nan if _is_missing(cell) else float(cell) for cell in cells]), WHOLE if whole else NUMBER, []
    except OverflowError:
        return None


def _describe(name: str, cells: Any, kind: str, levels: list[Any], unit: str = "") -> Column:
    if kind == LEVELS:
        known = [cell for cell in cells if not _is_missing(cell)]
        counts: dict[Any, int] = {}
        try:
            for cell in known:
                counts[cell] = counts.get(cell, 0) + 1
        except TypeError:  # not hashable: lists, for example
            return Column(name, TEXT)
        levels = sorted(counts, key=lambda level: -counts[level])
        if len(levels) > MAX_LEVELS or len(levels) > 0.5 * max(len(known), 4) or len(levels) < 2:
            return Column(name, TEXT)
    return Column(name, kind, list(levels), unit, _decimals(cells) if kind == NUMBER else None)


def _decimals(values: np.ndarray) -> int | None:
    """The decimals of numbers; None where some have more than :data:`MAX_DECIMALS`, or there are none."""
    known = values[np.isfinite(values)]
    found = (
        d
        for d in range(MAX_DECIMALS + 1)
        if (np.round(known[:1], d) == known[:1]).all() and (np.round(known, d) == known).all()
    )
    return next(found, None) if len(known) else None


def _is_missing(cell: Any) -> bool:
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or bool(cell != cell)  # pandas.NA != NA is NA


def _pandas_fill(out: Any, k: int, series: Any, missing: np.ndarray, filled: Any, column: Column) -> Any:
    import pandas as pd

    sparse = isinstance(series.dtype, pd.SparseDtype)
    new = series.sparse.to_dense() if sparse else series.copy()
    if column.kind == NUMBER and pd.api.types.is_integer_dtype(series.dtype):
        filled = np.rint(filled)
    if column.kind == WHOLE and series.dtype.kind == "O":
        filled = [int(cell) for cell in filled]
    if column.kind == DATE:
        new[missing] = _pandas_dates(series, filled)
    else:
        new[missing] = pd.Series(filled, index=series.index[missing]).astype(new.dtype)
    out.isetitem(k, new.astype(series.dtype) if sparse else new)
    return out


def _pandas_dates(series: Any, filled: Any) -> Any:
    """Numbers as dates or durations of this series' type."""
    import pandas as pd

    if series.dtype.kind == "m":
        return pd.to_timedelta(np.asarray(filled, np.int64), unit=series.dt.unit).astype(series.dtype)
    dates = pd.to_datetime(np.asarray(filled, np.int64), unit=series.dt.unit, utc=True)
    dates = dates.tz_localize(None) if series.dt.tz is None else dates.tz_convert(series.dt.tz)
    return dates.astype(series.dtype)


def _polars_dates() -> tuple[Any, ...]:
    import polars as pl

    return pl.Datetime, pl.Date, pl.Duration, pl.Time


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


def _polars_missing(series: Any) -> np.ndarray:
    null = series.is_null()
    return np.asarray((null | series.is_nan().fill_null(True) if series.dtype.is_float() else null).to_numpy(), bool)


def _polars_fill(out: Any, k: int, series: Any, missing: np.ndarray, filled: Any, column: Column) -> Any:
    import polars as pl

    if series.dtype == pl.Null and column.kind != DATE:  # no value at all: the type of the fit
        return out.with_columns(pl.Series(series.name, np.asarray(filled).astype(np.int64) if column.kind == WHOLE else filled))
    try:
        if series.dtype in _polars_dates():
            stamps = pl.Series(np.asarray(filled, np.int64))
            values = stamps.cast(pl.Int32 if series.dtype == pl.Date else pl.Int64).cast(series.dtype)
        else:
            values = pl.Series(filled if isinstance(filled, list) else np.asarray(filled)).cast(series.dtype)
        return out.with_columns(series.clone().scatter(pl.Series(np.flatnonzero(missing)), values).alias(series.name))
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error).partition(" in column")[0]) from None
