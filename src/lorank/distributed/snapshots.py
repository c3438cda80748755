"""Recovery of the values of lost shards: a log of programs to run again, and snapshots that shorten it.

A snapshot consists of ``.npy`` files in a folder that all workers see. It is complete when every shard has written its part. An
incomplete one is never read. A complete one replaces the snapshot before it.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..io.archive import FileError, reason_of
from .operations import PASSES, REBUILT
from .program import OBSERVATIONS, Instruction, Program, stages
from .shard import Shard

MIN_SECONDS = 30.0  # computing time between snapshots at least,
MIN_COST_RATIO = 20.0  # and at least this multiple of the time that a snapshot takes
MAX_REBUILD_SHARE = 0.25  # passes of the rebuilding program after a cut, relative to those of the log before it


class Cut(NamedTuple):
    """A way to shorten the log: keys of the arrays to write with their ``keep`` (see
    :class:`~lorank.distributed.program.Instruction`), and a program that makes the other values from them.
    """

    written: dict[int, int]
    rebuild: Program


class ReplayLog:
    """Log of the programs of an engine.

    Attributes
    ----------
    programs : list of Program
        Programs since the last cut.
    written : dict
        Keys of the values in the last snapshot, with their ``keep``.
    rebuild : Program
        Makes the other values of that time from these.
    """

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.written: dict[int, int] = {}
        self.rebuild = Program()
        self._alive: dict[int, int] = {}  # keys that later programs may use, with their keep
        self._made: dict[int, Instruction] = {}  # instructions since the last cut, and those of the rebuilding program

    def add(self, program: Program) -> None:
        self.programs.append(program)
        for key in program.delete:
            self._alive.pop(key, None)
        for one in program.instructions:
            if one.key >= 0:
                self._made[one.key] = one
                if one.keep:
                    self._alive[one.key] = one.keep

    def replay(self) -> Iterator[Program]:
        """Programs to run on new shards that have read the last snapshot."""
        if self.rebuild.instructions:
            yield self.rebuild
        yield from self.programs

    def cut(self) -> Cut | None:
        """The cut to make now; None if too many passes would have to be repeated after it.

        Values with one number per observation are computed again rather than written, if that is cheap.
        """
        limit = MAX_REBUILD_SHARE * sum(map(passes, self.replay()))
        for large in (1, 2):
            written = {
                key: keep
                for key, keep in self._alive.items()
                if key not in self._made or (keep <= large and self._made[key].operation not in REBUILT)
            }
            rebuild = self._slice(written)
            if rebuild is not None and passes(rebuild) <= limit:
                return Cut(written, rebuild)
        return None

    def truncate(self, cut: Cut) -> None:
        """Drop the programs before a cut whose arrays are written."""
        self.programs, self.written, self.rebuild = [], cut.written, cut.rebuild
        self._made = {one.key: one for one in cut.rebuild.instructions}

    def _slice(self, written: dict[int, int]) -> Program | None:
        """Instructions that make the values that are alive and not written; None if an argument is no longer available."""
        wanted, needed = [key for key in self._alive if key not in written], set[int]()
        while wanted:
            key = wanted.pop()
            if key in needed or key in written or key == OBSERVATIONS:
                continue
            if key not in self._made:  # an array of the last snapshot that was deleted since
                return None
            needed.add(key)
            wanted += self._made[key].uses
        chosen = [self._made[key] for key in sorted(needed)]  # in the order in which they were made
        return Program([one._replace(keep=self._alive.get(one.key, 0)) for one in chosen])


def passes(program: Program) -> int:
    """Number of passes over the observations in a program."""
    return sum(any(one.operation in PASSES for one in group) for group in stages(program))


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
            raise FileError(f"{path}: a snapshot cannot be written there ({reason_of(error)})") from None
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
        shard.block_values[key] = {k: shard.keep(a) for k, a in values.items()} if keep > 1 else values


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
