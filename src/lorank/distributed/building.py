"""From observations in any order to a folder of partitions, in bounded memory.

Three passes: ids are collected and counted, which says where to cut; observations are dealt out to one raw file a partition;
each of these is sorted on its own. A pair that occurs twice ends in one partition, wherever its two files were.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..backends import HostEntries, get_backend
from ..io.archive import FileError
from .blocks import block_arrays, row_edges
from .folder import Folder, FolderWriter, open_folder
from .id_numbering import Collector, Given, Numbers
from .sources import Piece, Source, Unsettled

DEFAULT = 8_000_000  # observations in a partition: some 160 MB on disk, twice that while it is made


def build(
    source: Source,
    path: str | os.PathLike[str],
    *,
    shape: tuple[int, int] | None = None,
    partitions: int | None = None,
    dtype: Any = np.float32,
    duplicates: str = "error",
    each: int | None = None,
    least: int = 1,
    watch: Callable[[str, int], None] | None = None,
) -> Folder:
    """Write the observations of a source as a folder of partitions.

    Parameters
    ----------
    source : Source
    path : path
        The folder to make.
    shape : (int, int), optional
        Says that ids are numbers from 0 on; by default ids of any kind are numbered in rising order.
    partitions : int, optional
        By default about one for each eight million observations.
    dtype : float32 or float64
    duplicates : {"error", "mean", "last", "sum"}
    each : int, optional
        Observations in a partition, about, where their number is not given.
    least : int
        Partitions at least, where their number is not given.
    watch : callable, optional
        Called with what is going on and a number.
    """
    say = watch or (lambda what, count: None)
    rows: Numbers | Given
    cols: Numbers | Given
    try:
        rows, cols, counts, weighted = _number(source, shape, say)
    except Unsettled as unsettled:
        unsettled.source.settle()
        rows, cols, counts, weighted = _number(source, shape, say)
    total = int(counts.sum())
    if partitions is None:
        partitions = max(1, min(max(-(-total // (each or DEFAULT)), least), int((counts > 0).sum())))
    edges = row_edges(counts, partitions)
    record = [("row", np.int32), ("col", np.int32), ("value", np.dtype(dtype))]
    kind = np.dtype([*record, ("weight", np.dtype(dtype))] if weighted else record)
    target = Path(path)
    with FolderWriter(target, len(cols), dtype, weighted) as writer:
        raw = Path(tempfile.mkdtemp(prefix="raw.", dir=writer.work))
        dealt = 0
        for piece in source.pieces():
            _deal(piece, rows, cols, edges, kind, raw)
            dealt += len(piece.values)
            say("dealing out observations", dealt)
        for k in range(partitions):
            say(f"sorting partitions, of {partitions}", k + 1)
            file = raw / str(k)
            found = np.fromfile(file, kind)
            file.unlink()
            entries = _sorted(found, int(edges[k]), int(edges[k + 1]), len(cols), duplicates, rows, cols)
            del found
            writer.add(block_arrays(entries, len(cols)))
        shutil.rmtree(raw)
        writer.add_ids(0, rows.ids)
        writer.add_ids(1, cols.ids)
    return open_folder(target)


def _number(
    source: Source, shape: tuple[int, int] | None, say: Callable[[str, int], None]
) -> tuple[Any, Any, np.ndarray, bool]:
    """Numbers for rows and columns, observations in each row, and whether there are weights."""
    weighted = False
    if shape is not None:
        given = Given(shape[0], "rows"), Given(shape[1], "columns")
        counts = np.zeros(shape[0], np.int64)
        for piece in source.pieces():
            for one, ids in zip(given, (piece.rows, piece.cols), strict=True):
                one.check(ids, piece.origin, piece.first)
            _check_numbers(piece)
            counts += np.bincount(np.asarray(piece.rows), minlength=shape[0])
            weighted = piece.weights is not None
            say("checking observations", int(counts.sum()))
        if not counts.any():
            raise FileError("there are no observations")
        return *given, counts, weighted
    sides, seen = (Collector("rows"), Collector("columns")), 0
    for piece in source.pieces():
        for side, ids in zip(sides, (piece.rows, piece.cols), strict=True):
            side.add(ids, piece.origin)
        _check_numbers(piece)
        weighted = piece.weights is not None
        seen += len(piece.values)
        say("numbering ids", seen)
    rows, counts = sides[0].finish()
    return rows, sides[1].finish()[0], counts, weighted


def _check_numbers(piece: Piece) -> None:
    bad = ~np.isfinite(piece.values)
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        raise FileError(
            f"{piece.origin}, observation {piece.first + k + 1}: the value {piece.values[k]} is not finite: leave it out"
        )
    if piece.weights is not None and not (piece.weights > 0).all():
        k = int(np.flatnonzero(~(piece.weights > 0))[0])
        raise FileError(f"{_place(piece, k)}: the weight {piece.weights[k]} is not positive: leave it out")


def _place(piece: Piece, k: int) -> str:
    return f"{piece.origin}, observation {piece.first + k + 1}"


def _deal(piece: Piece, rows: Any, cols: Any, edges: np.ndarray, kind: np.dtype, raw: Path) -> None:
    """Append observations to the raw file of their partition, in the order in which they came."""
    found = np.empty(len(piece.values), kind)
    with np.errstate(over="ignore", under="ignore"):
        found["row"], found["col"], found["value"] = rows.of(piece.rows), cols.of(piece.cols), piece.values
    if piece.weights is not None:
        found["weight"] = piece.weights
    if not np.isfinite(found["value"]).all():
        k = int(np.flatnonzero(~np.isfinite(found["value"]))[0])
        raise FileError(
            f"{piece.origin}, observation {piece.first + k + 1}: {piece.values[k]} is too large for {kind['value']}"
        )
    lost = (found["value"] == 0) & (piece.values != 0)
    if lost.any():
        k = int(np.flatnonzero(lost)[0])
        raise FileError(f"{_place(piece, k)}: {piece.values[k]} is too small for {kind['value']}: multiply all values")
    part = np.searchsorted(edges, found["row"], side="right") - 1
    order = np.argsort(part.astype(np.uint16) if len(edges) <= 2**16 else part, kind="stable")  # 16 bits are sorted by digits
    ends = np.cumsum(np.bincount(part, minlength=len(edges) - 1))
    found = found[order]
    for k, end in enumerate(ends):
        some = found[ends[k - 1] if k else 0 : end]
        if len(some):
            with open(raw / str(k), "ab") as file:
                some.tofile(file)


def _sorted(found: np.ndarray, first: int, last: int, n2: int, how: str, rows: Any, cols: Any) -> HostEntries:
    """The observations of one partition row by row, each pair once."""
    backend: Any = get_backend()
    shape = (last - first, n2)
    row, col = np.ascontiguousarray(found["row"] - first), np.ascontiguousarray(found["col"])
    order = np.asarray(backend.row_major_order(row, col, shape))
    row, col, values = row[order], col[order], found["value"][order]
    weights = found["weight"][order] if "weight" in (found.dtype.names or ()) else None
    fresh = np.ones(len(row), bool)
    fresh[1:] = (row[1:] != row[:-1]) | (col[1:] != col[:-1])
    if not fresh.all():
        if how == "error":
            k = int(np.flatnonzero(~fresh)[0])
            a, b = (str(n) if side.ids is None else str(side.ids[n]) for n, side in ((row[k] + first, rows), (col[k], cols)))
            raise FileError(
                f"the pair (row {a}, column {b}) is observed more than once ({int((~fresh).sum()):,} repetitions in its "
                "partition): pass duplicates='mean', 'last' or 'sum' to say what they mean"
            )
        values, weights = _merged(how, np.flatnonzero(fresh), values, weights)
        row, col = row[fresh], col[fresh]
    indptr = np.zeros(shape[0] + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=shape[0]), out=indptr[1:])
    return HostEntries(indptr, col, values, weights)


def _merged(how: str, starts: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, Any]:
    if how == "last":
        last = np.append(starts[1:], len(values)) - 1
        return values[last], None if weights is None else weights[last]
    if weights is not None:
        total = np.add.reduceat(weights.astype(float), starts)
        mean = np.add.reduceat(weights.astype(float) * values, starts) / total
        return mean.astype(values.dtype), total.astype(values.dtype)
    found = np.add.reduceat(values.astype(float), starts)
    if how == "mean":
        found /= np.diff(np.append(starts, len(values)))
    return found.astype(values.dtype), None
