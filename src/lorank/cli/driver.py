"""The driver of the commands: ``run(command, source, estimator, output)``.

A command is a function of a source (files or partitions), an estimator (ratings or implicit feedback) and an output (model,
table, page or JSON). It returns numbers for JSON, text for the terminal and the exit code.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..common.blas_threads import one_blas_thread
from ..common.checks import counted
from ..io.archive import FileError
from .errors import INTERRUPTED, UsageError, print_error
from .estimators import Estimator, Fit, ImplicitEstimator, RatingsEstimator
from .model_files import as_known, near_ids
from .output import Output, format_table, print_columns, progress, table_writer
from .sources import File, Partitions, Source, check_same_ids, counted_passes

ORDERED = {
    "affinity": "ordered by the ranking model; --order-by rating orders by predicted rating",
    "rating": "ordered by predicted rating; --order-by affinity orders by the ranking model",
}


class Outcome(NamedTuple):
    """Result of a command: numbers for JSON, text for the terminal, and the exit code."""

    summary: dict[str, Any]
    text: str
    code: int = 0


Command = Callable[[Any, Any, Output], Outcome]


@one_blas_thread
def run(command: Command, source: Source | None, estimator: Estimator | None, output: Output) -> int:
    """Run a command and print its result.

    Parameters
    ----------
    command : callable
        One of this module, its own options bound.
    source : File, Partitions or None
    estimator : Estimator or None
    output : Output

    Returns
    -------
    int
        The exit code.
    """
    output.check()
    outcome = command(source, estimator, output)
    output.show(outcome.summary, outcome.text)
    return outcome.code


def complete(source: Source, estimator: Estimator, output: Output) -> Outcome:
    """Fit a model; write it and a report about it."""
    estimator.check(source, output)
    begin = time.perf_counter()
    fit = estimator.fit(source)
    summary = fit.summary | {"file": source.label, "seconds": time.perf_counter() - begin}
    if isinstance(source, Partitions) and source.options.folder is not None:
        summary["folder"] = str(source.options.folder)
    early = estimator.model.status_ == "interrupted"
    stopped = early
    if output.model is not None:
        if fit.data is not None:
            stopped = stopped or not _finished(estimator.prepare_ranking)  # recommend can do that later
        estimator.model.save(output.model)
        summary["model"] = str(output.model)
    if output.page is not None and not stopped:
        stopped = not _finished(_write_report, output.page, estimator, fit, Path(source.label).name)
        summary |= {} if stopped else {"report": str(output.page)}
    written = [f"{key}: {summary[key]}" for key in ("model", "report") if key in summary]
    unsaved = [] if output.model is not None else ["the model was not saved: use -o model.lorank"]
    if stopped:
        place = "was not saved" if output.model is None else f"is in {output.model}"
        print_error(f"interrupted: the {'best model so far' if early else 'fitted model'} {place}")
    return Outcome(summary, "\n".join([*fit.lines, *written, *unsaved]), INTERRUPTED if stopped else 0)


def _finished(work: Callable[..., None], *arguments: Any) -> bool:
    """Whether work after the fit finished; Ctrl-C ends the work and keeps the fit."""
    try:
        work(*arguments)
    except KeyboardInterrupt:
        return False
    return True


def _write_report(path: Path, estimator: Estimator, fit: Fit, title: str) -> None:
    from ..report.model_page import write_model_page
    from ..report.ranking_page import ranking_section
    from .evaluate import rank_refitted

    data = fit.data
    ranking = rank_refitted(data, estimator.model, estimator.options.seed)
    section = None if ranking is None else ranking_section(ranking)
    with progress("writing the report"):
        write_model_page(path, estimator.model, data.rows, data.cols, data.values, title=title, more=section)


def diagnose(source: Source, _estimator: Any, _output: Output, rank: int) -> Outcome:
    """Check whether ratings suffice for a model of a given rank."""
    import scipy.sparse

    from ..evaluation.diagnosis import diagnose as diagnose_pattern

    if rank < 1:
        raise UsageError(f"--rank must be a whole number, 1 or more, got {rank}")
    if isinstance(source, Partitions):
        problem, _ = source.open()
        with counted_passes(problem, "counting observations"):
            found = diagnose_pattern(problem, min(rank, *problem.shape))
    else:
        data = source.read()
        print_columns(source.label, data.columns)
        shape = len(data.row_ids), len(data.col_ids)
        observed = scipy.sparse.coo_array((data.values, (data.rows, data.cols)), shape)
        found = diagnose_pattern(observed, min(rank, *shape))
    return Outcome(found.to_dict(), str(found))


def predict(source: File, estimator: RatingsEstimator, output: Output, interval: float | None) -> Outcome:
    """Predict at pairs of row and column, in blocks, and write a table."""
    from ..estimators.frames import unique_names
    from ..io.delimited_text import polars

    assert output.table is not None
    if interval is not None and not 0 < interval < 1:
        raise UsageError(f"--interval must lie between 0 and 1 (0.9 is 90 %), got {interval:g}")
    model, count, unknown = estimator.model, 0, 0
    columns, batches = source.pairs(model.state_.labels or {})
    row, col = columns.row, columns.col
    names = zip(("rows", "cols"), (row, col), estimator.ids, strict=True)
    if all(as_known(model, side, np.array([name]))[0] in ids for side, name, ids in names):
        raise FileError(f"{source.label}: the first line, '{row},{col}', is a pair: add a line of names, such as user,item")
    print_columns(source.label, columns)
    own = unique_names((row, col), ("prediction", "low", "high", "known"))
    with table_writer(output.table) as write, progress("predicting") as update:
        for rows, cols in batches:
            pairs = polars().DataFrame({"row": as_known(model, "rows", rows), "col": as_known(model, "cols", cols)})
            made = {row: rows, col: cols, own[0]: model.predict(pairs)}
            if interval is not None:
                made[own[1]], made[own[2]] = model.predict_interval(pairs, interval)
            known = model.known(pairs)
            write(made | {own[3]: known})
            count, unknown = count + len(rows), unknown + int((~known).sum())
            update(f"{count:,}")
        if not count:
            raise FileError(f"{source.label} has no pairs to predict at")
    text = f"{counted(count, 'prediction')} in {output.table}"
    text += f", {unknown:,} of rows or columns never observed" if unknown else ""
    return Outcome({"predictions": count, "unknown": unknown, "out": str(output.table)}, text)


class RecommendOptions(NamedTuple):
    """Length of the lists, their order (``"affinity"`` or ``"rating"``), and whether observed columns are included."""

    n: int = 10
    order: str | None = None
    include_seen: bool = False


def recommend(_source: Any, estimator: Estimator, _output: Output, row: str, options: RecommendOptions) -> Outcome:
    """Recommend columns for one row."""
    from ..io.ratings import as_type_of

    ratings = isinstance(estimator, RatingsEstimator)
    known = estimator.ids[0]
    asked = as_known(estimator.model, "rows", np.array([row])) if ratings else as_type_of(np.array([row]), known)
    if asked[0] not in known:
        what = "row" if ratings else "user"
        raise ValueError(f"{row!r} is no {what} of the model{near_ids(row, known) or ': lorank inspect shows some ids'}")
    cols, scores = estimator.recommend(asked, options.n, options.include_seen, options.order)
    best = [(c, s) for c, s in zip(cols, scores, strict=True) if not np.isnan(s)]
    order = options.order or "affinity"
    summary: dict[str, Any] = {"row": row} | ({"by": order} if ratings else {})
    summary["recommendations"] = [{"col": c, estimator.score: s} for c, s in best]
    if not best:
        return Outcome(summary, f"no columns left to recommend to {row}: --include-seen includes those observed already")
    lines = [
        format_table(["", estimator.labels[1], estimator.score], [[k + 1, c, f"{s:.3f}"] for k, (c, s) in enumerate(best)])
    ]
    return Outcome(summary, "\n".join([*lines, *([f"({ORDERED[order]})"] if ratings else [])]))


def recommend_all(
    _source: Any, estimator: Estimator, output: Output, folder: Path | None, options: RecommendOptions
) -> Outcome:
    """Recommend columns for all rows, in blocks, and write a table.

    ``folder`` holds partitions with the observations, for models that do not hold theirs.
    """
    from ..distributed.folder import open_folder
    from ..estimators.frames import unique_names

    assert output.table is not None
    observed = None if folder is None else open_folder(folder)
    row_ids, col_ids = estimator.ids
    if observed is not None:
        check_same_ids(observed, (row_ids, col_ids))
    row, col = estimator.labels
    place, score = unique_names((row, col), ("place", estimator.score))
    n, order, include_seen = options
    blocks = estimator.blocks(observed, include_seen)
    with progress("recommending") as update, table_writer(output.table) as write:
        for first, last, pattern in blocks:
            cols, scores = estimator.recommend_block(first, last, n, pattern, include_seen, order)
            there = ~np.isnan(scores)
            places = np.broadcast_to(np.arange(1, n + 1), scores.shape)[there]
            write({row: np.repeat(row_ids[first:last], there.sum(1)), place: places, col: cols[there], score: scores[there]})
            update(f"{last:,} rows of {len(row_ids):,}")
    count = len(row_ids)
    return Outcome({"rows": count, "out": str(output.table)}, f"recommendations for {counted(count, 'row')} in {output.table}")


def evaluate(source: File, estimator: Estimator, output: Output, positive: float | None, holdout: float, n: int) -> Outcome:
    """Fit to a part of the data, recommend, and compare with the held-out part and with baselines."""
    from ..report.ranking_page import write_ranking_page
    from .evaluate import rank_implicit, rank_ratings

    if n < 1:
        raise UsageError(f"-n must be 1 or more, got {n}")
    if not 0 < holdout < 1:
        raise UsageError(f"--holdout must lie between 0 and 1, got {holdout:g}")
    seed = estimator.options.seed
    if isinstance(estimator, ImplicitEstimator):
        if positive is not None:
            raise UsageError("--positive is for ratings: leave it out with --implicit")
        found = rank_implicit(source, holdout, n, seed)
    else:
        found = rank_ratings(source, positive, holdout, n, seed)
    summary = {"file": source.label, "n": n, "positive": found.positive, "held_out": found.held_out, "seconds": found.seconds}
    summary["models"] = {name: asdict(one) | {"rmse": found.errors.get(name)} for name, one in found.scores.items()}
    values, rows = counted(found.held_out, "held-out value"), counted(found.users, "row")
    lines = [f"{values} of {found.positive:g} or more, of {rows}; lists of {n}", format_table(found.head, found.lines)]
    if output.page is not None:
        write_ranking_page(output.page, found, title=f"{Path(source.label).name}: recommendations")
        summary["report"] = str(output.page)
        lines.append(f"report: {output.page}")
    return Outcome(summary, "\n".join(lines))
