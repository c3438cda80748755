"""Folder of partitions: blocks of rows as ``.npy`` files for memory mapping, and a manifest.

    ratings.parts/
        manifest.json           format, version, shape, dtype, names of the columns; size and CRC-32 of every file and of itself
        row_ids.npy, col_ids.npy  ids of rows and columns, integers or strings
        00000/indptr.npy        one partition, its observations by rows:
              indices.npy       columns, padded with ``PADDING`` zeros for kernels that prefetch,
              values.npy
              colptr.npy        and the same observations by columns:
              rows.npy          rows within the partition, padded alike,
              order.npy         positions in the order by rows,
              column_values.npy
              (weights.npy, column_weights.npy)

Nothing is pickled. A folder is written to a temporary name and renamed when it is complete.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..backends import HostEntries, get_backend
from ..common.checks import ParameterError
from ..io.archive import FileError
from .program import BlockLayout

FORMAT, VERSION, MANIFEST = "lorank partitions", 3, "manifest.json"
PADDING = 24  # entries after each array of indices, which kernels may prefetch
ID_FILES = ("row_ids.npy", "col_ids.npy")
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
UNREADABLE = (OSError, ValueError, EOFError, SyntaxError, TypeError, MemoryError, OverflowError)  # of NumPy, for damaged files

Checksums = dict[str, tuple[int, int]]  # bytes and CRC-32 by file name


class BlockArrays(NamedTuple):
    """Observations of a block of rows, by rows and by columns.

    Attributes
    ----------
    indptr : (rows + 1,) int64 array
    indices : (m + PADDING,) int32 array
    values : (m,) array
    colptr : (n2 + 1,) int64 array
    rows : (m + PADDING,) int32 array
    order : (m,) int32 or int64 array
        Position in the order by rows of each observation in the order by columns.
    column_values : (m,) array
        Conjugated values.
    weights, column_weights : (m,) arrays or None
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    colptr: np.ndarray
    rows: np.ndarray
    order: np.ndarray
    column_values: np.ndarray
    weights: np.ndarray | None = None
    column_weights: np.ndarray | None = None

    def entries(self) -> HostEntries:
        """The observations by rows, without padding."""
        return HostEntries(self.indptr, self.indices[: len(self.values)], self.values, self.weights)


def block_arrays(entries: HostEntries, n2: int) -> BlockArrays:
    """Arrays of a block from its observations by rows."""
    indptr, indices, values, weights = entries
    n1, m = len(indptr) - 1, len(values)
    rows = np.repeat(np.arange(n1, dtype=np.int32), np.diff(indptr))
    columns = np.ascontiguousarray(indices[:m], np.int32)
    backend: Any = get_backend()
    order = np.asarray(backend.row_major_order(columns, rows, (n2, n1)))
    colptr = np.zeros(n2 + 1, np.int64)
    np.cumsum(np.bincount(columns, minlength=n2), out=colptr[1:])
    padding = np.zeros(PADDING, np.int32)
    return BlockArrays(
        np.ascontiguousarray(indptr, np.int64),
        np.concatenate([columns, padding]),
        np.ascontiguousarray(values),
        colptr,
        np.concatenate([rows[order], padding]),
        order.astype(_order_type(m)),
        np.ascontiguousarray(values[order].conj()),
        None if weights is None else np.ascontiguousarray(weights),
        None if weights is None else np.ascontiguousarray(weights[order]),
    )


def row_edges(counts: np.ndarray, n_partitions: int) -> np.ndarray:
    """Boundaries of blocks of rows with about the same number of observations and at least one observation each.

    Parameters
    ----------
    counts : (n1,) array
        Observations in each row.
    n_partitions : int

    Returns
    -------
    (n_partitions + 1,) array
    """
    seen = np.flatnonzero(counts)
    if n_partitions < 1 or n_partitions > len(seen):
        raise ParameterError(
            "n_partitions", f"must be at most {len(seen):,}, the number of rows with observations, got {n_partitions}"
        )
    total = np.cumsum(counts[seen])
    last = np.searchsorted(total, total[-1] * np.arange(1, n_partitions) / n_partitions)  # last observed row of each block
    for k in range(len(last)):  # each block has a row of its own, and leaves one for each block that follows
        last[k] = max(last[k], last[k - 1] + 1 if k else 0)
    last = np.minimum(last, len(seen) - 1 - np.arange(len(last), 0, -1))
    return np.concatenate([[0], seen[last] + 1, [len(counts)]]).astype(np.int64)


@dataclass(frozen=True)
class Part:
    """One partition: name of its folder, first row, number of rows, number of observations, files."""

    name: str
    first: int
    rows: int
    m: int
    files: Checksums


@dataclass(frozen=True)
class Folder:
    """An opened folder of partitions."""

    path: Path
    shape: tuple[int, int]
    m: int
    dtype: np.dtype
    weighted: bool
    parts: tuple[Part, ...]
    id_files: Checksums
    names: tuple[str | None, ...] | None = None  # of the columns of rows, columns and values in the source

    @property
    def layout(self) -> BlockLayout:
        return BlockLayout(self.shape, (*(p.first for p in self.parts), self.shape[0]))

    def block(self, k: int) -> BlockArrays:
        """Memory-mapped arrays of partition k. Every byte is compared with its checksum first."""
        part = self.parts[k]
        real = np.zeros(0, self.dtype).real.dtype
        expected: dict[str, tuple[int, Any]] = {
            "indptr": (part.rows + 1, np.int64),
            "indices": (part.m + PADDING, np.int32),
            "values": (part.m, self.dtype),
            "colptr": (self.shape[1] + 1, np.int64),
            "rows": (part.m + PADDING, np.int32),
            "order": (part.m, _order_type(part.m)),
            "column_values": (part.m, self.dtype),
        }
        if self.weighted:
            expected |= {"weights": (part.m, real), "column_weights": (part.m, real)}
        found = {}
        for name, (length, dtype) in expected.items():
            found[name] = self._load(f"{part.name}/{name}.npy", part.files[name], mmap_mode="r")
            if found[name].shape != (length,) or found[name].dtype != dtype:
                raise FileError(f"{self.path / part.name / name}.npy is damaged: {length:,} numbers of {dtype} are expected")
        return BlockArrays(**found)

    def ids(self, side: int) -> np.ndarray | None:
        """Ids of the rows (side 0) or columns (side 1) in the order of their indices; None if the folder has none."""
        name = ID_FILES[side]
        if name not in self.id_files:
            return None
        found = self._load(name, self.id_files[name])
        if found.ndim != 1 or found.dtype.kind not in "iuU":
            raise FileError(f"{self.path / name} is damaged: integers or strings are expected")
        if len(found) != self.shape[side]:
            raise FileError(f"{self.path / name} is damaged: {len(found):,} ids, {self.shape[side]:,} are expected")
        return found

    def verify(self) -> None:
        """Compare every file with its checksum; a FileError names the first that differs."""
        for k in range(len(self.parts)):
            self.block(k)
        for side in (0, 1):
            self.ids(side)

    def stamps(self, k: int) -> dict[Path, tuple[int, ...]]:
        """Identity, size and time of modification of the files of partition k, for :meth:`check_unchanged`."""
        part = self.parts[k]
        return {path: _stamp(path) for path in (self.path / part.name / f"{name}.npy" for name in part.files)}

    def check_unchanged(self, stamps: dict[Path, tuple[int, ...]]) -> None:
        """Raise a FileError if files were truncated or rewritten since :meth:`stamps`.

        To read a mapped page beyond the end of a truncated file ends the process. A file that is deleted or replaced by
        another one stays mapped as it was.
        """
        for path, before in stamps.items():
            try:
                now = _stamp(path)
            except FileNotFoundError:
                continue
            if now[:2] == before[:2] and now != before:
                raise FileError(f"{path} was changed while it was in use: write the folder again, and start again")

    def _load(self, name: str, expected: tuple[int, int], mmap_mode: Any = None) -> np.ndarray:
        path = self.path / name
        try:
            if file_checksum(path) != expected[1]:
                raise FileError(f"{path} is damaged: its content differs from its checksum. Copy or write the folder again")
            found = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
        except UNREADABLE as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if not isinstance(found, np.ndarray):  # a .npz archive
            raise FileError(f"{path} is damaged: it is not an array")
        return found


def open_folder(path: str | os.PathLike[str]) -> Folder:
    """Open a folder of partitions: read the manifest, and check that all files exist and have their sizes.

    Raises
    ------
    FileError
        If the folder is missing, damaged, not a folder of partitions, or in another version of the format.
    """
    path = Path(path)
    manifest = path / MANIFEST
    try:
        content = manifest.read_bytes()
    except OSError:
        what = f"it has no {MANIFEST}" if path.is_dir() else "it is not a folder"
        raise FileError(f"{path} is not a folder of partitions: {what}. See save_partitions") from None
    try:
        found = json.loads(content)
        if found["format"] != FORMAT:
            raise FileError(f"{path} is not a folder of partitions: the format of its manifest is {found['format']!r}")
        if found["version"] != VERSION:
            age, remedy = ("later", "update lorank") if int(found["version"]) > VERSION else ("former", "write it again")
            raise FileError(f"{path} was written by lorank {found['lorank']} in a {age} format: {remedy}")
        if found.pop("crc32") != manifest_checksum(found):
            raise FileError(f"{manifest} is damaged: its content differs from its checksum")
        parts = tuple(
            Part(str(p["name"]), int(p["first"]), int(p["rows"]), int(p["m"]), _checksums(p["files"])) for p in found["parts"]
        )
        n1, n2 = (int(n) for n in found["shape"])
        dtype, weighted, ids = np.dtype(str(found["dtype"])), bool(found["weighted"]), _checksums(found["files"])
        names = found.get("columns")
        names = None if names is None else tuple(None if name is None else str(name) for name in names)
        folder = Folder(path, (n1, n2), int(found["m"]), dtype, weighted, parts, ids, names)
    except (KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{manifest} is damaged or incomplete ({error!r})") from None
    for problem in _problems(folder):
        raise FileError(f"{manifest} is damaged: {problem}")
    for name, (size, _) in [*ids.items(), *((f"{p.name}/{key}.npy", v) for p in parts for key, v in p.files.items())]:
        try:
            actual = (path / name).stat().st_size
        except OSError as error:
            raise FileError(f"{path / name} cannot be read: {error.strerror}") from None
        if actual != size:
            raise FileError(f"{path / name} is damaged: it has {actual:,} bytes instead of {size:,}. Copy the folder again")
    return folder


def _problems(folder: Folder) -> Iterator[str]:
    """Contradictions in a manifest: partitions must cover all rows in order, none empty, with all files."""
    names = {name for name in BlockArrays._fields if folder.weighted or "weights" not in name}
    if not folder.parts or min(folder.shape) < 1 or folder.dtype not in DTYPES:
        yield f"{len(folder.parts)} partitions, shape {folder.shape}, dtype {folder.dtype}"
    at = 0
    for part in folder.parts:
        if os.path.basename(part.name) != part.name or part.name in ("", ".", ".."):
            yield f"{part.name!r} is not the name of a partition"
        if part.first != at or part.rows < 1:
            yield f"partition {part.name} begins at row {part.first} instead of {at}"
        if part.m < 1:
            yield f"partition {part.name} is empty"
        if set(part.files) != names:
            yield f"the files of partition {part.name} are {sorted(part.files)}"
        at += part.rows
    if at != folder.shape[0] or sum(p.m for p in folder.parts) != folder.m:
        yield f"the partitions have {at:,} rows of {folder.shape[0]:,}"
    if not set(folder.id_files) <= set(ID_FILES):
        yield f"the files of ids are {sorted(folder.id_files)}"


def _order_type(m: int) -> type[np.signedinteger[Any]]:
    return np.int32 if m <= 2**31 - 1 else np.int64


def _checksums(files: Any) -> Checksums:
    return {str(name): (int(size), int(checksum)) for name, (size, checksum) in files.items()}


def manifest_checksum(manifest: dict[str, Any]) -> int:
    """CRC-32 of a manifest without its key ``crc32``."""
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())


def file_checksum(path: Path) -> int:
    """CRC-32 of a file."""
    found = 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 22):
            found = zlib.crc32(piece, found)
    return found


def _stamp(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
