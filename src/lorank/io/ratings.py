"""Ratings from files: observations with row ids, column ids and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import did_you_mean
from .archive import FileError
from .delimited_text import polars, read_layout
from .format_hints import JSON_FILE, MODEL, SHEET, SHEETS, check_is_local
from .header import COL_NAMES, ROW_NAMES, VALUE_NAMES, parse_number, plain_name
from .observation_files import TableSource, schema_of

MIN_ITEM_COLUMNS = 3  # of a table with a column for each item
UNKNOWN_ID = -(2**62)
TEXT = (".csv", ".tsv", ".txt", ".tab", ".dat", ".data")


@dataclass(frozen=True)
class Columns:
    """Names of the columns of row ids, column ids and values, and of times if they are read.

    ``header``: the first line of the file holds the names; None for files without lines.
    """

    row: str
    col: str
    value: str | None
    time: str | None = None
    header: bool | None = None


@dataclass(frozen=True)
class Ratings:
    """Observations: ``values[k]`` in row ``row_ids[rows[k]]`` and column ``col_ids[cols[k]]``.

    Attributes
    ----------
    rows, cols : (m,) int64 arrays
        Indices into ``row_ids`` and ``col_ids``.
    values : (m,) array
    row_ids, col_ids : arrays
        Ids in the file, integers or text, sorted.
    columns : Columns
    times : (m,) array or None
        Numbers, or dates as ``datetime64``.
    """

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray
    row_ids: np.ndarray
    col_ids: np.ndarray
    columns: Columns
    times: np.ndarray | None = None

    @property
    def pairs(self) -> np.ndarray:
        return np.column_stack([self.rows, self.cols])


def read_ratings(
    path: str | Path | Sequence[str | Path],
    row: str | None = None,
    col: str | None = None,
    value: str | None = None,
    time: str | None = None,
    *,
    with_values: bool = True,
    header: bool | None = None,
) -> Ratings:
    """Read observations from CSV, TSV, Parquet, Matrix Market or NPZ.

    Parameters
    ----------
    path : path, or sequence of them
        ``.csv``, ``.tsv``, ``.txt`` (each also ``.gz``), ``.parquet``, ``.mtx``, or ``.npz`` as SciPy writes sparse matrices.
        Several tables must have the same columns.
    row, col, value : str, optional
        Names of columns; by default found by their names.
    time : str, optional
        Column of times, numbers or dates; by default none is read.
    with_values : bool, default True
        If False, no column of values is read: each line has the value 1.
    header : bool, optional
        Whether the first line of text files holds names; by default detected.

    Raises
    ------
    FileError
        With line, column and value of a cell that does not parse.
    """
    paths = [Path(path)] if isinstance(path, (str, Path)) else [Path(one) for one in path]
    path = paths[0]
    kind = kind_of_file(path)
    if kind in ("mtx", "npz"):
        if len(paths) > 1:
            raise FileError(f"{path} is a matrix: give it alone")
        if time is not None:
            raise FileError(f"{path} is a matrix: it has no column {time!r} with times")
        return _matrix(path, kind)
    names = find_columns(path, row, col, value, time, with_values=with_values, header=header)
    found = TableSource(paths, (names.row, names.col, names.value, None), header, names.time).read()
    rows, row_ids = _codes(found.rows)
    cols, col_ids = _codes(found.cols)
    return Ratings(rows, cols, found.values, row_ids, col_ids, names, None if time is None else _times(path, found.times))


def as_type_of(ids: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Ids in the type of the known ones, integers or text; text that is no integer becomes an unknown id."""
    if ids.dtype.kind == known.dtype.kind:
        return ids
    if ids.dtype.kind == "u" and known.dtype.kind == "i":
        return ids.astype(np.int64)
    if known.dtype.kind in "iu":
        return np.array([int(x) if isinstance(x, str) and _fits(x) else UNKNOWN_ID for x in ids.tolist()], np.int64)
    return np.array([str(x) for x in ids.tolist()], known.dtype if not len(ids) else None)


def _fits(cell: str) -> bool:
    """Whether text is an integer of 64 bits in canonical notation."""
    digits = cell.isascii() and cell.removeprefix("-").isdigit() and len(cell) <= 20
    return digits and cell == str(int(cell)) and -(2**63) <= int(cell) < 2**63


def positions_of(ids: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Positions of ids among the known ones, which are sorted; their number for unknown ids."""
    ids = as_type_of(ids, known)
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, at, len(known)).astype(np.int64)


def kind_of_file(path: Path) -> str:
    """``"text"``, ``"parquet"``, ``"mtx"`` or ``"npz"``, by the extension."""
    check_is_local(path)
    suffixes = [s.lower() for s in path.suffixes]
    last = suffixes[-1] if suffixes else ""
    if last == ".gz" and len(suffixes) > 1:
        last = suffixes[-2]
    if last in TEXT:
        return "text"
    if last in (".mtx", ".npz", ".parquet"):
        return last[1:]
    known = dict.fromkeys(SHEETS, SHEET) | {".json": JSON_FILE, ".lorank": MODEL}
    if last in known:
        raise FileError(f"{path} {known[last]}")
    raise FileError(f"{path}: unknown kind of file; give it one of the endings .csv, .tsv, .txt, .parquet, .mtx or .npz")


Names = tuple[str | None, str | None, str | None, str | None]  # columns of rows, columns, values and times


def _times(path: Path, series: Any) -> np.ndarray:
    """Times as numbers or datetime64."""
    pl = polars()
    if series.dtype.is_numeric():
        return np.asarray(series.to_numpy().astype(np.float64, copy=False))
    try:
        dates = series.str.strip_chars().str.to_datetime(time_unit="us") if series.dtype == pl.String else series
        if getattr(dates.dtype, "time_zone", None):
            dates = dates.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return np.asarray(dates.cast(pl.Datetime("us")).to_numpy())
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise FileError(
            f"{path}, column {series.name!r}: times must be all numbers, or all dates such as 2024-05-31: {reason}"
        ) from None


def _matrix(path: Path, kind: str) -> Ratings:
    import scipy.io
    import scipy.sparse

    if not path.exists():
        raise FileError(f"{path} does not exist")
    try:
        S = scipy.io.mmread(path) if kind == "mtx" else scipy.sparse.load_npz(path)
        coo = scipy.sparse.coo_array(S)
        values = np.asarray(coo.data)
        if values.dtype.kind not in "biuf":
            raise ValueError(f"values are {values.dtype}, not real numbers")
        rows, cols, values = coo.row.astype(np.int64), coo.col.astype(np.int64), values.astype(np.float64)
    except (Exception, MemoryError) as error:
        what = {"mtx": "Matrix Market file", "npz": "sparse matrix as scipy.sparse.save_npz writes it"}[kind]
        raise FileError(f"{path} is no {what}: {error}") from None
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise FileError(f"{path}: entry ({rows[bad[0]] + 1}, {cols[bad[0]] + 1}) is {values[bad[0]]}")
    if not len(values):
        raise FileError(f"{path} has no observations")
    row_ids, rows = np.unique(rows, return_inverse=True)
    col_ids, cols = np.unique(cols, return_inverse=True)
    return Ratings(rows.ravel(), cols.ravel(), values, row_ids, col_ids, Columns("row", "col", "value"))


def find_columns(
    path: Path,
    row: str | None = None,
    col: str | None = None,
    value: str | None = None,
    time: str | None = None,
    *,
    with_values: bool = True,
    header: bool | None = None,
) -> Columns:
    """Columns of row ids, column ids and values of a table: those that are given, or found by their names."""
    asked = row, col, value, time
    if kind_of_file(path) == "parquet":
        return _guess(path, list(schema_of(path)), asked, with_values)
    layout = read_layout(path, header)
    return replace(_guess(path, layout.names, asked, with_values, layout.assumed), header=layout.header)


def _guess(path: Path, names: list[str], asked: Names, with_values: bool, assumed: bool = False) -> Columns:
    """Columns that are given, or found by their names, or the only ones there are.

    ``assumed``: without evidence that the first line holds names, columns must be given or have known names.
    """
    row, col, value, time = asked
    given = [name for name in (row, col, value, time) if name is not None]
    for name in given:
        if name not in names:
            known = ", ".join(map(repr, names))
            raise FileError(f"{path} has no column {name!r}: its columns are {known}{did_you_mean(name, names)}")
    if len(set(given)) != len(given):
        raise FileError(f"the column {next(n for n in given if given.count(n) > 1)!r} is asked for twice")
    found: list[str | None] = [row, col, value]
    hints = (ROW_NAMES, COL_NAMES, VALUE_NAMES)[: 3 if with_values else 2]
    for k, words in enumerate(hints):
        if found[k] is None:
            match = [n for n in names if plain_name(n) in words and n not in found and n != time]
            found[k] = min(match, key=lambda n: words.index(plain_name(n))) if match else None
    left = [n for n in names if n not in found and n != time]
    missing = [k for k in range(len(hints)) if found[k] is None]
    if missing and assumed and len(names) > 1:
        raise FileError(
            f"{path}: the first line, {','.join(names)!r}, may be a header or data: pass --header or --no-header (header=True "
            "or header=False in Python), or name the columns with --row and --col"
        )
    if missing and (len(names) - (time is not None) == len(hints) or names[0] == "column_1"):  # no other choice
        for k in missing:
            if left:
                found[k] = left.pop(0)
    missing = [k for k in range(len(hints)) if found[k] is None]
    if missing:
        options = " ".join(f"--{('row', 'col', 'value')[k]} NAME" for k in missing)
        reason = f"{path}: cannot tell which column is which: pass {options}; the columns are {', '.join(map(repr, names))}"
        hint = ""
        if missing == [2]:
            hint = ". For implicit feedback (clicks, purchases) use --implicit, or lorank.ImplicitFactorization in Python"
        if len(names) == 1:
            hint = _one_alone(path, names[0])
        elif len(left) >= MIN_ITEM_COLUMNS and 1 in missing and 2 in missing:
            hint = ". Each line must be one rating; for a table with a column for each item use lorank impute"
        raise FileError(reason + hint)
    if value is None and found[2] is not None and parse_number(found[2]) is not None:
        reason = f"{path}: the first line, {','.join(names)!r}, looks like data"
        raise FileError(f"{reason}: add a line of names above it, such as user,item,rating, or pass --no-header")
    return Columns(str(found[0]), str(found[1]), found[2], time)


def _one_alone(path: Path, name: str) -> str:
    """Why a file may have one column only, as the end of a message."""
    if name.startswith(("#", "//", "%")):
        return ". The first line is a comment: delete it, as with tail -n +2"
    if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")) and any(sign in name for sign in ",;|"):
        return ". The separator of .tsv files is a tab: rename the file to .csv"
    if " " in name.strip():
        return f". If the fields are separated by spaces, convert them to tabs: tr -s ' ' '\\t' < {path} > ratings.tsv"
    return ". There is only one column: check the header and the separator, which is one of , ; | and tab"


def _codes(series: Any) -> tuple[np.ndarray, np.ndarray]:
    """Indices from 0, and the sorted ids that they stand for."""
    pl = polars()
    if series.dtype == pl.Int64:
        a = series.to_numpy()
        low, high = (int(a.min()), int(a.max())) if len(a) else (0, -1)
        if high - low < 4 * len(a) + 1000:  # faster than sorting
            place = np.zeros(high - low + 1, np.int64)
            place[a - low] = 1
            ids = np.flatnonzero(place) + low
            place[ids - low] = np.arange(len(ids))
            return place[a - low], ids.astype(np.int64)
        ids, codes = np.unique(a, return_inverse=True)
        return codes.ravel().astype(np.int64), ids
    unique = series.unique().sort()
    codes = series.cast(pl.Enum(unique)).to_physical().to_numpy().astype(np.int64)
    ids = np.array(unique.to_list(), dtype=np.str_)
    order = np.argsort(ids, kind="stable")  # code points, as searchsorted compares
    inverse = np.empty(len(ids), np.int64)
    inverse[order] = np.arange(len(ids))
    return inverse[codes], ids[order]


__all__ = ["Columns", "Ratings", "as_type_of", "find_columns", "kind_of_file", "positions_of", "read_ratings"]
