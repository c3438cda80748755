"""Numbering of row and column ids: distinct ids are collected chunk by chunk and numbered in increasing order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..io.archive import FileError
from ..io.delimited_text import polars

MAX_IDS = 2**31 - 1  # rows or columns; indices have 32 bits
MERGE_SIZE = 1 << 22  # collected ids from which they are merged
TABLE_SIZE = 1 << 22  # entries of a lookup table, in addition to eight per id
INTEGERS, TEXT = "integers", "text"


class IdCollector:
    """Distinct ids and their counts, in memory proportional to the number of distinct ids."""

    def __init__(self, name: str) -> None:
        self.name, self._size = name, 0
        self._waiting: list[Any] = []
        self._kind = ""
        self._known: Any = None  # (ids, counts), merged

    def add(self, ids: Any, origin: str, first: int = 0) -> None:
        """Add ids: an integer array, or a polars Series of integers or strings; ``origin`` names their source in messages."""
        kind = _kind(ids)
        if self._kind not in ("", kind):
            raise FileError(f"{origin}: ids of {self.name} are {kind} here and {self._kind} before: make them alike")
        self._kind = kind
        found: Any
        if kind == INTEGERS:
            found = _unique_counts(np.asarray(ids))
        else:
            table = ids.rename("id").value_counts(name="count")
            found = (table["id"], table["count"].to_numpy().astype(np.int64))
        self._waiting.append(found)
        self._size += len(found[0])
        if self._size > MERGE_SIZE:
            self._merge()

    def _merge(self) -> None:
        parts = self._waiting if self._known is None else [self._known, *self._waiting]
        counts = np.concatenate([c for _, c in parts])
        if self._kind == INTEGERS:
            ids, at = np.unique(np.concatenate([i for i, _ in parts]), return_inverse=True)
            self._known = ids, np.bincount(at.ravel(), counts, len(ids)).astype(np.int64)
        else:
            pl = polars()
            table = pl.DataFrame({"id": pl.concat([i for i, _ in parts]), "count": counts})
            table = table.group_by("id").agg(pl.col("count").sum())
            self._known = table["id"], table["count"].to_numpy()
        self._waiting, self._size = [], 0
        if len(self._known[0]) > MAX_IDS:
            raise FileError(f"there are more than {MAX_IDS:,} different {self.name}: indices have 32 bits")

    def finish(self) -> tuple[IdNumbering, np.ndarray]:
        """The numbering, and the count of each id."""
        if self._waiting:
            self._merge()
        ids, counts = self._known
        if self._kind == INTEGERS:
            return IdNumbering(ids), counts
        names = np.array(ids.to_list(), dtype=np.str_)
        order = np.argsort(names, kind="stable")  # by code points, as for ids in memory
        names = names[order]
        if (names[1:] == names[:-1]).any():  # NumPy drops trailing NUL characters
            raise FileError(f"ids of {self.name} differ only in NUL characters at their ends: remove these")
        return IdNumbering(names), counts[order]


class IdNumbering:
    """Numbers 0, 1, 2, ... of ids in increasing order."""

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = ids
        self._table: Any = None
        if ids.dtype.kind in "iu":
            if _dense(ids, len(ids)):
                self._table = np.zeros(int(ids[-1]) - int(ids[0]) + 1, np.int32)
                self._table[_offsets(ids, ids[0])] = np.arange(len(ids), dtype=np.int32)
        else:
            pl = polars()
            self._table = pl.DataFrame(
                {"id": pl.Series(ids.tolist(), dtype=pl.String), "at": np.arange(len(ids), dtype=np.int32)}
            )

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, ids: Any) -> np.ndarray:
        """Numbers of ids, all of which must be known."""
        if self._table is None:
            return np.searchsorted(self.ids, np.asarray(ids)).astype(np.int32)
        if isinstance(self._table, np.ndarray):
            return self._table[_offsets(np.asarray(ids), self.ids[0])]
        frame = ids.rename("id").to_frame()
        return frame.join(self._table, on="id", how="left", maintain_order="left")["at"].to_numpy().astype(np.int32)


class GivenIndices:
    """Ids that are indices from 0 to n - 1 already: both :class:`IdCollector` and :class:`IdNumbering`."""

    ids = None

    def __init__(self, n: int, name: str) -> None:
        self.n, self.name = n, name
        self._counts = np.zeros(n, np.int64)

    def __len__(self) -> int:
        return self.n

    def of(self, ids: Any) -> np.ndarray:
        return np.asarray(ids).astype(np.int32, copy=False)

    def add(self, ids: Any, origin: str, first: int = 0) -> None:
        """Count indices; a FileError if one is not from 0 to n - 1. The first id is observation ``first`` of ``origin``."""
        if _kind(ids) != INTEGERS:
            raise FileError(f"{origin}: ids of {self.name} are strings. With shape=, ids must be indices: leave shape out")
        a = np.asarray(ids)
        bad = np.flatnonzero((a < 0) | (a >= self.n))
        if len(bad):
            k = int(bad[0])
            raise FileError(f"{origin}, observation {first + k + 1}: {a[k]} is not in 0 .. {self.n - 1}, the {self.name}")
        self._counts += np.bincount(a, minlength=self.n)

    def finish(self) -> tuple[GivenIndices, np.ndarray]:
        """The numbering, and the count of each index."""
        return self, self._counts


def _dense(ids: np.ndarray, count: int) -> bool:
    """Whether a table over the range of integers is not much larger than ``count`` of them."""
    return len(ids) > 0 and int(ids.max()) - int(ids.min()) < 8 * count + TABLE_SIZE


def _unique_counts(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct integers in increasing order and their counts: np.unique, but without sorting if they are dense."""
    if not _dense(ids, len(ids)):
        return np.unique(ids, return_counts=True)
    first = ids.min()
    counts = np.bincount(_offsets(ids, first))
    there = np.flatnonzero(counts)
    return there.astype(ids.dtype) + first, counts[there]


def _offsets(ids: np.ndarray, first: Any) -> np.ndarray:
    """Differences of dense integers of any width from the smallest one."""
    if ids.dtype == np.uint64:
        return (ids - np.uint64(first)).astype(np.int64)
    return ids.astype(np.int64, copy=False) - int(first)


def _kind(ids: Any) -> str:
    if isinstance(ids, np.ndarray):
        if ids.dtype.kind not in "iu":
            raise FileError(f"ids in arrays must be integers, not {ids.dtype}")
        return INTEGERS
    return INTEGERS if ids.dtype.is_integer() else TEXT
