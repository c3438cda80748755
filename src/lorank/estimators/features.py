"""Features of rows and columns as numbers: numbers as they are, categories one by one, text by hashing its words."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ..common.checks import counted, shown
from .frames import column, column_names, is_frame
from .ids import as_ids, find_ids, united_ids

BUCKETS = 256  # of the words of a text column
KINDS = 32  # whole numbers of at most so many kinds are categories, too
MOST = 4096  # features in all: their Gram matrix is in memory
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Encoder:
    """How features become numbers; learned from a table, and applied to others with the same columns.

    Attributes
    ----------
    columns : list of dict
        For each column its ``name`` (None where features are an array) and its ``kind``: ``"number"`` with ``mean`` and
        ``scale``, ``"category"`` with ``levels``, or ``"text"``. Plain numbers and text, as JSON takes them.
    """

    columns: list[dict[str, Any]]

    @property
    def width(self) -> int:
        return sum(_width(one) for one in self.columns)

    @classmethod
    def learn(cls, table: Any, names: list[Any] | None, side: str) -> Encoder:
        """From a data frame, its columns by name; or from a (n, d) array or sparse matrix of numbers."""
        specs: list[dict[str, Any]] = []
        for k in range(table.shape[1]) if names is None else range(len(names)):
            specs += _learned(table, k, None if names is None else names[k], side)
        found = cls(specs)
        if found.width > MOST:
            raise ValueError(
                f"{side}_features become {found.width:,} numbers, more than {MOST:,}: leave out, or hash, some of them"
            )
        return found

    def encode(self, table: Any, side: str) -> scipy.sparse.csr_array:
        """The features of other rows, an (n, width) sparse array; unknown categories are zeros."""
        frame = is_frame(table)
        have = set(column_names(table)) if frame else set()
        if frame == (self.columns[0]["name"] is None):
            raise ValueError(f"{side}_features were {'an array' if frame else 'a data frame'} in fit, and are not now")
        had = max(spec["at"] for spec in self.columns) + 1
        if not frame and table.shape[1] != had:
            raise ValueError(
                f"{side}_features had {counted(had, 'column')} in fit, which go by their places, and have "
                f"{table.shape[1]:,} now: pass the same ones in the same order"
            )
        blocks = []
        for k, spec in enumerate(self.columns):
            if frame and spec["name"] not in have:
                raise ValueError(f"{side}_features have no column {spec['name']!r}, which the fit had")
            blocks.append(_encoded(_cells(table, spec["at"] if not frame else k, spec["name"]), spec, side))
        return scipy.sparse.csr_array(scipy.sparse.hstack(blocks)) if blocks else scipy.sparse.csr_array((table.shape[0], 0))


@dataclass(frozen=True)
class SideTable:
    """Features of all rows (columns) of a model.

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
    """Features in the order of the model's rows (columns), and the ids that the model has with them.

    Parameters
    ----------
    table : data frame, (n, d) array or sparse matrix
        With ids, a data frame that has them in the column ``label``. Without, one line for each row, in order.
    side : {"row", "col"}
    ids : array or None
        Those of the observations.
    label : str or None
    seen : int
        Rows that the observations need, where there are no ids.
    encoder : Encoder, optional
        That of the fit; learned from the table by default.
    """
    what = f"{side}_features"
    if not is_frame(table):
        table = table.tocsc() if hasattr(table, "tocoo") else _numbers(table, what)  # not every format has columns to take
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
            raise ValueError(f"{what} have no column beside the ids")
    elif table.ndim != 2 or not table.shape[1]:
        raise ValueError(f"{what} must have one line for each {side} and at least one column, got shape {table.shape}")
    encoder = encoder or Encoder.learn(table, names, side)
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
        raise ValueError(
            f"{what} have no line for {side} {missing[0].item()!r}{more}: add what is known of them, or leave them out"
        )
    together = united_ids(ids, own, side)
    at = order[find_ids(together, own[order], side)]
    return numbers[at], encoder, together


def _numbers(a: Any, what: str) -> np.ndarray:
    found = np.asarray(a)
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{what} must be numbers, or a data frame: got {shown(a)}")
    return found.astype(float)


def _cells(table: Any, k: int, name: Any) -> Any:
    if is_frame(table):
        return column(table, name)
    return table[:, [k]].toarray()[:, 0] if hasattr(table, "tocoo") else table[:, k]


def _learned(table: Any, k: int, name: Any, side: str) -> list[dict[str, Any]]:
    """One column as a number, as categories, as both, or as text."""
    cells = _cells(table.tocsc() if hasattr(table, "tocoo") else table, k, name)
    head = {"name": name if name is None or isinstance(name, int) else str(name), "at": k}
    kind = getattr(getattr(table[name], "dtype", None), "name", "") if is_frame(table) else ""
    if cells.dtype.kind in "iuf" and kind != "category":
        a = cells.astype(float)
        bad = np.flatnonzero(np.isinf(a))
        if len(bad):
            raise ValueError(f"{side}_features, column {name if name is not None else k}: infinite in line {bad[0]}")
        there = a[~np.isnan(a)]
        scale = float(there.std()) if len(there) else 0.0
        found = [head | {"kind": "number", "mean": float(there.mean()) if len(there) else 0.0, "scale": scale or 1.0}]
        levels = np.unique(there)
        if 2 < len(levels) <= KINDS and (levels == np.floor(levels)).all():
            found.append(head | {"kind": "category", "levels": [str(int(x)) for x in levels]})
        return found
    words = [_text(x) for x in cells.tolist()]
    if all(x is None or WORD.fullmatch(x) for x in words):
        kinds = sorted({x for x in words if x is not None})
        if len(kinds) <= BUCKETS:
            return [head | {"kind": "category", "levels": kinds}]
    return [head | {"kind": "text"}]


def _width(spec: dict[str, Any]) -> int:
    return 1 if spec["kind"] == "number" else BUCKETS if spec["kind"] == "text" else len(spec["levels"])


def _encoded(cells: np.ndarray, spec: dict[str, Any], side: str) -> scipy.sparse.csr_array:
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
        return scipy.sparse.csr_array(np.where(np.isnan(a), 0.0, a)[:, None])  # what is missing is average
    words = [_text(x) for x in cells.tolist()]
    rows, cols = [], []
    if spec["kind"] == "category":
        place = {level: k for k, level in enumerate(spec["levels"])}
        for i, x in enumerate(words):
            if x in place:
                rows.append(i)
                cols.append(place[x])
    else:
        for i, x in enumerate(words):
            for bucket in {zlib.crc32(word.lower().encode()) % BUCKETS for word in WORD.findall(x or "")}:
                rows.append(i)
                cols.append(bucket)
    return scipy.sparse.csr_array((np.ones(len(rows)), (rows, cols)), (n, _width(spec)))


def _text(x: Any) -> str | None:
    """A cell as text; None where it is missing."""
    if x is None or (isinstance(x, float) and np.isnan(x)):
        return None
    return (str(int(x)) if isinstance(x, float) and x == np.floor(x) else str(x)).strip() or None
