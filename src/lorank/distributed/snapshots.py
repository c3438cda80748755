"""Snapshots of what sites hold: arrays as ``.npy`` files in a folder that all workers see, so that a loss costs little.

A snapshot counts only when every site has written its part and the driver has been told so: one that was broken off is never
read. When it counts, the one before is deleted.
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
from .replay_log import Journal
from .shard import Site

LEAST = 30.0  # seconds of computing that may be lost without any thought,
TIMES = 20.0  # and as many times what a snapshot takes


class Snapshots:
    """When snapshots are made, and where they are.

    Parameters
    ----------
    folder : path
        The partitions; snapshots go beside them by default.
    scratch : path, optional
        Where they go instead: a place that all workers see under this name.

    Attributes
    ----------
    journal : Journal
    place : Path or None
        The last snapshot.
    count : int
        Snapshots so far.
    """

    def __init__(self, folder: Path, scratch: Any = None) -> None:
        self.journal, self.count = Journal(), 0
        self.place: Path | None = None
        self.least, self.times = LEAST, TIMES
        self._computed, self._cost = 0.0, 0.0
        parent = folder.resolve().parent if scratch is None else Path(scratch).resolve()
        self._home: str | None = None
        try:
            self._home = tempfile.mkdtemp(prefix=".lorank.", dir=parent)
        except OSError as error:
            if scratch is not None:
                raise FileError(f"scratch={parent}: no files can be written there ({error.strerror})") from None
            return  # none, then: a loss costs all that was computed
        weakref.finalize(self, shutil.rmtree, self._home, ignore_errors=True)

    def spent(self, seconds: float) -> None:
        """So long was computed."""
        self._computed += seconds

    @property
    def due(self) -> bool:
        return self._home is not None and self._computed >= max(self.least, self.times * self._cost)

    def begin(self) -> Path:
        """An empty folder for the next one."""
        assert self._home is not None
        self.broken_off()
        try:
            return Path(tempfile.mkdtemp(dir=self._home))
        except OSError as error:
            raise FileError(f"{self._home}: a snapshot cannot be written there ({error.strerror})") from None

    def done(self, place: Path, seconds: float) -> None:
        """All sites have written to it: the one before goes, and what was left of one that was broken off."""
        self._clear(but=place)
        self.place, self._computed, self._cost = place, 0.0, seconds
        self.count += 1

    def broken_off(self) -> None:
        """Not all sites have written to the last one that was begun: it goes, as it may be what fills the disk, and the one
        before stays.
        """
        self._clear(but=self.place)

    def _clear(self, but: Path | None) -> None:
        there = Path(self._home) if self._home is not None else None
        for one in [] if there is None or not there.is_dir() else there.iterdir():
            if one != but:
                shutil.rmtree(one, ignore_errors=True)  # a site that still writes there leaves some: the next time, then

    def put_off(self) -> None:
        """Nothing could be gained by one now: look again after a while."""
        self._computed = max(self.least, self.times * self._cost) / 2

    def give_up(self) -> None:
        """Without any from now on."""
        self.broken_off()
        self._home = None


def save_site(site: Site, place: str, keys: dict[int, int], shared: bool) -> int:
    """Write the blocks' arrays of these keys, and those that are at every site where ``shared``; the bytes written."""
    total = 0
    for name, a in _values(site, keys, shared):
        a = np.asarray(site.backend.to_numpy(a))
        total += a.nbytes
        try:
            _write(Path(place), name, a)
        except OSError as error:
            raise FileError(f"{place}: a snapshot cannot be written there ({error.strerror or error})") from None
    return total


def _values(site: Site, keys: dict[int, int], shared: bool) -> Iterator[tuple[str, Any]]:
    for key in keys:
        if key in site._block:
            yield from ((f"{key}.{block}", a) for block, a in site._block[key].items())
        elif shared:
            yield f"{key}", site._shared[key]


def load_site(site: Site, place: str, keys: dict[int, int]) -> None:
    """Read the arrays of these keys, as far as they concern this site."""
    there = {file.name.partition("-")[0]: file for file in Path(place).iterdir()}

    def found(name: str) -> Any:
        a = _read(there[name])
        return a if site.backend.in_main_memory else site.backend.asarray(a)

    for key, keep in keys.items():
        if str(key) in there:
            site.put_shared(key, found(str(key)))
            continue
        values = {k: found(f"{key}.{k}") for k in site.numbers}
        site.put_blocks(key, {k: site.holder.keep(a) for k, a in values.items()} if keep > 1 else values)


def _write(place: Path, name: str, a: np.ndarray) -> None:
    """With the distance of its rows in memory, on which the last bits of products may depend: its name ends in its width."""
    width = a.shape[1] if a.ndim == 2 else 0
    if a.ndim == 2 and not (a.flags.c_contiguous or a.flags.f_contiguous) and a.strides[0] >= a.strides[1] == a.itemsize:
        padded = np.zeros((len(a), a.strides[0] // a.itemsize), a.dtype)
        padded[:, :width] = a
        a = padded
    np.save(place / f"{name}-{width}.npy", a, allow_pickle=False)


def _read(file: Path) -> np.ndarray:
    try:
        found: np.ndarray = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FileError(f"{file}: the snapshot cannot be read ({error})") from None
    width = int(file.stem.partition("-")[2])
    return found[:, :width] if width and width < found.shape[1] else found
