"""Snapshots of the arrays of shards: ``.npy`` files in a folder that all workers see.

A snapshot is complete when every shard has written its part. An incomplete one is never read. A complete one replaces the
snapshot before it.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..io.archive import FileError
from .replay_log import ReplayLog
from .shard import Shard

MIN_SECONDS = 30.0  # computing time between snapshots at least,
MIN_COST_RATIO = 20.0  # and at least this multiple of the time that a snapshot takes


class Snapshots:
    """Schedule and location of snapshots.

    Parameters
    ----------
    folder : path
        Folder of partitions. By default snapshots are written next to it.
    scratch : path, optional
        Folder for snapshots, which all workers see under the same path.

    Attributes
    ----------
    log : ReplayLog
    path : Path or None
        Last complete snapshot.
    count : int
        Number of complete snapshots so far.
    """

    def __init__(self, folder: Path, scratch: Any = None) -> None:
        self.log, self.count = ReplayLog(), 0
        self.path: Path | None = None
        self.min_seconds, self.min_cost_ratio = MIN_SECONDS, MIN_COST_RATIO
        self._computed, self._cost = 0.0, 0.0
        parent = folder.resolve().parent if scratch is None else Path(scratch).resolve()
        self._home: str | None = None
        try:
            self._home = tempfile.mkdtemp(prefix=".lorank.", dir=parent)
        except OSError as error:
            if scratch is not None:
                raise FileError(f"scratch={parent}: files cannot be written there ({error.strerror})") from None
            return  # no snapshots: after a loss, the whole run is computed again
        weakref.finalize(self, shutil.rmtree, self._home, ignore_errors=True)

    def add_time(self, seconds: float) -> None:
        """Count computing time."""
        self._computed += seconds

    @property
    def interval(self) -> float:
        """Seconds of computing between snapshots."""
        return max(self.min_seconds, self.min_cost_ratio * self._cost)

    @property
    def due(self) -> bool:
        return self._home is not None and self._computed >= self.interval

    def begin(self) -> Path:
        """An empty folder for the next snapshot."""
        assert self._home is not None
        self.discard_incomplete()
        try:
            return Path(tempfile.mkdtemp(dir=self._home))
        except OSError as error:
            raise FileError(f"{self._home}: a snapshot cannot be written there ({error.strerror})") from None

    def commit(self, path: Path, seconds: float) -> None:
        """Declare a snapshot complete, and delete all others."""
        self.path, self._computed, self._cost = path, 0.0, seconds
        self.count += 1
        self.discard_incomplete()

    def discard_incomplete(self) -> None:
        """Delete everything but the last complete snapshot. An incomplete one may be what fills the disk."""
        home = Path(self._home) if self._home is not None else None
        for one in [] if home is None or not home.is_dir() else home.iterdir():
            if one != self.path:
                shutil.rmtree(one, ignore_errors=True)  # a shard may still write there: the next call deletes the rest

    def postpone(self) -> None:
        """Try again after half an interval."""
        self._computed = self.interval / 2

    def disable(self) -> None:
        """Write no further snapshots."""
        self.discard_incomplete()
        self._home = None


def save_shard(shard: Shard, path: str, keys: dict[int, int], shared: bool) -> int:
    """Write the block values of these keys, and with ``shared`` the shared values; return the number of bytes written."""
    total = 0
    for name, a in _values(shard, keys, shared):
        a = np.asarray(shard.backend.to_numpy(a))
        total += a.nbytes
        try:
            _write(Path(path), name, a)
        except OSError as error:
            raise FileError(f"{path}: a snapshot cannot be written there ({error.strerror or error})") from None
    return total


def _values(shard: Shard, keys: dict[int, int], shared: bool) -> Iterator[tuple[str, Any]]:
    for key in keys:
        if key in shard.block_values:
            yield from ((f"{key}.{block}", a) for block, a in shard.block_values[key].items())
        elif shared:
            yield f"{key}", shard.shared_values[key]


def load_shard(shard: Shard, path: str, keys: dict[int, int]) -> None:
    """Read the shared values of these keys, and those of the blocks of this shard."""
    try:
        files = {file.name.partition("-")[0]: file for file in Path(path).iterdir()}
    except OSError as error:
        raise FileError(f"{path}: the snapshot cannot be read ({error.strerror})") from None

    def found(name: str) -> Any:
        if name not in files:
            raise FileError(f"{path}: the snapshot has no file {name}")
        a = _read(files[name])
        return a if shard.backend.in_main_memory else shard.backend.asarray(a)

    for key, keep in keys.items():
        if str(key) in files:
            shard.shared_values[key] = found(str(key))
            continue
        values = {k: found(f"{key}.{k}") for k in shard.blocks}
        shard.block_values[key] = {k: shard.store.keep(a) for k, a in values.items()} if keep > 1 else values


def _write(path: Path, name: str, a: np.ndarray) -> None:
    """Write an array with the stride of its rows, on which the last bits of products may depend; the name has the width."""
    width = a.shape[1] if a.ndim == 2 else 0
    if a.ndim == 2 and not (a.flags.c_contiguous or a.flags.f_contiguous) and a.strides[0] >= a.strides[1] == a.itemsize:
        padded = np.zeros((len(a), a.strides[0] // a.itemsize), a.dtype)
        padded[:, :width] = a
        a = padded
    np.save(path / f"{name}-{width}.npy", a, allow_pickle=False)


def _read(file: Path) -> np.ndarray:
    try:
        found: np.ndarray = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FileError(f"{file}: the snapshot cannot be read ({error})") from None
    width = int(file.stem.partition("-")[2])
    return found[:, :width] if width and width < found.shape[1] else found
