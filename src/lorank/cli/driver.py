"""What the commands do with a source of data and an estimator.

Each function returns an :class:`Outcome`: numbers for JSON, text for the terminal, and the exit code.
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
from ..report.comparison import format_table
from .errors import INTERRUPTED, Outcome, UsageError, print_error
from .evaluate import rank_implicit, rank_ratings, rank_refitted
from .model_files import near_ids
from .models import Estimator, Fit, ImplicitFeedback, Ratings
from .output import print_columns, progress, table_writer
from .sources import File, Partitions, Source, check_same_ids, counted_passes, row_blocks, row_ranges

ORDERED = {
    "affinity": "ordered by the factors of the ranking model; --order-by rating orders by predicted rating",
    "similarity": "ordered by an item-to-item model; --order-by rating orders by predicted rating",
    "popularity": "ordered by popularity; --order-by rating orders by predicted rating",
    "rating": "ordered by predicted rating; --order-by affinity orders by the factors of the ranking model",
}
MAX_PRINTED = 50  # predictions: more go to a file
MAX_DIAGNOSED_RANK = 10  # without --rank
SUFFICIENT = 2.0  # observations per degree of freedom, without which a model depends on regularization


@one_blas_thread
def complete(source: Source, estimator: Estimator, out: Path | None, report: Path | None, ranking: bool = True) -> Outcome:
    """Fit a model, with its ranking model; write it and a report about it."""
    estimator.check(source, report)
    begin = time.perf_counter()
    fit = estimator.fit(source)
    summary = fit.summary | {"file": source.label, "seconds": time.perf_counter() - begin}
    if isinstance(source, Partitions) and source.options.folder is not None:
        summary["folder"] = str(source.options.folder)
    early = estimator.model.status_ == "interrupted"
    stopped = early
    if out is not None:
        if fit.data is not None and ranking:
            stopped = stopped or not _finished(estimator.prepare_ranking)  # recommend can do that later
        estimator.model.save(out)
        summary["model"] = str(out)
    if report is not None and not stopped:
        stopped = not _finished(_write_report, report, estimator, fit, Path(source.label).name)
        summary |= {} if stopped else {"report": str(report)}
    written = [f"{key}: {summary[key]}" for key in ("model", "report") if key in summary]
    unsaved = [] if out is not None else ["the model was not saved: use -o model.lorank"]
    if stopped:
        place = "was not saved" if out is None else f"is in {out}"
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

    data = fit.data
    ranking = rank_refitted(data, estimator.model, estimator.options.seed)
    section = None if ranking is None else ranking_section(ranking)
    with progress("writing the report"):
        write_model_page(path, estimator.model, data.rows, data.cols, data.values, title=title, more=section)


@one_blas_thread
def diagnose(source: Source, rank: int | None) -> Outcome:
    """Check whether ratings suffice for a model of a rank; by default of the largest rank that they suffice for."""
    import scipy.sparse

    from ..evaluation.diagnosis import diagnose as diagnose_pattern

    if rank is not None and rank < 1:
        raise UsageError(f"--rank must be a whole number, 1 or more, got {rank}")
    if isinstance(source, Partitions):
        problem, _ = source.open()
        with counted_passes(problem, "counting observations"):
            found = diagnose_pattern(problem, _sufficient_rank(problem.m, problem.shape) if rank is None else rank)
    else:
        data = source.read()
        print_columns(source.label, data.columns)
        shape = len(data.row_ids), len(data.col_ids)
        observed = scipy.sparse.coo_array((data.values, (data.rows, data.cols)), shape)
        found = diagnose_pattern(observed, _sufficient_rank(len(data.values), shape) if rank is None else rank)
    return Outcome(found.to_dict(), str(found))


def _sufficient_rank(m: int, shape: tuple[int, int]) -> int:
    """The largest rank, at most 10, that m observations suffice for."""
    ranks = range(1, min(MAX_DIAGNOSED_RANK, *shape) + 1)
    return max((r for r in ranks if m >= SUFFICIENT * r * (sum(shape) - r)), default=1)


@one_blas_thread
def predict(source: File, estimator: Estimator, out: Path | None, interval: float | None) -> Outcome:
    """Predict at pairs of row and column, in blocks; write a table, or print a few predictions."""
    from ..estimators.frames import unique_names
    from ..io.delimited_text import polars
    from ..io.ratings import as_type_of, positions_of

    if interval is not None and not 0 < interval < 1:
        raise UsageError(f"--interval must lie between 0 and 1 (0.9 is 90 %), got {interval:g}")
    if not isinstance(estimator, Ratings):
        raise FileError("this is a model of implicit feedback, not of ratings: use lorank recommend or lorank serve")
    model, known_ids, count, unknown, found = estimator.model, estimator.ids, 0, 0, 0
    columns, batches = source.pairs(model.state_.labels or {})
    row, col = columns.row, columns.col
    if all(len(ids) > positions_of(np.array([name]), ids)[0] for name, ids in zip((row, col), known_ids, strict=True)):
        raise FileError(f"{source.label}: the first line, '{row},{col}', is a pair: add a line of names, such as user,item")
    print_columns(source.label, columns)
    own = unique_names((row, col), ("prediction", "low", "high", "known"))
    printed: list[dict[str, Any]] = []
    with table_writer(out) as write, progress("predicting") as update:
        for pair in batches:
            places = [positions_of(ids, known) for ids, known in zip(pair, known_ids, strict=True)]
            found += int(np.logical_and(*(at < len(known) for at, known in zip(places, known_ids, strict=True))).sum())
            typed = places if model.ids_ is None else [as_type_of(*both) for both in zip(pair, known_ids, strict=True)]
            pairs = polars().DataFrame({"row": typed[0], "col": typed[1]})
            made = {row: pair[0], col: pair[1], own[0]: model.predict(pairs)}
            if interval is not None:
                made[own[1]], made[own[2]] = model.predict_interval(pairs, interval)
            known = model.known(pairs)
            made[own[3]] = known
            count, unknown = count + len(known), unknown + int((~known).sum())
            if out is None and count > MAX_PRINTED:
                raise UsageError(f"-o is needed for more than {MAX_PRINTED} predictions, as in -o predictions.csv")
            printed += [] if out is not None else polars().DataFrame(made).to_dicts()
            write(made)
            update(f"{count:,}")
        if not count:
            raise FileError(f"{source.label} has no pairs to predict at")
        if not found:
            raise FileError(
                f"{source.label}: the model knows the row and the column of none of {counted(count, 'pair')}: are {row!r} and "
                f"{col!r} the columns of ids? Choose others with --row and --col; lorank inspect shows some ids"
            )
    unobserved = f", {unknown:,} of rows or columns never observed" if unknown else ""
    if out is None:
        lines = [[f"{cell:.4g}" if isinstance(cell, float) else cell for cell in one.values()] for one in printed]
        summary = {"predictions": printed, "unknown": unknown}
        return Outcome(summary, format_table(list(printed[0]), lines))
    text = f"{counted(count, 'prediction')} in {out}{unobserved}"
    return Outcome({"predictions": count, "unknown": unknown, "out": str(out)}, text)


class RecommendOptions(NamedTuple):
    """Length of the lists, their order (by default the selected one), and whether observed columns are included."""

    n: int = 10
    order: str | None = None
    include_seen: bool = False


@one_blas_thread
def recommend(estimator: Estimator, row: str, options: RecommendOptions) -> Outcome:
    """Recommend columns for one row."""
    from ..io.ratings import positions_of

    known = estimator.ids[0]
    at = positions_of(np.array([row]), known)
    if at[0] == len(known):
        hint = near_ids(row, known) or ": lorank inspect shows some ids"
        raise ValueError(f"{estimator.thing} {row!r} is not in the model{hint}")
    if options.order != "rating":
        estimator.prepare_ranking()
    order = options.order or estimator.model.order_
    cols, scores = estimator.recommend(at, options.n, order, options.include_seen)
    best = [(c, s) for c, s in zip(cols[0], scores[0], strict=True) if not np.isnan(s)]
    ratings = isinstance(estimator, Ratings)
    summary: dict[str, Any] = {"row": row} | ({"by": order} if ratings else {})
    summary["recommendations"] = [{"col": c, estimator.score: s} for c, s in best]
    if not best:
        return Outcome(summary, f"no columns left to recommend to {row}: --include-seen includes those observed already")
    lines = [[k + 1, c, f"{s:.3f}"] for k, (c, s) in enumerate(best)]
    table = format_table(["", estimator.labels[1], estimator.score], lines)
    return Outcome(summary, "\n".join([table, *([f"({ORDERED[order]})"] if ratings else [])]))


@one_blas_thread
def recommend_all(estimator: Estimator, out: Path, folder: Path | None, options: RecommendOptions) -> Outcome:
    """Recommend columns for all rows, in blocks, and write a table.

    ``folder`` holds partitions with the observations, for models that do not hold theirs.
    """
    from ..distributed.folder import open_folder
    from ..estimators.frames import unique_names

    row_ids, col_ids = estimator.ids
    blocks = ((first, last, None) for first, last in row_ranges(len(row_ids)))  # type: Any
    if folder is not None:
        observed = open_folder(folder)
        check_same_ids(observed, (row_ids, col_ids))
        blocks = row_blocks(observed)
    row, col = estimator.labels
    place, score = unique_names((row, col), ("place", estimator.score))
    with progress("recommending") as update, table_writer(out) as write:
        for first, last, seen in blocks:
            cols, scores = estimator.recommend(np.arange(first, last), *options, seen)
            there = ~np.isnan(scores)
            places = np.broadcast_to(np.arange(1, options.n + 1), scores.shape)[there]
            write({row: np.repeat(row_ids[first:last], there.sum(1)), place: places, col: cols[there], score: scores[there]})
            update(f"{last:,} rows of {len(row_ids):,}")
    count = len(row_ids)
    return Outcome({"rows": count, "out": str(out)}, f"recommendations for {counted(count, 'row')} in {out}")


@one_blas_thread
def evaluate(
    source: File, estimator: Estimator, report: Path | None, positive: float | None, holdout: float, n: int
) -> Outcome:
    """Fit to a part of the data, recommend, and compare with the held-out part and with baselines."""
    from ..report.ranking_page import write_ranking_page

    if n < 1:
        raise UsageError(f"-n must be 1 or more, got {n}")
    if not 0 < holdout < 1:
        raise UsageError(f"--holdout must lie between 0 and 1, got {holdout:g}")
    estimator.check(source)
    if isinstance(estimator, ImplicitFeedback):
        if positive is not None:
            raise UsageError("--positive is for ratings: leave it out with --implicit")
        found = rank_implicit(source, estimator, holdout, n)
    else:
        found = rank_ratings(source, estimator, positive, holdout, n)
    summary = {"file": source.label, "n": n, "positive": found.positive, "held_out": found.held_out, "seconds": found.seconds}
    summary["models"] = {name: asdict(one) | {"rmse": found.errors.get(name)} for name, one in found.scores.items()}
    values, rows = counted(found.held_out, "held-out value"), counted(found.users, "row")
    lines = [f"{values} of {found.positive:g} or more, of {rows}; lists of {n}", format_table(found.head, found.lines)]
    if report is not None:
        write_ranking_page(report, found, title=f"{Path(source.label).name}: recommendations")
        summary["report"] = str(report)
        lines.append(f"report: {report}")
    return Outcome(summary, "\n".join(lines))
