"""A folder of partitions: blocks of rows as plain ``.npy`` files that are mapped into memory, and a manifest.

    ratings.parts/
        manifest.json           format, version, shape, dtype, and each partition's rows, files, sizes and checksums
        row_ids.npy ...         what rows and columns are called (text: ``row_ids.text.npy`` and ``row_ids.ends.npy``)
        00000/indptr.npy        one partition: its observations row by row,
              indices.npy       columns, with ``PADDING`` zeros behind them, for kernels that fetch ahead,
              values.npy
              colptr.npy        and again column by column:
              rows.npy          rows within the partition, padded alike,
              order.npy         where each stands in the order of rows,
              column_values.npy
              (weights.npy, column_weights.npy)

Nothing is pickled, and a folder is there as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ..common.version import __version__
from ..io.archive import FileError

FORMAT, VERSION, MANIFEST = "lorank partitions", 1, "manifest.json"
PADDING = 24  # entries behind each array of indices: kernels fetch ahead


class BlockArrays(NamedTuple):
    """The observations of a block of rows in both orders, as the kernels read them.

    Attributes
    ----------
    indptr : (rows + 1,) int64 array
    indices : (m + PADDING,) int32 array
    values : (m,) array
    colptr : (n2 + 1,) int64 array
    rows : (m + PADDING,) int32 array
    order : (m,) int32 or int64 array
        Column order -> row order.
    column_values : (m,) array
        Conjugated.
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


@dataclass(frozen=True)
class Part:
    """One partition: its folder's name, its rows, its observations, and (bytes, CRC-32) of each file."""

    name: str
    first: int
    rows: int
    m: int
    files: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Folder:
    """An opened folder; arrays are mapped when a partition is asked for."""

    path: Path
    shape: tuple[int, int]
    m: int
    dtype: np.dtype
    weighted: bool
    parts: tuple[Part, ...]

    def block(self, k: int, verify: bool = False) -> BlockArrays:
        """The arrays of partition k, mapped; with ``verify`` every byte is held against its checksum first."""
        part = self.parts[k]
        names = [name for name in BlockArrays._fields if self.weighted or "weights" not in name]
        found = {name: self._mapped(part, name, verify) for name in names}
        n, size = part.m, np.int32 if part.m <= 2**31 - 1 else np.int64
        expected: dict[str, tuple[int, Any]] = {
            "indptr": (part.rows + 1, np.int64),
            "indices": (n + PADDING, np.int32),
            "colptr": (self.shape[1] + 1, np.int64),
            "rows": (n + PADDING, np.int32),
            "order": (n, size),
        }
        for name, a in found.items():
            length, dtype = expected.get(name, (n, np.zeros(0, self.dtype).real.dtype if "weights" in name else self.dtype))
            if a.shape != (length,) or a.dtype != dtype:
                raise FileError(
                    f"{self._file(part, name)} is damaged: {len(a):,} numbers of {a.dtype}, not {length:,} of {np.dtype(dtype)}"
                )
        return BlockArrays(**found)

    def verify(self) -> None:
        """Hold every file against its checksum; a FileError names the first that differs."""
        for k in range(len(self.parts)):
            self.block(k, verify=True)

    def ids(self, side: int) -> np.ndarray | None:
        """What rows (0) or columns (1) are called, in the order of their numbers; None where they are numbers from 0 on."""
        stem = self.path / ("row_ids", "col_ids")[side]
        whole, text, ends = (stem.with_name(stem.name + s) for s in (".npy", ".text.npy", ".ends.npy"))
        if whole.exists():
            return np.load(whole, allow_pickle=False)
        if not text.exists():
            return None
        data, last = np.load(text, allow_pickle=False).tobytes(), np.load(ends, allow_pickle=False)
        return np.array([data[a:b].decode() for a, b in zip([0, *last[:-1]], last, strict=True)], dtype=np.str_)

    def _file(self, part: Part, name: str) -> Path:
        return self.path / part.name / f"{name}.npy"

    def _mapped(self, part: Part, name: str, verify: bool) -> np.ndarray:
        path = self._file(part, name)
        if name not in part.files:
            raise FileError(f"{self.path / MANIFEST} is damaged: it does not mention {part.name}/{name}.npy")
        size, checksum = part.files[name]
        try:
            if path.stat().st_size != size:
                raise FileError(
                    f"{path} has {path.stat().st_size:,} bytes, and was written with {size:,}: copy the folder again"
                )
            if verify and _checksum(path) != checksum:
                raise FileError(f"{path} is damaged: it has been changed since it was written")
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            if isinstance(error, FileError):
                raise
            reason = getattr(error, "strerror", None) or error
            raise FileError(f"{path}, of partition {part.name}, cannot be read: {reason}") from None


def open_folder(path: str | os.PathLike[str]) -> Folder:
    """Open a folder of partitions: its manifest is read, its arrays are not.

    Raises
    ------
    FileError
        Where it is missing, foreign, incomplete or of a later version.
    """
    path = Path(path)
    try:
        text = (path / MANIFEST).read_text(encoding="utf-8")
    except OSError:
        what = f"has no {MANIFEST}" if path.is_dir() else "is no folder"
        raise FileError(
            f"{path} is no folder of partitions: it {what}. lorank.distributed.save_partitions writes one"
        ) from None
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise FileError(f"{path} is no folder of partitions: its manifest is of {found['format']!r}")
        if int(found["version"]) > VERSION:
            raise FileError(f"{path} was written by lorank {found['lorank']}, in a later format: update lorank to read it")
        parts = tuple(
            Part(
                str(p["name"]),
                int(p["first"]),
                int(p["rows"]),
                int(p["m"]),
                {str(k): (int(a), int(b)) for k, (a, b) in p["files"].items()},
            )
            for p in found["parts"]
        )
        n1, n2 = (int(n) for n in found["shape"])
        folder = Folder(path, (n1, n2), int(found["m"]), np.dtype(str(found["dtype"])), bool(found["weighted"]), parts)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path / MANIFEST} is damaged or incomplete ({error!r})") from None
    _check_cover(folder)
    return folder


def _check_cover(folder: Folder) -> None:
    """The partitions cover all rows, one after the other, and none is empty."""
    at = 0
    for part in folder.parts:
        if os.path.basename(part.name) != part.name or part.name in ("", ".", ".."):
            raise FileError(f"{folder.path / MANIFEST} is damaged: {part.name!r} is no name of a partition")
        if part.first != at or part.rows < 1:
            raise FileError(
                f"{folder.path / MANIFEST} is damaged: partition {part.name} begins at row {part.first}, not at {at}"
            )
        if part.m < 1:
            raise FileError(
                f"{folder.path}: partition {part.name} is empty (rows {part.first} to {part.first + part.rows - 1})"
            )
        at += part.rows
    if at != folder.shape[0] or sum(p.m for p in folder.parts) != folder.m:
        raise FileError(f"{folder.path / MANIFEST} is damaged: partitions hold {at:,} rows of {folder.shape[0]:,}")


class FolderWriter:
    """Writes a folder partition by partition; used as a context, which puts it in place when all went well.

    Parameters
    ----------
    path : path
        Must not exist, or be an empty folder.
    n2 : int
        Columns.
    dtype : dtype
        Of the values.
    weighted : bool
    """

    def __init__(self, path: str | os.PathLike[str], n2: int, dtype: Any, weighted: bool) -> None:
        self.path, self.n2, self.dtype, self.weighted = Path(path), n2, np.dtype(dtype), weighted
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise FileError(f"{self.path} exists and is not empty: delete it, or choose another folder")
        self.work = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        self.parts: list[Part] = []

    def __enter__(self) -> FolderWriter:
        shutil.rmtree(self.work, ignore_errors=True)
        try:
            self.work.mkdir(parents=True)
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}") from error
        return self

    def add(self, block: BlockArrays) -> None:
        """The next rows."""
        name = f"{len(self.parts):05d}"
        (self.work / name).mkdir()
        files = {}
        for key, a in block._asdict().items():
            if a is not None:
                path = self.work / name / f"{key}.npy"
                np.save(path, a, allow_pickle=False)
                files[key] = (path.stat().st_size, _checksum(path))
        first = self.parts[-1].first + self.parts[-1].rows if self.parts else 0
        self.parts.append(Part(name, first, len(block.indptr) - 1, len(block.values), files))

    def add_ids(self, side: int, ids: np.ndarray | None) -> None:
        """What rows (0) or columns (1) are called: whole numbers or text."""
        if ids is None:
            return
        stem = ("row_ids", "col_ids")[side]
        if ids.dtype.kind in "iu":
            np.save(self.work / f"{stem}.npy", ids, allow_pickle=False)
            return
        pieces = [str(x).encode() for x in ids]
        np.save(self.work / f"{stem}.text.npy", np.frombuffer(b"".join(pieces), np.uint8), allow_pickle=False)
        np.save(self.work / f"{stem}.ends.npy", np.cumsum([len(p) for p in pieces], dtype=np.int64), allow_pickle=False)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None:
                self._finish()
        except OSError as problem:
            raise FileError(f"{self.path} cannot be written: {problem.strerror or problem}") from problem
        finally:
            shutil.rmtree(self.work, ignore_errors=True)

    def _finish(self) -> None:
        last = self.parts[-1]
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "lorank": __version__,
            "shape": [last.first + last.rows, self.n2],
            "m": sum(p.m for p in self.parts),
            "dtype": self.dtype.str,
            "weighted": self.weighted,
            "parts": [asdict(p) for p in self.parts],
        }
        with open(self.work / MANIFEST, "w", encoding="utf-8") as file:  # last: without it there is no folder
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        if self.path.exists():
            self.path.rmdir()
        os.replace(self.work, self.path)


def _checksum(path: Path) -> int:
    found = 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 22):
            found = zlib.crc32(piece, found)
    return found
