"""Ratings past the memory of one machine: ``complete``, ``diagnose``, ``predict`` and ``recommend --all`` on partitions."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from ..distributed.folder import MANIFEST, Folder, open_folder
from ..distributed.memory_limits import physical_memory, shown
from ..io.archive import FileError
from .driver import ENDS_EARLY, Request, bounds_and_intervals, say_fit
from .model_files import ids_of, summarize
from .output import ENDINGS, Misuse, all_files, busy, named, say_columns

IN_MEMORY = 150  # bytes that an observation takes while it is read and fitted in main memory, at most
SHARE = 0.5  # of the machine's memory: files that need more go to partitions
TEXT_BYTES = 15  # of a line of text, at least
PACKED = 4  # times as large as a .gz file is what it holds, about


@dataclass(frozen=True)
class Where:
    """What was asked for: where partitions go, how much memory there is, and who computes."""

    memory: str | None = None
    cluster: str | None = None
    folder: Path | None = None
    duplicates: str = "error"


def wants_partitions(files: list[str], where: Where) -> bool:
    """Whether ratings are to be in partitions: they are already, or were asked to be, or are large together."""
    if where.memory or where.cluster or where.folder or where.duplicates != "error":
        return True
    if any((Path(file) / MANIFEST).exists() for file in files):
        return True
    return sum(map(_observations, all_files(files))) * IN_MEMORY > SHARE * physical_memory()


def _observations(file: Path) -> float:
    """How many there are in a file, at most."""
    name = file.name.lower()
    if not name.endswith(ENDINGS) or not file.exists():
        return 0
    text = os.path.getsize(file) / TEXT_BYTES * (PACKED if name.endswith(".gz") else 1)
    return _rows(str(file)) if name.endswith(".parquet") else text


def _rows(path: str) -> int:
    from ..io.delimited_text import polars

    pl = polars()
    try:
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    except (pl.exceptions.PanicException, Exception):
        return 0  # whoever reads it says what is wrong


def partitions_among(files: list[str], where: Where) -> str | None:
    """The folder of partitions, where that is what was given; refuses to make others where some are."""
    made = [file for file in files if (Path(file) / MANIFEST).exists()]
    if made and len(files) > 1:
        raise FileError(f"{made[0]} holds partitions: give it alone")
    if not made and where.folder is not None and (where.folder / MANIFEST).exists():
        raise Misuse(f"--folder {where.folder} holds partitions already: give it instead of {files[0]}, or choose another one")
    return made[0] if made else None


def for_files_only(made: str, names: tuple[str | None, str | None, str | None], where: Where) -> None:
    """Refuse what says how files are read where there are none."""
    asked: dict[str, Any] = dict(zip(("--row", "--col", "--value"), names, strict=True)) | {"--folder": where.folder}
    asked["--duplicates"] = None if where.duplicates == "error" else where.duplicates
    for option, value in asked.items():
        if value is not None:
            raise Misuse(f"{option} {value} is for files of ratings: {made} holds partitions, made from them: leave it out")


def check_ids(folder: Folder, known: tuple[np.ndarray, np.ndarray]) -> None:
    """Refuse a folder whose rows and columns are not those of a model."""
    for side, what in enumerate(("rows", "columns")):
        if folder.shape[side] != len(known[side]):
            raise ValueError(
                f"{folder.path} has {folder.shape[side]:,} {what}, and the model {len(known[side]):,}: it was fitted to others"
            )
        ids = folder.ids(side)
        ids = np.arange(folder.shape[side]) if ids is None else ids
        other = np.flatnonzero(ids != known[side]) if ids.dtype.kind == known[side].dtype.kind else np.zeros(1, np.int64)
        if len(other):
            a, b = ids[other[0]], known[side][other[0]]
            raise ValueError(
                f"{folder.path} has other {what} than the model: {a!s} stands where the model has {b!s}. It was "
                "fitted to others"
            )


def open_ratings(files: list[str], names: tuple[str | None, str | None, str | None], where: Where, say: Any) -> tuple[Any, Any]:
    """The problem of ratings in partitions, made where they are not there yet, and the names of their columns."""
    from ..distributed import from_csv, from_parquet, from_partitions
    from ..io.ratings import Columns

    options: dict[str, Any] = {"cluster": where.cluster, "memory": where.memory}
    made = partitions_among(files, where)
    if made is not None:
        for_files_only(made, names, where)
        return from_partitions(made, **options), Columns("row", "col", "value")
    found, columns = _columns(files, names)
    read = from_parquet if found[0].suffix.lower() == ".parquet" else from_csv

    def watch(what: str, count: int) -> None:
        say(f"{what}: {count:,}")

    problem = read(
        [str(file) for file in found],
        columns.row,
        columns.col,
        str(columns.value),
        folder=where.folder,
        duplicates=where.duplicates,
        watch=watch,
        **options,
    )
    return problem, columns


def _columns(files: list[str], names: tuple[str | None, str | None, str | None]) -> tuple[list[Path], Any]:
    """The files, and which of their columns are which: guessed from the first as for a single file."""
    from ..distributed.sources import find_files, schema_of
    from ..io.ratings import guess_columns

    found = find_files([str(file) for file in all_files(files)], ENDINGS)
    refuse_other_kinds(found)
    return found, guess_columns(found[0], list(schema_of(found[0])), *names)


def refuse_other_kinds(files: list[Path]) -> None:
    """A FileError where one of the files is no table, or one of text is something else: a workbook, UTF-16, JSON."""
    from ..io.format_hints import refuse_others
    from ..io.ratings import kind_of_file

    for file in files:
        kind = kind_of_file(file)
        if kind in ("mtx", "npz"):
            raise FileError(f"{file} is a matrix, which is read in memory alone, not in partitions")
        if kind == "text":
            refuse_others(file)


@contextlib.contextmanager
def on_a_cluster() -> Iterator[None]:
    """What a cluster cannot do, in a line."""
    from ..distributed.client import ClusterError

    try:
        yield
    except ClusterError as error:
        raise ValueError(str(error)) from error


class Progress:
    """Passes over the observations, bytes read in them, and workers, as a fit goes on."""

    def __init__(self, problem: Any, say: Any) -> None:
        self.problem, self.say, self.begin = problem, say, problem.observations.graph.passes
        problem.observations.graph.watch = self._watch

    def _watch(self, graph: Any) -> None:
        self.say(self.text())

    def text(self) -> str:
        found = self.summary()
        said = f"{counted(found['passes'], 'pass', 'passes')}, {shown(found['bytes_passed_over'])} passed over"
        workers = (
            f", {counted(found['workers'], 'worker')}, {shown(found['bytes_among_workers'])} among them" if self.remote else ""
        )
        lost = f", {found['workers_lost']} lost" if found["workers_lost"] else ""
        return said + workers + lost

    @property
    def remote(self) -> bool:
        return hasattr(self.problem.observations.graph.engine, "recoveries")

    def summary(self) -> dict[str, Any]:
        graph, each = self.problem.observations.graph, 4 + self.problem.dtype.itemsize
        passes = graph.passes - self.begin
        return {
            "partitions": graph.plan.count,
            "passes": passes,
            "bytes_passed_over": passes * self.problem.m * each,
            "workers": graph.engine.workers,
            "bytes_among_workers": graph.engine.bytes,
            "workers_lost": getattr(graph.engine, "recoveries", 0),
        }

    def end(self) -> None:
        self.problem.observations.graph.watch = None


def complete(request: Request, where: Where) -> int:
    """Fit a model to ratings in partitions; see :func:`lorank.cli.driver.run_complete`."""
    from ..estimators import MatrixCompletion
    from ..factorization.folds import some_of
    from ..losses import resolve_loss

    options = request.options()
    request.in_memory()
    begin = time.perf_counter()
    with on_a_cluster(), busy("opening partitions") as say:
        problem, columns = open_ratings(request.files, request.columns, where, say)
    say_columns(named(request.files), columns)
    some = np.unique(some_of(problem, 1 << 20)[2])
    settled = bounds_and_intervals(some, problem.y, resolve_loss(request.loss))
    model = MatrixCompletion(*options, **settled, random_state=request.seed, loss=request.loss, holdout=0.1)
    with on_a_cluster(), busy(f"fitting ({ENDS_EARLY})") as say:
        progress = Progress(problem, say)
        model.fit(problem)
        progress.end()
    model.labels_ = {"row": columns.row, "col": columns.col, "value": columns.value}
    summary = summarize(model) | progress.summary()
    summary |= {"file": named(request.files), "seconds": time.perf_counter() - begin}
    if where.folder is not None:
        summary["folder"] = str(where.folder)
    if request.out is not None:
        model.save(request.out)
        summary["model"] = str(request.out)
    return say_fit(model, summary, request, f"{counted(summary['partitions'], 'partition')}, {progress.text()}")


def diagnose(files: list[str], names: tuple[str | None, str | None, str | None], where: Where, rank: int) -> Any:
    """What ratings in partitions allow."""
    from ..evaluation.diagnosis import diagnose as found

    with on_a_cluster(), busy("opening partitions") as say:
        problem, columns = open_ratings(files, names, where, say)
    say_columns(named(files), columns)
    with on_a_cluster(), busy("looking at the pattern") as say:
        progress = Progress(problem, say)
        said = found(problem, min(rank, *problem.shape))
        progress.end()
    return said


def predict(
    fitted: Any, paths: list[str], out: Path, names: tuple[str | None, str | None], interval: float | None
) -> tuple[int, int]:
    """Predict at the pairs of files of any size, some at a time: how many there were, and how many not known."""
    from ..distributed.sources import find_files, pair_batches, schema_of
    from ..io.ratings import guess_columns
    from .predictions import labelled, not_known, predictions
    from .tables_out import BlockWriter

    files = find_files(paths, ENDINGS)
    refuse_other_kinds(files)
    there = list(schema_of(files[0]))
    columns = guess_columns(files[0], there, *labelled(fitted, names, there), None, with_values=False)
    say_columns(named(paths), columns)
    count = unknown = 0
    with BlockWriter(out) as writer, busy("predicting") as say:
        for ids in pair_batches(files, columns.row, columns.col):
            made = predictions(fitted, ids, (columns.row, columns.col), interval)
            writer.add(made)
            count, unknown = count + len(ids[0]), unknown + not_known(made)
            say(f"{count:,}")
        if not count:
            raise FileError(f"{named(paths)} has no pairs to predict at")
    return count, unknown


def recommend_all(fitted: Any, out: Path, n: int, by: str | None, seen: bool, ratings: Path | None) -> int:
    """The best columns of every row, some rows at a time: how many rows there were."""
    from ..estimators.frames import beside
    from .tables_out import BlockWriter

    folder = None if ratings is None else open_folder(ratings)
    row_ids, col_ids = ids_of(fitted, "rows"), ids_of(fitted, "cols")
    if folder is not None:
        check_ids(folder, (row_ids, col_ids))
    label = fitted.labels_ or {}
    names = [label.get("row") or "row", label.get("col") or "col"]
    own = beside(names, ("place", "prediction"))
    with BlockWriter(out) as writer, busy("recommending") as say:
        for first, last, pattern in _blocks(fitted, folder, seen):
            cols, scores = _best(fitted, first, last, n, by, seen, pattern)
            there = cols >= 0
            place = np.broadcast_to(np.arange(1, n + 1), cols.shape)[there]
            rows = np.repeat(np.arange(first, last), there.sum(1))
            writer.add({names[0]: row_ids[rows], own[0]: place, names[1]: col_ids[cols[there]], own[1]: scores[there]})
            say(f"{last:,} rows of {len(row_ids):,}")
    return len(row_ids)


ROWS = 20_000  # at a time


def _blocks(fitted: Any, folder: Folder | None, seen: bool) -> Iterator[tuple[int, int, Any]]:
    """Ranges of rows, and the pattern of what they have seen where a folder says so."""
    if folder is None:
        n1 = fitted.model_.shape[0]
        yield from ((k, min(k + ROWS, n1), None) for k in range(0, n1, ROWS))
        return
    yield from ((first, last, None if seen else pattern) for first, last, pattern in patterns_of(folder))


def patterns_of(folder: Folder) -> Iterator[tuple[int, int, tuple[np.ndarray, np.ndarray]]]:
    """Ranges of rows, and the pattern of their observations: pointers and columns."""
    for k, part in enumerate(folder.parts):
        block = folder.block(k)
        for low in range(0, part.rows, ROWS):
            high = min(low + ROWS, part.rows)
            indptr = np.asarray(block.indptr[low : high + 1])
            yield part.first + low, part.first + high, (indptr - indptr[0], np.asarray(block.indices[indptr[0] : indptr[-1]]))


def _best(
    fitted: Any, first: int, last: int, n: int, by: str | None, seen: bool, pattern: Any
) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(first, last)
    remembers = fitted._seen is not None
    by = by or ("taste" if remembers and pattern is None else "rating")
    if pattern is None or by == "taste":
        from ..estimators.recommending import recommend

        return recommend(fitted, rows, n, not seen, by)
    from ..backends import get_backend
    from ..backends.top_k import top_columns

    model = fitted.model_
    never = model.col_counts == 0
    cols, _ = top_columns(get_backend(), model.rows[rows], model.cols, n, seen=pattern, never=never)
    there, scores = cols >= 0, np.full(cols.shape, np.nan)
    scores[there] = fitted._expected(model.predict(np.broadcast_to(rows[:, None], cols.shape)[there], cols[there]))
    return cols, scores
