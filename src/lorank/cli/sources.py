"""Sources of ratings: files read into memory, or partitions on disk for data larger than memory."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from ..distributed.backend import format_bytes
from ..distributed.folder import MANIFEST, Folder
from ..io.archive import FileError
from .errors import UsageError
from .options import DUPLICATES, Cluster, Duplicates, MaxMemory, PartitionsDir, check_word
from .output import print_columns, progress

ENDINGS = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")  # of files that may be read in blocks
BYTES_IN_MEMORY = 200  # for each observation: 147 counted while it is read and fitted at a given rank, 188 in a whole command
MEMORY_SHARE = 0.5  # of the machine's memory: larger data go to partitions
LINE_BYTES = 15  # of a line of text, at least
GZIP_RATIO = 4  # typical compression
ROWS = 20_000  # in a block of recommendations

Names = tuple[str | None, str | None, str | None]  # columns of rows, columns and values; None: found by their names


@dataclass(frozen=True)
class PartitionOptions:
    """Options of data in partitions.

    Attributes
    ----------
    max_memory : str, optional
        Limit for factors and blocks in memory, such as ``"2GB"``.
    cluster : str, optional
        Address of a Dask scheduler, or ``"local"``.
    folder : Path, optional
        Where to keep the partitions; a temporary folder by default.
    duplicates : str
        Treatment of repeated pairs: ``"error"``, ``"mean"``, ``"last"`` or ``"sum"``.
    """

    max_memory: MaxMemory = None
    cluster: Cluster = None
    folder: PartitionsDir = None
    duplicates: Duplicates = "error"

    def __post_init__(self) -> None:
        check_word(self.duplicates, DUPLICATES, "--duplicates")

    @property
    def given(self) -> bool:
        return self != PartitionOptions()


@dataclass(frozen=True)
class _Data:
    """Ratings in files.

    Attributes
    ----------
    paths : list of str
        Files, patterns or folders.
    names : tuple
        Columns of rows, columns and values.
    header : bool, optional
        Whether the first line of text files holds names; by default detected.
    """

    paths: list[str]
    names: Names = (None, None, None)
    header: bool | None = None

    @property
    def label(self) -> str:
        return label_of(self.paths)


@dataclass(frozen=True)
class File(_Data):
    """One or more files, read into memory; ``extra`` is one more column: times, or exposures."""

    extra: str | None = None

    def read(self, with_values: bool = True) -> Any:
        """All observations, a :class:`lorank.io.Ratings`."""
        from ..io import read_ratings

        with progress("reading"):
            return read_ratings(
                find_data_files(self.paths), *self.names, self.extra, with_values=with_values, header=self.header
            )

    def pairs(self, labels: dict[str, str]) -> tuple[Any, Iterator[tuple[np.ndarray, np.ndarray]]]:
        """Columns of pairs of ids, and the pairs in blocks; ``labels`` are the names of columns used by default."""
        from ..io import read_ratings
        from ..io.observation_files import find_files, pair_batches, schema_of
        from ..io.ratings import find_columns, kind_of_file

        files = find_files([str(file) for file in find_data_files(self.paths)], ENDINGS)
        kinds = {kind_of_file(file) for file in files}
        if kinds & {"mtx", "npz"}:
            if len(files) > 1:
                raise FileError(f"{files[0]} is a matrix: give it alone")
            matrix = read_ratings(files[0])
            return matrix.columns, iter([(matrix.row_ids[matrix.rows], matrix.col_ids[matrix.cols])])
        check_formats(files)
        there = list(schema_of(files[0], self.header))
        row, col = (
            name or (labels.get(side) if labels.get(side) in there else None)
            for name, side in zip(self.names[:2], ("row", "col"), strict=True)
        )
        found = find_columns(files[0], row, col, with_values=False, header=self.header)
        return found, pair_batches(files, found.row, found.col, header=self.header)


@dataclass(frozen=True)
class Partitions(_Data):
    """Files converted to partitions on disk, or a folder of partitions.

    With ``implicit``, each line counts once, or as often as the column of values gives, and repeated pairs are added.
    """

    options: PartitionOptions = PartitionOptions()
    implicit: bool = False

    def open(self) -> tuple[Any, Any]:
        """The problem, and the names of its columns."""
        with cluster_errors(), progress("opening partitions") as update:
            problem, columns = self._open(lambda what, count: update(f"{what}: {count:,}"))
        if find_partitions(self.paths, PartitionOptions()) is None:
            print_columns(self.label, columns)
        return problem, columns

    def _open(self, watch: Any) -> tuple[Any, Any]:
        from ..distributed import from_csv, from_parquet, from_partitions
        from ..io.observation_files import find_files
        from ..io.ratings import Columns, find_columns

        options: dict[str, Any] = {"cluster": self.options.cluster, "max_memory": self.options.max_memory}
        folder = find_partitions(self.paths, self.options)
        if folder is not None:
            self._check_no_file_options(folder)
            problem = from_partitions(folder, **options)
            row, col, value = problem.column_names or (None, None, None)
            return problem, Columns(row or "row", col or "col", value or "value")
        files = find_files([str(file) for file in find_data_files(self.paths)], ENDINGS)
        check_formats(files)
        row, col, value = self.names
        given = None if self.implicit else value
        columns = find_columns(files[0], row, col, given, with_values=not self.implicit, header=self.header)
        if self.implicit:
            columns = replace(columns, value=value)
        if files[0].suffix.lower() == ".parquet":
            read = from_parquet
        else:
            read = from_csv
            options["header"] = self.header
        summed = self.implicit and self.options.duplicates == "error"
        problem = read(
            [str(file) for file in files],
            columns.row,
            columns.col,
            columns.value,
            folder=self.options.folder,
            duplicates="sum" if summed else self.options.duplicates,
            watch=watch,
            **options,
        )
        return problem, columns

    def _check_no_file_options(self, folder: str) -> None:
        given: dict[str, Any] = dict(zip(("--row", "--col", "--value"), self.names, strict=True))
        given |= {"--partitions-dir": self.options.folder}
        given["--duplicates"] = None if self.options.duplicates == "error" else self.options.duplicates
        for option, value in given.items():
            if value is not None:
                raise UsageError(f"{option} {value} is for files of ratings, and {folder} holds partitions: leave it out")


Source = File | Partitions


def choose_source(
    paths: list[str], names: Names, options: PartitionOptions, extra: str | None = None, header: bool | None = None
) -> Source:
    """Partitions if the data are partitions, are requested as such, or are too large for memory; else files."""
    partitions = options.given or any((Path(path) / MANIFEST).exists() for path in paths)
    if partitions or sum(map(_observations, find_data_files(paths))) * BYTES_IN_MEMORY > MEMORY_SHARE * physical_memory():
        return Partitions(paths, names, header, options)
    return File(paths, names, header, extra)


def physical_memory() -> int:
    """Bytes of main memory of this machine; 4 GB if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 * 10**9


def label_of(paths: Sequence[str]) -> str:
    """Name of the data, for messages: the first path and the number of others."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {counted(len(paths) - 1, 'other')}"


def find_data_files(paths: list[str]) -> list[Path]:
    """Files given one by one, by a pattern or by their folder; a single file as it is given."""
    from ..io.observation_files import find_files

    if len(paths) == 1 and not Path(paths[0]).is_dir() and (Path(paths[0]).exists() or not glob.has_magic(paths[0])):
        return [Path(paths[0])]
    found = find_files(paths, ENDINGS)
    twice = [file for file in found if found.count(file) > 1] if len(paths) > 1 else []
    if twice:
        raise FileError(f"{twice[0]} is given twice")
    kinds = {file.name.removesuffix(".gz").rpartition(".")[2] for file in found}
    if len(kinds) > 1:
        raise FileError(
            f"{label_of(paths)}: files of different kinds ({', '.join(sorted(kinds))}): give those of one kind, as in "
            "'folder/*.parquet'"
        )
    return found


def check_formats(files: list[Path]) -> None:
    """Raise a FileError if a file cannot be read in blocks: a matrix, or other data under the extension of text."""
    from ..io.format_hints import check_is_text
    from ..io.ratings import kind_of_file

    for file in files:
        kind = kind_of_file(file)
        if kind in ("mtx", "npz"):
            raise FileError(f"{file} is a matrix: matrices are read into memory, not into partitions")
        if kind == "text":
            check_is_text(file)


def find_partitions(paths: list[str], options: PartitionOptions) -> str | None:
    """The folder of partitions among the paths, if there is one."""
    found = [path for path in paths if (Path(path) / MANIFEST).exists()]
    if found and len(paths) > 1:
        raise FileError(f"{found[0]} holds partitions: give it alone")
    if not found and options.folder is not None and (options.folder / MANIFEST).exists():
        raise UsageError(
            f"--partitions-dir {options.folder} holds partitions already: pass it instead of {paths[0]}, or choose another"
        )
    return found[0] if found else None


def _observations(file: Path) -> float:
    """Number of observations in a file, at most."""
    name = file.name.lower()
    if not name.endswith(ENDINGS) or not file.exists():
        return 0
    if name.endswith(".parquet"):
        from ..io.delimited_text import polars

        pl = polars()
        try:
            return float(pl.scan_parquet(str(file), glob=False).select(pl.len()).collect().item())
        except (pl.exceptions.PanicException, Exception):
            return 0  # reading the file gives the error
    return os.path.getsize(file) / LINE_BYTES * (GZIP_RATIO if name.endswith(".gz") else 1)


@contextlib.contextmanager
def cluster_errors() -> Iterator[None]:
    """Turn errors of a cluster into a ValueError, which is reported in one line."""
    from ..distributed.client import ClusterError

    try:
        yield
    except ClusterError as error:
        raise ValueError(str(error)) from error


class PassCounter:
    """Passes over the observations of partitions, bytes read, and workers, during a computation.

    Parameters
    ----------
    problem : problem in partitions
    update : callable
        Takes the text, after each pass.
    """

    def __init__(self, problem: Any, update: Any) -> None:
        self.problem, self.update, self.begin = problem, update, problem.observations.graph.passes
        problem.observations.graph.watch = lambda graph: self.update(self.text())

    def text(self) -> str:
        found = self.summary()
        passes = f"{counted(found['passes'], 'pass', 'passes')}, {format_bytes(found['bytes_passed_over'])} read"
        remote = hasattr(self.problem.observations.graph.engine, "recoveries")
        exchanged = (
            f", {counted(found['workers'], 'worker')}, {format_bytes(found['bytes_among_workers'])} exchanged" if remote else ""
        )
        return passes + exchanged + (f", {found['workers_lost']} lost" if found["workers_lost"] else "")

    def summary(self) -> dict[str, Any]:
        graph, each = self.problem.observations.graph, 4 + self.problem.dtype.itemsize
        passes = graph.passes - self.begin
        return {
            "partitions": graph.layout.count,
            "passes": passes,
            "bytes_passed_over": passes * self.problem.m * each,
            "workers": graph.engine.workers,
            "bytes_among_workers": graph.engine.bytes,
            "workers_lost": getattr(graph.engine, "recoveries", 0),
        }


@contextlib.contextmanager
def counted_passes(problem: Any, text: str) -> Iterator[PassCounter]:
    """Show progress of a computation on partitions, with its passes."""
    with cluster_errors(), progress(text) as update:
        counter = PassCounter(problem, update)
        yield counter
        problem.observations.graph.watch = None


def row_ranges(count: int) -> Iterator[tuple[int, int]]:
    """Ranges of so many rows, in blocks."""
    return ((first, min(first + ROWS, count)) for first in range(0, count, ROWS))


def row_blocks(folder: Folder) -> Iterator[tuple[int, int, tuple[np.ndarray, np.ndarray]]]:
    """Ranges of rows of partitions with the pattern of their observations: row pointers and columns."""
    for k, part in enumerate(folder.parts):
        block = folder.block(k)
        for low, high in row_ranges(part.rows):
            indptr = np.asarray(block.indptr[low : high + 1])
            yield part.first + low, part.first + high, (indptr - indptr[0], np.asarray(block.indices[indptr[0] : indptr[-1]]))


def check_same_ids(folder: Folder, known: tuple[np.ndarray, np.ndarray]) -> None:
    """Raise a ValueError if rows or columns of partitions differ from those of a model."""
    for side, what in enumerate(("rows", "columns")):
        if folder.shape[side] != len(known[side]):
            raise ValueError(
                f"{folder.path} has {folder.shape[side]:,} {what} and the model {len(known[side]):,}: pass the partitions that "
                "the model was fitted to"
            )
        ids = folder.ids(side)
        ids = np.arange(folder.shape[side]) if ids is None else ids
        other = np.flatnonzero(ids != known[side]) if ids.dtype.kind == known[side].dtype.kind else np.zeros(1, np.int64)
        if len(other):
            a, b = ids[other[0]], known[side][other[0]]
            raise ValueError(
                f"{folder.path} has other {what} than the model ({a!s} instead of {b!s}): pass the partitions that the model "
                "was fitted to"
            )
