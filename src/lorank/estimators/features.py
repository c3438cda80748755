"""Features of rows and columns: their encoding as numbers, and factors predicted from them."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from ..common.checks import ParameterError, counted, shown
from ..factorization import Settings
from ..factorization.feature_priors import Features
from .frames import as_ids, column, column_names, is_frame, positions_of, union_ids
from .inputs import Entries

SIDES = (("row", "rows"), ("col", "cols"))
TEXT_BUCKETS = 256  # hash buckets for the words of a text column
MAX_INTEGER_LEVELS = 32  # integer columns with at most this many levels are encoded as categories, too
MAX_FEATURES = 4096  # encoded features in all: their Gram matrix is in memory
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Encoder:
    """Encoder of features as numbers, fitted to a table and applied to tables with the same columns.

    Attributes
    ----------
    columns : list of dict
        For each column its ``name`` (None where features are an array) and its ``kind``: ``"number"`` with ``mean`` and
        ``scale``, ``"category"`` with ``levels``, or ``"text"``. Serializable as JSON.
    """

    columns: list[dict[str, Any]]

    @property
    def width(self) -> int:
        return sum(_width(one) for one in self.columns)

    @classmethod
    def fit(cls, table: Any, names: list[Any] | None, side: str) -> Encoder:
        """Fit to a data frame, with its columns by name, or to an (n, d) array or sparse matrix of numbers."""
        specs: list[dict[str, Any]] = []
        for k in range(table.shape[1]) if names is None else range(len(names)):
            specs += _fit_column(table, k, None if names is None else names[k])
        found = cls(specs)
        if found.width > MAX_FEATURES:
            raise ValueError(
                f"{side}_features become {found.width:,} numbers, more than {MAX_FEATURES:,}: drop or hash some columns"
            )
        return found

    def encode(self, table: Any, side: str) -> scipy.sparse.csr_array:
        """Features as an (n, width) sparse array; unknown categories are zeros. A dict is one line of a data frame."""
        have = set(table) if isinstance(table, dict) else set(column_names(table)) if is_frame(table) else set()
        frame = isinstance(table, dict) or is_frame(table)
        if frame == (self.columns[0]["name"] is None):
            raise ValueError(f"{side}_features were {'an array' if frame else 'a data frame'} in fit, and are not now")
        had = max(spec["at"] for spec in self.columns) + 1
        if not frame and table.shape[1] != had:
            raise ValueError(
                f"{side}_features had {counted(had, 'column')} in fit, identified by position, and have "
                f"{table.shape[1]:,} now: pass the same ones in the same order"
            )
        blocks = []
        for k, spec in enumerate(self.columns):
            if frame and spec["name"] not in have:
                raise ValueError(f"{side}_features have no column {spec['name']!r}, which the fit had")
            blocks.append(_encode_column(_cells(table, spec["at"] if not frame else k, spec["name"]), spec, side))
        return scipy.sparse.csr_array(scipy.sparse.hstack(blocks)) if blocks else scipy.sparse.csr_array((table.shape[0], 0))


@dataclass(frozen=True)
class SideTable:
    """Encoded features of all rows (columns) of a model.

    Attributes
    ----------
    encoder : Encoder
    numbers : (n, d) sparse array
    """

    encoder: Encoder
    numbers: scipy.sparse.csr_array


def read_features(
    table: Any, side: str, ids: np.ndarray | None, label: Any, seen: int, encoder: Encoder | None = None
) -> tuple[scipy.sparse.csr_array, Encoder, np.ndarray | None]:
    """Encoded features in the order of the model's rows (columns), their encoder, and the ids of all rows with features.

    Parameters
    ----------
    table : data frame, (n, d) array or sparse matrix
        With ids, a data frame that has them in the column ``label``. Without, one line for each row, in order.
    side : {"row", "col"}
    ids : array or None
        Ids of the observations.
    label : str or None
        Name of the column with ids.
    seen : int
        Number of rows of the observations, where there are no ids.
    encoder : Encoder, optional
        The encoder of the fit; by default one is fitted to the table.
    """
    what = f"{side}_features"
    if not is_frame(table):
        table = table.tocsc() if scipy.sparse.issparse(table) else _numbers(table, what)
        if ids is not None:
            raise ValueError(f"{what} must be a data frame with the ids of its lines: the observations have ids")
    names = None
    if is_frame(table):
        names = column_names(table)
        if ids is not None:
            label = names[0] if label is None else label
            if label not in names:
                raise ValueError(
                    f"{what} have no column {label!r} with ids, as the observations have: their columns are {names}"
                )
            names = [name for name in names if name != label]
        if not names:
            raise ValueError(f"{what} have no column except the ids")
    elif table.ndim != 2 or not table.shape[1]:
        raise ValueError(f"{what} must have one line for each {side} and at least one column, got shape {table.shape}")
    encoder = encoder or Encoder.fit(table, names, side)
    numbers = encoder.encode(table, side)
    if ids is None:
        if numbers.shape[0] < seen:
            raise ValueError(
                f"{what} have {counted(numbers.shape[0], 'line')}, and observations reach {side} {seen - 1:,}: each needs one"
            )
        return numbers, encoder, None
    own = as_ids(column(table, label), side)
    order = np.argsort(own, kind="stable")
    twice = np.flatnonzero(own[order][1:] == own[order][:-1])
    if len(twice):
        raise ValueError(f"{what} have more than one line for {own[order][twice[0]].item()!r}")
    missing = np.setdiff1d(ids, own) if (ids.dtype.kind in "iu") == (own.dtype.kind in "iu") else ids
    if len(missing):
        more = f" and {counted(len(missing) - 1, 'other')}" if len(missing) > 1 else ""
        raise ValueError(f"{what} have no line for {side} {missing[0].item()!r}{more}: add their features, or leave them out")
    together = union_ids(ids, own, side)
    at = order[positions_of(together, own[order], side)]
    return numbers[at], encoder, together


def _numbers(a: Any, what: str) -> np.ndarray:
    found = np.asarray(a)
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{what} must be numbers, or a data frame: got {shown(a)}")
    return found.astype(float)


def _cells(table: Any, k: int, name: Any) -> Any:
    if isinstance(table, dict):
        cell = np.asarray([table[name]])
        return cell if cell.dtype.kind in "biuf" else cell.astype(object)
    if is_frame(table):
        return column(table, name)
    return table[:, [k]].toarray()[:, 0] if scipy.sparse.issparse(table) else table[:, k]


def _fit_column(table: Any, k: int, name: Any) -> list[dict[str, Any]]:
    """Encoding of one column: number, category, both, or text."""
    cells = _cells(table, k, name)
    head = {"name": name if name is None or isinstance(name, int) else str(name), "at": k}
    kind = getattr(getattr(table[name], "dtype", None), "name", "") if is_frame(table) else ""
    if cells.dtype.kind in "iuf" and kind != "category":
        a = cells.astype(float)
        there = a[np.isfinite(a)]
        scale = float(there.std()) if len(there) else 0.0
        found = [head | {"kind": "number", "mean": float(there.mean()) if len(there) else 0.0, "scale": scale or 1.0}]
        levels = np.unique(there)
        if 2 < len(levels) <= MAX_INTEGER_LEVELS and (levels == np.floor(levels)).all():
            found.append(head | {"kind": "category", "levels": [str(int(x)) for x in levels]})
        return found
    words = [_text(x) for x in cells.tolist()]
    if all(x is None or WORD.fullmatch(x) for x in words):
        kinds = sorted({x for x in words if x is not None})
        if len(kinds) <= TEXT_BUCKETS:
            return [head | {"kind": "category", "levels": kinds}]
    return [head | {"kind": "text"}]


def _width(spec: dict[str, Any]) -> int:
    return 1 if spec["kind"] == "number" else TEXT_BUCKETS if spec["kind"] == "text" else len(spec["levels"])


def _encode_column(cells: np.ndarray, spec: dict[str, Any], side: str) -> scipy.sparse.csr_array:
    n = len(cells)
    if spec["kind"] == "number":
        try:
            a = (cells.astype(float) - spec["mean"]) / spec["scale"]
        except (TypeError, ValueError):
            raise ValueError(f"{side}_features, column {spec['name']!r}: not all numbers, as they were in fit") from None
        bad = np.flatnonzero(np.isinf(a))
        if len(bad):
            name = spec["at"] if spec["name"] is None else spec["name"]
            raise ValueError(f"{side}_features, column {name}: infinite in line {bad[0]}")
        return scipy.sparse.csr_array(np.where(np.isnan(a), 0.0, a)[:, None])  # missing cells get the mean
    words = [_text(x) for x in cells.tolist()]
    if spec["kind"] == "category":
        position = {level: k for k, level in enumerate(spec["levels"])}
        pairs = [(i, position[x]) for i, x in enumerate(words) if x in position]
    else:
        pairs = [(i, bucket) for i, x in enumerate(words) for bucket in _buckets(x or "")]
    rows, cols = np.array(pairs, np.int64).reshape(-1, 2).T
    return scipy.sparse.csr_array((np.ones(len(rows)), (rows, cols)), (n, _width(spec)))


def _buckets(text: str) -> set[int]:
    """Hash buckets of the words of a text."""
    return {zlib.crc32(word.lower().encode()) % TEXT_BUCKETS for word in WORD.findall(text)}


def _text(x: Any) -> str | None:
    """A cell as text; None where it is missing."""
    if x is None or (isinstance(x, float) and np.isnan(x)):
        return None
    return (str(int(x)) if isinstance(x, float) and x == np.floor(x) else str(x)).strip() or None


def with_features(entries: Entries, row_features: Any, col_features: Any) -> tuple[Entries, dict[str, SideTable]]:
    """The observations indexed among all rows and columns that have features, and the features."""
    sides: dict[str, SideTable] = {}
    for (side, plural), table in zip(SIDES, (row_features, col_features), strict=True):
        if table is None:
            continue
        index, ids = getattr(entries, plural), None if entries.ids is None else entries.ids[plural]
        label = None if entries.labels is None else entries.labels[side]
        numbers, encoder, together = read_features(table, side, ids, label, int(index.max()) + 1)
        sides[side] = SideTable(encoder, numbers)
        shape = list(entries.shape or (int(entries.rows.max()) + 1, int(entries.cols.max()) + 1))
        shape[side == "col"] = numbers.shape[0]
        entries = replace(entries, shape=(shape[0], shape[1]))
        if together is not None and ids is not None and entries.ids is not None:
            position = np.searchsorted(together, ids)
            entries = replace(entries, ids=entries.ids | {plural: together}, **{plural: position[index]})
    return entries, sides


def feature_settings(settings: Settings, sides: dict[str, SideTable], shape: tuple[int, int]) -> Settings:
    """Settings of a fit with features; a ValueError where features cannot be used."""
    if settings.nonnegative:
        raise ValueError("features predict factors of either sign: leave out nonnegative=True, or the features")
    if settings.regularization is not None:
        raise ValueError("features are the means of learned priors: leave regularization at 'auto' or 'learned'")
    if settings.device is not None:
        raise ValueError("features are used in main memory: leave out device=")
    for (side, _), n in zip(SIDES, shape, strict=True):
        if side in sides and sides[side].numbers.shape[0] != n:
            lines = sides[side].numbers.shape[0]
            raise ValueError(
                f"{side}_features have {counted(lines, 'line')}, and the matrix has {counted(n, side)}: they must be as many"
            )
    found = {f"{side}_features": Features(table.numbers) for side, table in sides.items()}
    return replace(settings, row_features=found.get("row_features"), col_features=found.get("col_features"))


def one_line(features: Any) -> Any:
    """Features of one row, as :meth:`Encoder.encode` takes them."""
    if isinstance(features, dict):
        return features
    if scipy.sparse.issparse(features):
        features = features.tocsr()
    elif not is_frame(features):
        features = np.atleast_2d(np.asarray(features))
    if features.shape[0] != 1:
        raise ParameterError("features", f"must be those of one row, got {counted(features.shape[0], 'line')}")
    return features


def predict_factors(factors: np.ndarray, counts: np.ndarray, numbers: scipy.sparse.csr_array) -> np.ndarray:
    """The factors, those of rows without observations (a count of 0) predicted by regression on encoded features."""
    cold = counts == 0
    if not cold.any() or cold.all():
        return factors
    x, features, full = factors[~cold].astype(float), Features(numbers[~cold]), factors.copy()
    spread = np.atleast_2d(np.cov(x, rowvar=False))
    spread = spread + 1e-12 * max(float(np.trace(spread)), 1e-30) * np.eye(len(spread))
    regression, _ = features.regress(x, np.linalg.inv(spread), None)
    full[cold] = affine(numbers[cold], features.affine(regression)) + x.mean(0)
    return full


def affine(numbers: scipy.sparse.csr_array, coefficients: np.ndarray) -> np.ndarray:
    """Shifts of prior means by encoded features, (n, k)."""
    return np.asarray(numbers @ coefficients[:-1] + coefficients[-1])
