"""Writing folders of partitions: block by block, or from observations in any order in bounded memory.

The conversion of a source takes three passes: ids are collected and counted, which determines the partitions; observations are
appended to one raw file per partition; each raw file is sorted. All occurrences of a pair are in one partition, also if they
come from different files.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..backends import HostEntries, get_backend
from ..common.version import __version__
from ..io.archive import FileError, atomic
from ..io.observation_files import Chunk, MixedIds
from .folder import (
    FORMAT,
    ID_FILES,
    MANIFEST,
    VERSION,
    BlockArrays,
    Checksums,
    Folder,
    Part,
    block_arrays,
    file_checksum,
    manifest_checksum,
    open_folder,
    row_edges,
)
from .id_numbering import GivenIndices, IdCollector
from .sources import Source

PARTITION_SIZE = 8_000_000  # observations: about 160 MB on disk, and twice that while they are sorted


class FolderWriter:
    """Writes a folder partition by partition; made by :func:`write_folder`."""

    def __init__(self, work: Path, n2: int, dtype: Any, weighted: bool) -> None:
        self.work, self.n2, self.dtype, self.weighted = work, n2, np.dtype(dtype), weighted
        self.parts: list[Part] = []
        self.id_files: Checksums = {}
        self.names: tuple[str | None, ...] | None = None  # of the columns of rows, columns and values in the source

    def add(self, block: BlockArrays) -> None:
        """Write the next block of rows."""
        name = f"{len(self.parts):05d}"
        (self.work / name).mkdir()
        files = {key: self._save(f"{name}/{key}.npy", a) for key, a in block._asdict().items() if a is not None}
        first = self.parts[-1].first + self.parts[-1].rows if self.parts else 0
        self.parts.append(Part(name, first, len(block.indptr) - 1, len(block.values), files))

    def add_ids(self, side: int, ids: np.ndarray | None) -> None:
        """Write the ids of the rows (side 0) or columns (side 1), integers or strings."""
        if ids is not None:
            self.id_files[ID_FILES[side]] = self._save(ID_FILES[side], ids if ids.dtype.kind in "iu" else ids.astype(str))

    def _save(self, name: str, a: np.ndarray) -> tuple[int, int]:
        path = self.work / name
        np.save(path, a, allow_pickle=False)
        return path.stat().st_size, file_checksum(path)

    def write_manifest(self) -> None:
        last = self.parts[-1]
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "lorank": __version__,
            "shape": [last.first + last.rows, self.n2],
            "m": sum(p.m for p in self.parts),
            "dtype": self.dtype.str,
            "weighted": self.weighted,
            "columns": self.names,
            "files": self.id_files,
            "parts": [asdict(p) for p in self.parts],
        }
        content = json.dumps({**manifest, "crc32": manifest_checksum(manifest)}, indent=1)
        (self.work / MANIFEST).write_text(content, encoding="utf-8")


@contextlib.contextmanager
def write_folder(path: str | os.PathLike[str], n2: int, dtype: Any, weighted: bool) -> Iterator[FolderWriter]:
    """Write a folder of partitions completely or not at all.

    Parameters
    ----------
    path : path
        Folder to write. It must be empty or not exist.
    n2 : int
        Number of columns.
    dtype : dtype
        Data type of the values.
    weighted : bool
        Whether the observations have weights.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileError(f"{path} exists and is not empty: delete it, or choose another folder")
    with atomic(path, folder=True) as work:
        writer = FolderWriter(work, n2, dtype, weighted)
        yield writer
        writer.write_manifest()
        if path.exists():
            path.rmdir()


def build(
    source: Source,
    path: str | os.PathLike[str],
    *,
    shape: tuple[int, int] | None = None,
    n_partitions: int | None = None,
    dtype: Any = np.float32,
    duplicates: str = "error",
    partition_size: int | None = None,
    min_partitions: int = 1,
    watch: Callable[[str, int], None] | None = None,
) -> Folder:
    """Write the observations of a source to a folder of partitions.

    Parameters
    ----------
    source : Source
    path : path
        Folder to write.
    shape : (int, int), optional
        Shape of the matrix, if ids are indices. By default ids of any kind are numbered in increasing order.
    n_partitions : int, optional
        Number of partitions. By default it follows from ``partition_size``.
    dtype : float32 or float64
    duplicates : {"error", "mean", "last", "sum"}
    partition_size : int, optional
        Observations per partition, by default eight million.
    min_partitions : int
        Lower limit of the default number of partitions.
    watch : callable, optional
        Progress callback, called with the name of the stage and a count.
    """
    report = watch or (lambda stage, count: None)
    try:
        rows, cols, counts, weighted = _number(source, shape, report)
    except MixedIds as mixed:
        mixed.source.resolve_ids()
        rows, cols, counts, weighted = _number(source, shape, report)
    n_partitions = n_partitions or default_partitions(counts, partition_size, min_partitions)
    edges = row_edges(counts, n_partitions)
    record = [("row", np.int32), ("col", np.int32), ("value", np.dtype(dtype))]
    kind = np.dtype([*record, ("weight", np.dtype(dtype))] if weighted else record)
    target = Path(path)
    with write_folder(target, len(cols), dtype, weighted) as writer:
        raw = Path(tempfile.mkdtemp(prefix="raw.", dir=writer.work))
        count = 0
        for chunk in source.chunks():
            _distribute(chunk, rows, cols, edges, kind, raw)
            count += len(chunk.values)
            report("distributing observations", count)
        for k in range(n_partitions):
            report(f"sorting partitions, of {n_partitions}", k + 1)
            file = raw / str(k)
            found = np.fromfile(file, kind)
            file.unlink()
            entries = _sorted(found, int(edges[k]), int(edges[k + 1]), len(cols), duplicates, rows, cols)
            del found
            writer.add(block_arrays(entries, len(cols)))
        shutil.rmtree(raw)
        writer.add_ids(0, rows.ids)
        writer.add_ids(1, cols.ids)
        writer.names = source.names[:3]
    return open_folder(target)


def default_partitions(counts: np.ndarray, partition_size: int | None = None, min_partitions: int = 1) -> int:
    """Number of partitions for ``counts`` observations in each row."""
    wanted = max(-(-int(counts.sum()) // (partition_size or PARTITION_SIZE)), min_partitions)
    return max(1, min(wanted, int((counts > 0).sum())))


def _number(
    source: Source, shape: tuple[int, int] | None, report: Callable[[str, int], None]
) -> tuple[Any, Any, np.ndarray, bool]:
    """Numberings of rows and columns, observations in each row, and whether there are weights."""
    seen, weighted = 0, False
    sides = [IdCollector(name) if shape is None else GivenIndices(shape[k], name) for k, name in enumerate(("rows", "columns"))]
    for chunk in source.chunks():
        for side, ids in zip(sides, (chunk.rows, chunk.cols), strict=True):
            side.add(ids, chunk.origin, chunk.first)
        _check_numbers(chunk)
        weighted = chunk.weights is not None
        seen += len(chunk.values)
        report("numbering ids", seen)
    if not seen:
        raise FileError("there are no observations")
    (rows, counts), (cols, _) = (side.finish() for side in sides)
    return rows, cols, counts, weighted


def _refuse(bad: np.ndarray, chunk: Chunk, numbers: np.ndarray, text: str) -> None:
    """Raise a FileError that names the first flagged observation."""
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        raise FileError(f"{chunk.origin}, observation {chunk.first + k + 1}: {numbers[k]} {text}")


def _check_numbers(chunk: Chunk) -> None:
    _refuse(~np.isfinite(chunk.values), chunk, chunk.values, "is not a finite value: leave it out")
    if chunk.weights is not None:
        _refuse(~(chunk.weights > 0), chunk, chunk.weights, "is not a positive weight: leave it out")


def _distribute(chunk: Chunk, rows: Any, cols: Any, edges: np.ndarray, kind: np.dtype, raw: Path) -> None:
    """Append observations to the raw files of their partitions, in the order of the source."""
    found = np.empty(len(chunk.values), kind)
    with np.errstate(over="ignore", under="ignore"):
        found["row"], found["col"], found["value"] = rows.of(chunk.rows), cols.of(chunk.cols), chunk.values
    if chunk.weights is not None:
        found["weight"] = chunk.weights
    _refuse(~np.isfinite(found["value"]), chunk, chunk.values, f"is too large for {kind['value']}")
    lost = (found["value"] == 0) & (chunk.values != 0)
    _refuse(lost, chunk, chunk.values, f"is too small for {kind['value']}: multiply all values")
    part = np.searchsorted(edges, found["row"], side="right") - 1
    order = np.argsort(part.astype(np.uint16) if len(edges) <= 2**16 else part, kind="stable")  # radix sort for 16 bits
    ends = np.cumsum(np.bincount(part, minlength=len(edges) - 1))
    found = found[order]
    for k, end in enumerate(ends):
        some = found[ends[k - 1] if k else 0 : end]
        if len(some):
            with open(raw / str(k), "ab") as file:
                some.tofile(file)


def _sorted(found: np.ndarray, first: int, last: int, n2: int, how: str, rows: Any, cols: Any) -> HostEntries:
    """Observations of one partition by rows, with duplicates merged."""
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
                "partition): pass duplicates='mean', 'last' or 'sum'"
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
