"""Ids of any kind as numbers: collected piece by piece, numbered in rising order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..io.archive import FileError
from ..io.delimited_text import polars

MOST = 2**31 - 1  # rows and columns: indices are kept in 32 bits
WAITING = 1 << 22  # ids that wait to be merged
TABLE = 1 << 22  # numbers in a table of ids, beyond eight for each of them


class Collector:
    """Distinct ids and how often each was seen, in memory that grows with their number alone."""

    def __init__(self, name: str) -> None:
        self.name, self._size = name, 0
        self._waiting: list[Any] = []
        self._kind = ""
        self._known: Any = None  # (ids, counts), merged

    def add(self, ids: Any, origin: str) -> None:
        """More ids: an integer array, or a polars Series of whole numbers or text."""
        kind = _kind(ids)
        if self._kind not in ("", kind):
            raise FileError(f"{origin}: ids of {self.name} are {kind} here and {self._kind} before: make them alike")
        self._kind = kind
        found: Any
        if kind == "whole numbers":
            found = _counted(np.asarray(ids))
        else:
            table = ids.rename("id").value_counts(name="count")
            found = (table["id"], table["count"].to_numpy().astype(np.int64))
        self._waiting.append(found)
        self._size += len(found[0])
        if self._size > WAITING:
            self._merge()

    def _merge(self) -> None:
        parts = self._waiting if self._known is None else [self._known, *self._waiting]
        counts = np.concatenate([c for _, c in parts])
        if self._kind == "whole numbers":
            ids, at = np.unique(np.concatenate([i for i, _ in parts]), return_inverse=True)
            self._known = ids, np.bincount(at.ravel(), counts, len(ids)).astype(np.int64)
        else:
            pl = polars()
            table = pl.DataFrame({"id": pl.concat([i for i, _ in parts]), "count": counts})
            table = table.group_by("id").agg(pl.col("count").sum())
            self._known = table["id"], table["count"].to_numpy()
        self._waiting, self._size = [], 0
        if len(self._known[0]) > MOST:
            raise FileError(f"there are more than {MOST:,} different {self.name}, and numbers of 32 bits stand for them")

    def finish(self) -> tuple[Numbers, np.ndarray]:
        """The numbering, and how often each was seen."""
        if self._waiting:
            self._merge()
        if self._known is None:
            raise FileError("there are no observations")
        ids, counts = self._known
        if self._kind != "whole numbers":
            names = np.array(ids.to_list(), dtype=np.str_)
            order = np.argsort(names, kind="stable")  # code points, as in memory
            return Numbers(names[order]), counts[order]
        return Numbers(ids), counts


class Numbers:
    """Numbers 0, 1, 2, ... for ids in rising order."""

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = ids
        self._table: Any = None
        if ids.dtype.kind in "iu":
            if _dense(ids, len(ids)):  # looked up, where a table is not much larger than the ids
                self._table = np.zeros(int(ids[-1]) - int(ids[0]) + 1, np.int32)
                self._table[_above(ids, ids[0])] = np.arange(len(ids), dtype=np.int32)
        else:
            pl = polars()
            self._table = pl.DataFrame(
                {"id": pl.Series(ids.tolist(), dtype=pl.String), "at": np.arange(len(ids), dtype=np.int32)}
            )

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, ids: Any) -> np.ndarray:
        """Numbers of ids that are all known."""
        if self._table is None:
            return np.searchsorted(self.ids, np.asarray(ids)).astype(np.int32)
        if isinstance(self._table, np.ndarray):
            return self._table[_above(np.asarray(ids), self.ids[0])]
        frame = ids.rename("id").to_frame()
        return frame.join(self._table, on="id", how="left", maintain_order="left")["at"].to_numpy().astype(np.int32)


class Given:
    """Ids that are numbers from 0 to n - 1 already."""

    ids = None

    def __init__(self, n: int, name: str) -> None:
        self.n, self.name = n, name

    def __len__(self) -> int:
        return self.n

    def of(self, ids: Any) -> np.ndarray:
        return np.asarray(ids).astype(np.int32, copy=False)

    def check(self, ids: Any, origin: str, first: int) -> None:
        """A FileError where one of them is no such number."""
        if _kind(ids) != "whole numbers":
            raise FileError(
                f"{origin}: with shape=, ids of {self.name} are numbers from 0 on, and these are text: leave shape out"
            )
        a = np.asarray(ids)
        bad = np.flatnonzero((a < 0) | (a >= self.n))
        if len(bad):
            k = int(bad[0])
            raise FileError(
                f"{origin}, observation {first + k + 1}: {a[k]} does not fit, ids of {self.name} are 0 .. {self.n - 1}"
            )


def _dense(ids: np.ndarray, count: int) -> bool:
    """Whether whole numbers lie so close that a table over their range is not much larger than ``count`` of them."""
    return len(ids) > 0 and int(ids.max()) - int(ids.min()) < 8 * count + TABLE


def _counted(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct whole numbers in rising order, and how often each is there: np.unique, without sorting where they are dense."""
    if not _dense(ids, len(ids)):
        return np.unique(ids, return_counts=True)
    first = ids.min()
    counts = np.bincount(_above(ids, first))
    there = np.flatnonzero(counts)
    return there.astype(ids.dtype) + first, counts[there]


def _above(ids: np.ndarray, first: Any) -> np.ndarray:
    """How far whole numbers of any width lie above one of them, where that is not far."""
    if ids.dtype == np.uint64:
        return (ids - np.uint64(first)).astype(np.int64)
    return ids.astype(np.int64, copy=False) - int(first)


def _kind(ids: Any) -> str:
    if isinstance(ids, np.ndarray):
        if ids.dtype.kind not in "iu":
            raise FileError(f"ids in arrays must be whole numbers, not {ids.dtype}")
        return "whole numbers"
    return "whole numbers" if ids.dtype.is_integer() else "text"
