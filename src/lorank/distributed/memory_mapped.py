"""Blocks that stay on disk: their files are mapped, passed over one block after the other, and read ahead."""

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
from ..io.archive import FileError
from .blocks import block_arrays, host_entries
from .folder import BlockArrays, Folder

LARGE = 1 << 16  # bytes: smaller arrays stay in memory


def map_observations(block: BlockArrays, backend: Backend, n2: int) -> Any:
    """The observations of a mapped block: by the C++ kernels without a copy, by any other backend from its arrays."""
    if backend.name == "native":
        from ..backends.native import NativeObservations

        block = BlockArrays(*(None if a is None else a.view(np.ndarray) for a in block))  # type: ignore[arg-type]
        pattern = block.indptr, block.indices, block.colptr, block.rows, block.order
        weights = None
        if block.weights is not None and block.column_weights is not None:
            weights = block.weights, block.column_weights
        found = NativeObservations.mapped(pattern, (block.values, block.column_values), weights)
        found.__dict__["on_disk"] = True
        return found
    entries = host_entries(block)
    asarray = backend.asarray
    made = backend.make_observations(asarray(entries.indptr), asarray(entries.indices), asarray(entries.values), n2)
    return made if entries.weights is None else made.with_weights(backend.asarray(entries.weights))


class OnDisk:
    """Blocks of a folder, mapped; what has to be kept for each observation is written to scratch files and mapped as well.

    Parameters
    ----------
    folder : Folder
    backend : Backend
    scratch : path, optional
        Where scratch files go; by default beside the folder where that can be written to.
    """

    def __init__(self, folder: Folder, backend: Backend, scratch: str | os.PathLike[str] | None = None) -> None:
        self.folder, self.backend = folder, backend
        place = Path(scratch) if scratch is not None else folder.path.resolve().parent
        with contextlib.suppress(OSError):
            self.scratch = tempfile.mkdtemp(prefix=".lorank.", dir=place)
        if not hasattr(self, "scratch"):
            if scratch is not None:
                raise FileError(f"scratch={place}: no files can be written there")
            self.scratch = tempfile.mkdtemp(prefix="lorank.")
        weakref.finalize(self, shutil.rmtree, self.scratch, ignore_errors=True)
        self._open: dict[int, tuple[BlockArrays, Any]] = {}
        self._read = 0

    def observations(self, block: int) -> Any:
        if block not in self._open:
            arrays = self.folder.block(block)
            try:
                self._open[block] = arrays, map_observations(arrays, self.backend, self.folder.shape[1])
            except ValueError as error:
                part = self.folder.path / self.folder.parts[block].name
                raise FileError(f"{part} is damaged: {error}") from None
        self._ahead(block + 1)
        return self._open[block][1]

    def _ahead(self, block: int) -> None:
        """Have the system read the next block while this one is computed with."""
        following = self._open.get(block)
        if following is None or not hasattr(mmap, "MADV_WILLNEED"):
            return
        for a in following[0]:
            source = getattr(a, "_mmap", None)
            if source is not None:
                source.madvise(mmap.MADV_WILLNEED)

    def keep(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self._written(value)
        if isinstance(value, tuple):  # the two products with a sparse matrix
            return tuple(self.keep(one) for one in value)
        if isinstance(value, functools.partial):
            return functools.partial(value.func, *(self.keep(a) for a in value.args))
        if hasattr(value, "with_values"):
            return self._kept(value)
        return value

    def _kept(self, observed: Any) -> Any:
        """Observations that were derived from those of the folder: a part of them, or with other values."""
        if self.backend.name == "native" and not getattr(observed, "on_disk", False):
            arrays = block_arrays(observed.host(), observed.shape[1])
            written = BlockArrays(*(None if a is None else self._written(a) for a in arrays))  # type: ignore[arg-type]
            return map_observations(written, self.backend, observed.shape[1])
        for name in ("indptr", "indices", "values", "weights", "_column_values", "_column_weights"):
            a = getattr(observed, name, None)
            if isinstance(a, np.ndarray):
                setattr(observed, name, self._written(a))
        return observed

    def _written(self, a: np.ndarray) -> np.ndarray:
        """An array as a mapped scratch file."""
        if a.nbytes < LARGE or _mapped(a):
            return a
        handle, path = tempfile.mkstemp(dir=self.scratch)
        with os.fdopen(handle, "wb") as file:
            np.ascontiguousarray(a).tofile(file)
        found = np.memmap(path, a.dtype, "r", shape=a.shape)
        with contextlib.suppress(OSError):  # its space is given back with the array
            os.unlink(path)
        return found.view(np.ndarray)

    def done(self, block: int) -> None:
        pass


def _mapped(a: Any) -> bool:
    while a is not None:
        if isinstance(a, (np.memmap, mmap.mmap)):
            return True
        a = getattr(a, "base", None)
    return False
