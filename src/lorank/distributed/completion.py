"""Completion problems from files, data frames and folders of partitions; folders of partitions from problems."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..backends import Backend, HostEntries, get_backend
from ..common.checks import ParameterError, check, one_of, optional, whole
from ..io.observation_files import TableSource, find_files
from ..losses import ROBUST, Loss, resolve_loss
from ..problems import Completion
from ..problems.completion import Precision
from ..problems.input_checks import as_shape, check_merging
from .backend import Partitioned, distributed_observations, format_bytes
from .building import build, default_partitions, write_folder
from .folder import Folder, block_arrays, open_folder, row_edges
from .memory_mapped import MappedBlocks
from .observations import DistributedObservations
from .shard import Engine, LocalEngine, Shard
from .sources import FrameSource

SORTING_BYTES = 200  # peak memory per observation while a partition is sorted and written: four times its stored size
PARTITIONS_PER_WORKER = 2  # at least, so that the partitions of a lost worker can be shared among the others
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
MIN_MEMORY = 50 * 10**6  # bytes; the interpreter and its libraries alone take more
TEXT_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


def from_partitions(
    folder: str | os.PathLike[str],
    *,
    loss: str | Loss = "squares",
    precision: Precision = "auto",
    scratch: str | os.PathLike[str] | None = None,
    client: Any = None,
    cluster: str | None = None,
    max_memory: int | str | None = None,
) -> Completion:
    """Completion problem from a folder of partitions.

    The files are memory-mapped and read block by block. They may be larger than the memory of the machine. Each file is
    compared with its checksum when it is first read. Files must not be changed while a problem uses them. This is checked
    before each pass, but a file that is truncated during a pass ends the process.

    Parameters
    ----------
    folder : path
        Folder written by :func:`save_partitions`, :func:`from_parquet`, :func:`from_csv` or :func:`from_frames`.
    loss : str or Loss
        Loss function, as in :class:`~lorank.Completion`, except ``"robust"``.
    precision : {"auto", "double", "mixed"}
        As in :class:`~lorank.Completion`.
    scratch : path, optional
        Folder for temporary files of the solvers, by default next to ``folder``. On a cluster, the workers write snapshots
        to it, and all of them must see it under the same path.
    client : distributed.Client, optional
        Client of a Dask cluster that runs the computation. Its workers must see ``folder`` under the same path. The workers
        hold the row factors and reduce sums among themselves. The work of a lost worker is recovered.
    cluster : str, optional
        Address of a Dask scheduler, ``"tcp://..."``, or ``"local"`` for one worker process per core.
    max_memory : int or str, optional
        Limit on the size of the factors in each process, in bytes or as in ``"2GB"``. A fit with larger factors is refused
        before it starts. Pages of memory-mapped files do not count, since the system can drop them.

    Returns
    -------
    Completion
        With ``row_ids`` and ``col_ids`` where the folder contains ids, and the ``column_names`` of rows, columns and values in
        the files that it was made from.

    Raises
    ------
    ValueError
        If the folder is missing, damaged or not a folder of partitions, or if a parameter is invalid.
    RuntimeError
        If the cluster cannot be used.

    Examples
    --------
    >>> import tempfile, pathlib, lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     lr.distributed.save_partitions(problem, pathlib.Path(place) / "entries", n_partitions=3)
    ...     again = lr.distributed.from_partitions(pathlib.Path(place) / "entries")
    ...     result = lr.solve(again, rank=2).numpy()
    >>> truth.distance(result.X) < 1e-4 * truth.norm()
    True
    """
    check_loss(loss)
    return _open(open_folder(folder), loss, precision, scratch, client, cluster, parse_size(max_memory))


def from_parquet(
    path: Any,
    rows: str,
    cols: str,
    values: str | None = None,
    weights: str | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    n_partitions: int | None = None,
    shape: tuple[int, int] | None = None,
    dtype: Any = "float32",
    duplicates: str = "error",
    loss: str | Loss = "squares",
    precision: Precision = "auto",
    client: Any = None,
    cluster: str | None = None,
    max_memory: int | str | None = None,
    watch: Callable[[str, int], None] | None = None,
) -> Completion:
    """Completion problem from Parquet files of any size.

    The observations are first written to a folder of partitions, in bounded memory.

    Parameters
    ----------
    path : path, pattern or list of them
        A file, a folder as written by Spark, Dask, polars or DuckDB, or a pattern such as ``"ratings/*.parquet"``.
    rows, cols, values, weights : str
        Names of columns. Row and column ids are integers or strings. They are numbered in increasing order, and
        ``problem.row_ids`` and ``problem.col_ids`` hold them. Without ``values``, each line has the value 1. With
        ``duplicates="sum"`` the value is then the number of occurrences of a pair, which is the input of
        :class:`~lorank.ImplicitFactorization`.
    folder : path, optional
        Folder for the partitions, which :func:`from_partitions` can open again. It must be empty or not exist. By default
        a temporary folder, deleted together with the problem.
    n_partitions : int, optional
        Number of partitions. By default one per eight million observations, or as many as ``max_memory`` requires.
    shape : (int, int), optional
        Shape of the matrix. If given, ids are indices counted from 0.
    dtype : {"float32", "float64"}
        Data type of the values.
    duplicates : {"error", "mean", "last", "sum"}
        Treatment of pairs that occur more than once, within a file or across files.
    loss : str or Loss
        Loss function, as in :class:`~lorank.Completion`, except ``"robust"``.
    precision : {"auto", "double", "mixed"}
        As in :class:`~lorank.Completion`.
    client, cluster : optional
        Dask cluster, as in :func:`from_partitions`. All workers must see ``folder`` under the same path.
    max_memory : int or str, optional
        Memory limit, as in :func:`from_partitions`. Each partition is made small enough to be sorted within it.
    watch : callable, optional
        Progress callback, called with the name of the current stage and the number of observations or partitions
        processed so far.

    Returns
    -------
    Completion
        With ``row_ids`` and ``col_ids``, unless ``shape`` is given.

    Raises
    ------
    ValueError
        If a file or column is missing, a value is invalid, a pair is repeated with ``duplicates="error"``, or a parameter
        is invalid.
    RuntimeError
        If the cluster cannot be used.

    Examples
    --------
    >>> import tempfile, polars, lorank as lr
    >>> table = polars.DataFrame({"user": ["ann", "ann", "bob"], "item": [7, 9, 9], "stars": [4.0, 2.0, 5.0]})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     table.write_parquet(place + "/part-0.parquet")
    ...     problem = lr.distributed.from_parquet(place, rows="user", cols="item", values="stars")
    >>> problem.row_ids.tolist(), problem.col_ids.tolist()
    (['ann', 'bob'], [7, 9])
    """
    source = TableSource(find_files(path, (".parquet",)), (rows, cols, values, weights))
    return _build(
        source,
        folder=folder,
        n_partitions=n_partitions,
        shape=shape,
        dtype=dtype,
        duplicates=duplicates,
        loss=loss,
        precision=precision,
        client=client,
        cluster=cluster,
        max_memory=max_memory,
        watch=watch,
    )


def from_csv(
    path: Any,
    rows: str,
    cols: str,
    values: str | None = None,
    weights: str | None = None,
    *,
    header: bool | None = None,
    **options: Any,
) -> Completion:
    r"""Completion problem from CSV files of any size.

    Parameters
    ----------
    path : path, pattern or list of them
        Files that end in ``.csv``, or in ``.tsv`` for tab-separated columns, also compressed (``.csv.gz``, ``.tsv.gz``).
    rows, cols, values, weights : str
        Names of columns, as in :func:`from_parquet`; ``column_1``, ``column_2``, ... in files without a header.
    header : bool, optional
        Whether the first line of each file contains the names of the columns; by default detected.
    **options
        Keyword arguments of :func:`from_parquet`.

    Returns
    -------
    Completion
        As in :func:`from_parquet`.

    Raises
    ------
    ValueError
        As in :func:`from_parquet`.
    TypeError
        If an option is unknown.
    RuntimeError
        If the cluster cannot be used.

    Examples
    --------
    >>> import tempfile, pathlib, lorank as lr
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = (pathlib.Path(place) / "ratings.csv").write_text("user,item,stars\nann,7,4\nann,9,2\nbob,9,5\n")
    ...     problem = lr.distributed.from_csv(place + "/ratings.csv", rows="user", cols="item", values="stars")
    >>> problem.m
    3
    """
    source = TableSource(find_files(path, TEXT_ENDINGS), (rows, cols, values, weights), header)
    return _build(source, **options)


def from_frames(
    frames: Any, rows: str, cols: str, values: str | None = None, weights: str | None = None, **options: Any
) -> Completion:
    """Completion problem from data frames.

    Parameters
    ----------
    frames : data frame or list of data frames
        Data frames of Dask, pandas or polars. One partition of a Dask data frame is in memory at a time.
    rows, cols, values, weights : str
        Names of columns, as in :func:`from_parquet`.
    **options
        Keyword arguments of :func:`from_parquet`.

    Returns
    -------
    Completion
        As in :func:`from_parquet`.

    Raises
    ------
    ValueError
        As in :func:`from_parquet`.
    TypeError
        If an option is unknown.
    RuntimeError
        If the cluster cannot be used.

    Examples
    --------
    >>> import polars, lorank as lr
    >>> frames = [polars.DataFrame({"user": ["ann", name], "item": [7, 9], "stars": [4.0, 5.0]}) for name in ("bob", "eve")]
    >>> problem = lr.distributed.from_frames(frames, rows="user", cols="item", values="stars", duplicates="mean")
    >>> problem.row_ids.tolist(), problem.m
    (['ann', 'bob', 'eve'], 3)
    """
    return _build(FrameSource(frames, (rows, cols, values, weights)), **options)


def save_partitions(problem: Completion, folder: str | os.PathLike[str], n_partitions: int | None = None) -> None:
    """Write the observations of a problem to a folder of partitions.

    Parameters
    ----------
    problem : Completion
        Problem with its observations in memory or in partitions. Its ids are written, too.
    folder : path
        Folder to write, which :func:`from_partitions` opens. It must be empty or not exist.
    n_partitions : int, optional
        Number of blocks of rows, each with about the same number of observations. By default the partitions of the problem,
        or one per eight million observations.

    Raises
    ------
    ValueError
        If the folder is not empty or cannot be written, or if there are more partitions than rows with observations.

    Examples
    --------
    >>> import tempfile, pathlib, lorank as lr
    >>> problem = lr.Completion([0, 0, 1, 2], [0, 1, 1, 0], [4.0, 2.0, 5.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as place:
    ...     lr.distributed.save_partitions(problem, pathlib.Path(place) / "entries", n_partitions=2)
    ...     lr.distributed.from_partitions(pathlib.Path(place) / "entries").shape
    (3, 2)
    """
    check("n_partitions", n_partitions, optional(whole(1)))
    observations = problem.observations
    weighted, dtype = observations.weights is not None, np.dtype(observations.values.dtype)
    with write_folder(folder, observations.shape[1], dtype, weighted) as writer:
        for entries in _blocks(observations, n_partitions):
            writer.add(block_arrays(entries, observations.shape[1]))
        for side, ids in enumerate((problem.row_ids, problem.col_ids)):
            writer.add_ids(side, ids)
        writer.names = problem.column_names


def check_loss(loss: Any) -> None:
    """Refuse the loss that partitions do not support."""
    if isinstance(loss, str) and loss == ROBUST:
        raise ParameterError(
            "loss", f"must not be {ROBUST!r} for partitions: pass 'huber', 'cauchy' or 'tukey', or read the data in memory"
        )


def parse_size(size: Any) -> int | None:
    """Bytes of a number or a string such as ``"2GB"``; None for None."""
    if size is None:
        return None
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*", str(size)) if not isinstance(size, bool) else None
    unit = "" if found is None else found[2].upper()
    if unit in ("K", "M", "G", "T"):
        unit += "B"
    if found is None or unit not in UNITS:
        raise ParameterError("max_memory", f"must be a number of bytes or a size like '2GB' or '512 MiB', got {size!r}")
    count = int(float(found[1]) * UNITS[unit])
    if count < MIN_MEMORY:
        raise ParameterError("max_memory", f"must be at least {format_bytes(MIN_MEMORY)}, got {size}")
    return count


def _blocks(observations: Any, n_partitions: int | None) -> Iterator[HostEntries]:
    """Observations of each block of rows."""
    if isinstance(observations, DistributedObservations) and n_partitions in (None, observations.graph.layout.count):
        yield from observations.graph.fetch([("entries", (observations.node,))])[0]
        return
    indptr, indices, values, weights = observations.host()
    counts = np.diff(indptr)
    for first, last in itertools.pairwise(row_edges(counts, n_partitions or default_partitions(counts))):
        part = slice(int(indptr[first]), int(indptr[last]))
        w = None if weights is None else weights[part]
        yield HostEntries(indptr[first : last + 1] - indptr[first], indices[part], values[part], w)


def _build(
    source: TableSource | FrameSource,
    *,
    folder: Any = None,
    n_partitions: int | None = None,
    shape: Any = None,
    dtype: Any = "float32",
    duplicates: str = "error",
    loss: Any = "squares",
    precision: Any = "auto",
    client: Any = None,
    cluster: str | None = None,
    max_memory: Any = None,
    watch: Any = None,
) -> Completion:
    """Write the observations of a source to a folder of partitions, and open the folder."""
    limit = parse_size(max_memory)
    check("n_partitions", n_partitions, optional(whole(1)))
    check("dtype", str(dtype), one_of(("float32", "float64")))
    check("duplicates", duplicates, one_of(("error", "mean", "last", "sum")))
    check_loss(loss)
    check_merging(resolve_loss(loss), duplicates, source.names[3] is not None)
    source.check()
    shape, min_partitions = None if shape is None else as_shape(shape), 1
    if client is not None or cluster is not None:  # report errors of the cluster before the long build
        from .client import check_workers, connect

        client, cluster = connect(client, cluster), None
        workers = check_workers(client, list(client.nthreads()))
        min_partitions = PARTITIONS_PER_WORKER * max(len(workers), 1)
    home = None if folder is not None else tempfile.mkdtemp(prefix="lorank.")
    try:
        made = build(
            source,
            Path(folder) if home is None else Path(home) / "partitions",
            shape=shape,
            n_partitions=n_partitions,
            dtype=str(dtype),
            duplicates=duplicates,
            min_partitions=min_partitions,
            partition_size=None if limit is None else max(limit // SORTING_BYTES, 1),
            watch=watch,
        )
        problem = _open(made, loss, precision, None, client, cluster, limit)
    except BaseException:
        if home is not None:
            shutil.rmtree(home, ignore_errors=True)
        raise
    if home is not None:
        weakref.finalize(problem.observations.graph, shutil.rmtree, home, ignore_errors=True)  # type: ignore[attr-defined]
    return problem


def _open(
    folder: Folder, loss: Any, precision: Precision, scratch: Any, client: Any, cluster: str | None, max_memory: int | None
) -> Completion:
    """Problem whose observations are mapped into this process or held by the workers of a cluster."""
    check("precision", precision, one_of(("auto", "double", "mixed")))  # before connecting to a cluster
    ids = {"row_ids": folder.ids(0), "col_ids": folder.ids(1)}
    if client is None and cluster is None:
        observations, backend = map_folder(folder, get_backend(), scratch, max_memory)
    else:
        from .client import connect
        from .cluster import Cluster

        engine = Cluster(folder, connect(client, cluster), scratch)
        observations, backend = _observations_of(folder, engine, get_backend(), max_memory)
    problem = Completion.from_observations(observations, backend, loss=loss, precision=precision, **ids)
    problem.column_names = folder.names
    return problem


def map_folder(
    folder: Folder, backend: Backend, scratch: str | os.PathLike[str] | None = None, max_memory: int | None = None
) -> tuple[Any, Partitioned]:
    """Observations of a folder mapped into this process, and their backend. ``backend`` computes with the blocks."""
    mapped = MappedBlocks(folder, backend, scratch)
    shard = Shard(backend, folder.layout, list(range(len(folder.parts))), mapped.observations, mapped.keep)
    return _observations_of(folder, LocalEngine(shard), backend, max_memory)


def _observations_of(folder: Folder, engine: Engine, backend: Backend, max_memory: int | None) -> tuple[Any, Partitioned]:
    limit = None if max_memory is None else max_memory * engine.workers
    observations = distributed_observations(engine, [p.m for p in folder.parts], folder.dtype, folder.weighted)
    return observations, Partitioned(backend, len(folder.parts), limit)
