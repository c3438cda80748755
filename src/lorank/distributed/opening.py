"""Observations in partitions, as the passes see them: opened from a folder, or cut from arrays and saved to one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backends import Backend, HostEntries, get_backend
from .backend import Partitioned, spread_observations
from .blocks import block_arrays, row_edges
from .engine import Engine, Local
from .folder import Folder, FolderWriter, open_folder
from .memory_mapped import OnDisk
from .observations import SpreadObservations
from .program import Plan
from .shard import Site


def plan_of(folder: Folder) -> Plan:
    return Plan(folder.shape, (*(p.first for p in folder.parts), folder.shape[0]))


def out_of_core(
    folder: Folder,
    holder: str | Backend | None = None,
    scratch: str | os.PathLike[str] | None = None,
    memory: int | None = None,
) -> tuple[Any, Partitioned]:
    """The observations of a folder, mapped into this process."""
    backend = get_backend(holder)
    site = Site(backend, plan_of(folder), list(range(len(folder.parts))), OnDisk(folder, backend, scratch))
    return observations_of(folder, Local(site), backend, memory)


def observations_of(folder: Folder, engine: Engine, backend: Backend, memory: int | None = None) -> tuple[Any, Partitioned]:
    """The observations of a folder, held by an engine."""
    sizes = [p.m for p in folder.parts]
    allowed = None if memory is None else memory * engine.workers
    return spread_observations(engine, sizes, folder.dtype, folder.weighted), Partitioned(backend, len(folder.parts), allowed)


def save(observations: Any, path: str | os.PathLike[str], partitions: int | None, ids: tuple[Any, Any]) -> Folder:
    """Write observations as a folder of partitions."""
    weighted, dtype = observations.weights is not None, np.dtype(observations.values.dtype)
    with FolderWriter(path, observations.shape[1], dtype, weighted) as writer:
        for entries in _blocks(observations, partitions):
            writer.add(block_arrays(entries, observations.shape[1]))
        for side in (0, 1):
            writer.add_ids(side, ids[side])
    return open_folder(path)


def _blocks(observations: Any, partitions: int | None) -> Iterator[HostEntries]:
    if isinstance(observations, SpreadObservations) and partitions in (None, observations.graph.plan.count):
        yield from observations.graph.find([("entries", (observations.node,))])[0]
        return
    indptr, indices, values, weights = observations.host()
    if partitions is None:
        partitions = max(1, min(-(-len(values) // 8_000_000), int((np.diff(indptr) > 0).sum())))
    edges = row_edges(np.diff(indptr), partitions)
    for first, last in itertools.pairwise(edges):
        part = slice(int(indptr[first]), int(indptr[last]))
        w = None if weights is None else weights[part]
        yield HostEntries(indptr[first : last + 1] - indptr[first], indices[part], values[part], w)
