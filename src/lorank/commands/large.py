"""Ratings past the memory of one machine: ``complete``, ``diagnose``, ``predict`` and ``recommend --all`` on partitions."""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..files import FileError
from ..partitions.folder import MANIFEST, Folder, open_folder
from ..partitions.memory import physical_memory, shown
from .common import number_or, show_json, whole_or

IN_MEMORY = 150  # bytes that an observation takes while it is read and fitted in main memory, at most
SHARE = 0.5  # of the machine's memory: files that need more go to partitions
TEXT_BYTES = 15  # of a line of text, at least
ENDINGS = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True)
class Where:
    """What was asked for: where partitions go, how much memory there is, and who computes."""

    memory: str | None = None
    cluster: str | None = None
    folder: Path | None = None
    duplicates: str = "error"


def wants_partitions(path: str, where: Where) -> bool:
    """Whether ratings are to be in partitions: they are already, or were asked to be, or are many files, or large."""
    if where.memory or where.cluster or where.folder or Path(path).is_dir():
        return True
    if not Path(path).exists():
        return bool(glob.has_magic(path))
    name = path.lower()
    if not name.endswith(ENDINGS):
        return False
    observations = _rows(path) if name.endswith(".parquet") else os.path.getsize(path) / TEXT_BYTES
    return observations * IN_MEMORY > SHARE * physical_memory()


def _rows(path: str) -> int:
    from ..datafiles.text import polars

    pl = polars()
    try:
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    except (pl.exceptions.PanicException, Exception):
        return 0  # whoever reads it says what is wrong


def open_ratings(path: str, names: tuple[str | None, str | None, str | None], where: Where, say: Any) -> tuple[Any, Any]:
    """The problem of ratings in partitions, made where they are not there yet, and the names of their columns."""
    from ..datafiles.ratings import Columns
    from ..operators import Completion

    options: dict[str, Any] = {"cluster": where.cluster, "memory": where.memory}
    if (Path(path) / MANIFEST).exists():
        return Completion.from_partitions(path, **options), Columns("row", "col", "value")
    if where.folder is not None and (where.folder / MANIFEST).exists():
        raise FileError(f"{where.folder} holds partitions already: give it instead of {path}, or choose another folder")
    files, found = _columns(path, names)
    read = Completion.from_parquet if str(files[0]).endswith(".parquet") else Completion.from_csv
    folder = where.folder

    def watch(what: str, count: int) -> None:
        say(f"{what}: {count:,}")

    problem = read(
        [str(f) for f in files],
        found.row,
        found.col,
        str(found.value),
        folder=folder,
        duplicates=where.duplicates,
        watch=watch,
        **options,
    )
    return problem, found


def _columns(path: str, names: tuple[str | None, str | None, str | None]) -> tuple[list[Path], Any]:
    """The files, and which of their columns are which: guessed from the first as for a single file."""
    from ..datafiles.ratings import guess_columns
    from ..partitions.sources import find_files, schema_of

    files = find_files(path, ENDINGS)
    kinds = {file.name.removesuffix(".gz").rpartition(".")[2] for file in files}
    if len(kinds) > 1:
        raise FileError(
            f"{path} has files of different kinds ({', '.join(sorted(kinds))}): name those of one, as in 'folder/*.parquet'"
        )
    return files, guess_columns(files[0], list(schema_of(files[0])), *names)


@contextlib.contextmanager
def for_people() -> Iterator[None]:
    """What a cluster cannot do, in a line."""
    from ..partitions.cluster import ClusterError

    try:
        yield
    except ClusterError as error:
        raise ValueError(str(error)) from error


@contextlib.contextmanager
def telling(text: str) -> Iterator[Any]:
    """A function that says how far things have come, on stderr; at the end, how long they took."""
    from rich.console import Console

    console, begin = Console(stderr=True), time.perf_counter()
    with console.status(text) as status:
        yield lambda more: status.update(f"{text}: {more}")
    console.print(f"{text}: {time.perf_counter() - begin:.1f} s", highlight=False, style="dim")


class Progress:
    """Passes over the observations, bytes read in them, and workers, as a fit goes on."""

    def __init__(self, problem: Any, say: Any) -> None:
        self.problem, self.say, self.begin = problem, say, problem.observations.graph.passes
        problem.observations.graph.watch = self._watch

    def _watch(self, graph: Any) -> None:
        self.say(self.text())

    def text(self) -> str:
        found = self.summary()
        said = f"{found['passes']:,} passes, {shown(found['bytes_passed_over'])} passed over"
        workers = f", {found['workers']} workers, {shown(found['bytes_among_workers'])} among them" if self.remote else ""
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


def complete(
    path: str,
    names: tuple[str | None, str | None, str | None],
    where: Where,
    *,
    rank: str,
    regularization: str,
    loss: str,
    out: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Fit a model to ratings in partitions; see :func:`lorank.commands.ratings.run_complete`."""
    from ..datafits import ROBUST, resolve_loss
    from ..estimators import MatrixCompletion
    from ..factor_models.folds import some_of
    from .ratings import say_fit, summarize

    options = whole_or(rank, ("auto",), "rank"), number_or(regularization, ("auto", "learned"), "regularization")
    if loss == ROBUST:
        raise ValueError("--loss robust needs the ratings in memory: for partitions take huber, cauchy or tukey")
    chosen = resolve_loss(loss)
    begin = time.perf_counter()
    with for_people(), telling("opening partitions") as say:
        problem, columns = open_ratings(path, names, where, say)
    values = np.unique(some_of(problem, 1 << 20)[2])
    classes = chosen is not None and chosen.discrete
    bounds = (float(problem.y.min()), float(problem.y.max())) if 1 < len(values) <= 20 and not classes else None
    model = MatrixCompletion(*options, bounds=bounds, intervals=not classes, random_state=seed, loss=loss, holdout=0.1)
    with for_people(), telling("fitting") as say:
        progress = Progress(problem, say)
        model.fit(problem)
        progress.end()
    model.labels_ = {"row": columns.row, "col": columns.col, "value": columns.value}
    summary = summarize(model) | progress.summary()
    summary |= {"file": path, "seconds": time.perf_counter() - begin}
    if where.folder is not None:
        summary["folder"] = str(where.folder)
    if out is not None:
        model.save(out)
        summary["model"] = str(out)
    if as_json:
        show_json(summary)
        return
    say_fit(model, summary, loss)
    print(f"{summary['partitions']:,} partitions, {progress.text()}")


def diagnose(path: str, names: tuple[str | None, str | None, str | None], where: Where, rank: int) -> Any:
    """What ratings in partitions allow."""
    from ..diagnosis import diagnose as found

    with for_people(), telling("opening partitions") as say:
        problem, _ = open_ratings(path, names, where, say)
    with for_people(), telling("looking at the pattern") as say:
        progress = Progress(problem, say)
        said = found(problem, min(rank, *problem.shape))
        progress.end()
    return said


def predict(fitted: Any, path: str, out: Path, names: tuple[str | None, str | None], interval: float | None) -> tuple[int, int]:
    """Predict at the pairs of files of any size, some at a time: how many there were, and how many not known."""
    from ..datafiles.ratings import guess_columns
    from ..datafiles.text import polars
    from ..partitions.sources import find_files, pair_batches, schema_of
    from .ratings import as_known
    from .tables_out import BlockWriter

    pl = polars()

    files = find_files(path, ENDINGS)
    there, labels = (
        list(schema_of(files[0])),
        fitted.labels_ or {},
    )  # the names that the model was fitted with, where the file has them
    sides = zip(names, ("row", "col"), strict=True)
    row, col = (given or (labels.get(side) if labels.get(side) in there else None) for given, side in sides)
    columns = guess_columns(files[0], there, row, col, None, with_values=False)
    count = unknown = 0
    with BlockWriter(out) as writer, telling("predicting") as say:
        for rows, cols in pair_batches(files, columns.row, columns.col):
            pairs = pl.DataFrame({"row": as_known(fitted, "rows", rows), "col": as_known(fitted, "cols", cols)})
            known = fitted.known(pairs)
            found = {columns.row: rows, columns.col: cols, "prediction": fitted.predict(pairs)}
            if interval is not None:
                found["low"], found["high"] = fitted.predict_interval(pairs, interval)
            writer.add(found | {"known": known})
            count, unknown = count + len(known), unknown + int((~known).sum())
            say(f"{count:,}")
    return count, unknown


def recommend_all(fitted: Any, out: Path, n: int, by: str | None, seen: bool, ratings: Path | None) -> int:
    """The best columns of every row, some rows at a time: how many rows there were."""
    from .ratings import ids_of
    from .tables_out import BlockWriter

    folder = None if ratings is None else open_folder(ratings)
    row_ids, col_ids = ids_of(fitted, "rows"), ids_of(fitted, "cols")
    if folder is not None and folder.shape != fitted.model_.shape:
        raise ValueError(f"{ratings} has shape {folder.shape}, and the model {fitted.model_.shape}: it was fitted to others")
    label = fitted.labels_ or {}
    names = [label.get("row") or "row", label.get("col") or "col"]
    with BlockWriter(out) as writer, telling("recommending") as say:
        for first, last, pattern in _blocks(fitted, folder, seen):
            cols, scores = _best(fitted, first, last, n, by, seen, pattern)
            there = cols >= 0
            place = np.broadcast_to(np.arange(1, n + 1), cols.shape)[there]
            rows = np.repeat(np.arange(first, last), there.sum(1))
            writer.add({names[0]: row_ids[rows], "place": place, names[1]: col_ids[cols[there]], "prediction": scores[there]})
            say(f"{last:,} rows of {len(row_ids):,}")
    return len(row_ids)


ROWS = 20_000  # at a time


def _blocks(fitted: Any, folder: Folder | None, seen: bool) -> Iterator[tuple[int, int, Any]]:
    """Ranges of rows, and the pattern of what they have seen where a folder says so."""
    if folder is None:
        n1 = fitted.model_.shape[0]
        yield from ((k, min(k + ROWS, n1), None) for k in range(0, n1, ROWS))
        return
    for k, part in enumerate(folder.parts):
        block = folder.block(k)
        for low in range(0, part.rows, ROWS):
            high = min(low + ROWS, part.rows)
            indptr = np.asarray(block.indptr[low : high + 1])
            pattern = None if seen else (indptr - indptr[0], np.asarray(block.indices[indptr[0] : indptr[-1]]))
            yield part.first + low, part.first + high, pattern


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
    from ..top import top_columns

    model = fitted.model_
    never = model.col_counts == 0
    cols, _ = top_columns(get_backend(), model.rows[rows], model.cols, n, seen=pattern, never=never)
    there, scores = cols >= 0, np.full(cols.shape, np.nan)
    scores[there] = fitted._expected(model.predict(np.broadcast_to(rows[:, None], cols.shape)[there], cols[there]))
    return cols, scores
