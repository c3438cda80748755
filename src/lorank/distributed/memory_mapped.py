"""Memory-mapped blocks: files of partitions read block by block, and scratch files for large values."""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from ..backends import Backend
from ..io.archive import FileError, reason_of
from .folder import BlockArrays, Folder, block_arrays

MIN_MAPPED_BYTES = 1 << 16  # smaller arrays stay in memory


class MappedBlocks:
    """Blocks of a folder of partitions, memory-mapped. Large values of blocks go to scratch files, also memory-mapped.

    Parameters
    ----------
    folder : Folder
    backend : Backend
    scratch : path, optional
        Folder for scratch files. By default the parent of ``folder`` if it can be written to, else the system's.
    """

    def __init__(self, folder: Folder, backend: Backend, scratch: str | os.PathLike[str] | None = None) -> None:
        self.folder, self.backend = folder, backend
        place = Path(scratch) if scratch is not None else folder.path.resolve().parent
        with contextlib.suppress(OSError):
            self.scratch = tempfile.mkdtemp(prefix=".lorank.", dir=place)
        if not hasattr(self, "scratch"):
            if scratch is not None:
                raise FileError(f"scratch={place}: files cannot be written there")
            self.scratch = tempfile.mkdtemp(prefix="lorank.")
        weakref.finalize(self, shutil.rmtree, self.scratch, ignore_errors=True)
        self._open: dict[int, tuple[BlockArrays, Any, dict[Path, tuple[int, ...]]]] = {}

    def observations(self, block: int) -> Any:
        """Observations of a block. Their files are verified at the first call, and checked for changes at later ones."""
        if block in self._open:
            self.folder.check_unchanged(self._open[block][2])
        else:
            stamps, arrays = self.folder.stamps(block), self.folder.block(block)
            try:
                found = map_observations(arrays, self.backend, self.folder.shape[1])
            except ValueError as error:
                raise FileError(f"{self.folder.path / self.folder.parts[block].name} is damaged: {error}") from None
            self._open[block] = arrays, found, stamps
        self._read_ahead(block + 1)
        return self._open[block][1]

    def _read_ahead(self, block: int) -> None:
        """Ask the system to read the next block during the computation with this one."""
        if block not in self._open or not hasattr(mmap, "MADV_WILLNEED"):
            return
        for a in self._open[block][0]:
            if a is not None and isinstance(a.base, mmap.mmap):
                a.base.madvise(mmap.MADV_WILLNEED)

    def keep(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self._written(value)
        if isinstance(value, tuple):  # the two products with a sparse matrix
            return tuple(self.keep(one) for one in value)
        if isinstance(value, functools.partial):
            return functools.partial(value.func, *(self.keep(a) for a in value.args))
        return self._kept(value) if hasattr(value, "with_values") else value

    def _kept(self, observed: Any) -> Any:
        """Observations derived from those of the folder, a subset or with other values, with their arrays on disk."""
        if self.backend.name == "native" and not is_mapped(observed.indices):
            arrays = block_arrays(observed.host(), observed.shape[1])
            written = BlockArrays(*(None if a is None else self._written(a) for a in arrays))  # type: ignore[arg-type]
            return map_observations(written, self.backend, observed.shape[1])
        for name, a in list(vars(observed).items()):
            if isinstance(a, np.ndarray):
                setattr(observed, name, self._written(a))
        return observed

    def _written(self, a: np.ndarray) -> np.ndarray:
        """An array as a memory-mapped scratch file."""
        if a.nbytes < MIN_MAPPED_BYTES or is_mapped(a):
            return a
        try:
            handle, path = tempfile.mkstemp(dir=self.scratch)
            with os.fdopen(handle, "wb") as file:
                np.ascontiguousarray(a).tofile(file)
        except OSError as error:
            raise FileError(f"scratch={self.scratch}: values cannot be written there: {reason_of(error)}") from error
        found = np.memmap(path, a.dtype, "r", shape=a.shape)
        with contextlib.suppress(OSError):  # the system frees its space together with the array
            os.unlink(path)
        return found.view(np.ndarray)


def map_observations(block: BlockArrays, backend: Backend, n2: int) -> Any:
    """Observations of a memory-mapped block: without a copy for the C++ kernels, from its arrays for any other backend."""
    if backend.name == "native":
        from ..backends.native import NativeObservations

        block = BlockArrays(*(None if a is None else a.view(np.ndarray) for a in block))  # type: ignore[arg-type]
        pattern = block.indptr, block.indices, block.colptr, block.rows, block.order
        weights = None
        if block.weights is not None and block.column_weights is not None:
            weights = block.weights, block.column_weights
        return NativeObservations.mapped(pattern, (block.values, block.column_values), weights)
    entries = block.entries()
    asarray = backend.asarray
    made = backend.make_observations(asarray(entries.indptr), asarray(entries.indices), asarray(entries.values), n2)
    return made if entries.weights is None else made.with_weights(backend.asarray(entries.weights))


def is_mapped(a: Any) -> bool:
    """Whether an array is a view of a memory-mapped file."""
    while a is not None:
        if isinstance(a, (np.memmap, mmap.mmap)):
            return True
        a = getattr(a, "base", None)
    return False
