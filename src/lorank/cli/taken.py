"""``lorank complete --implicit`` and ``recommend`` of such a model: who took what, in files of any size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from ..distributed.folder import Folder, open_folder
from .driver import ENDS_EARLY, Request, say_end
from .model_files import near_ids
from .output import ENDINGS, Misuse, all_files, busy, named, number_or, say_columns, show_json, table, whole_or
from .sources import (
    ROWS,
    Progress,
    Where,
    check_ids,
    for_files_only,
    on_a_cluster,
    partitions_among,
    patterns_of,
    refuse_other_kinds,
)

RANK = 64  # where none is given


def complete(request: Request, where: Where) -> int:
    """Fit an ImplicitFactorization to pairs in partitions, made where they are not there yet; returns the exit code."""
    from ..common.version import __version__
    from ..estimators import ImplicitFactorization

    request.options()  # checks
    without(
        loss=request.loss,
        exposure=request.exposure,
        report=request.report,
        device=request.device,
        nonnegative=request.nonnegative,
        row_features=request.features[0],
        col_features=request.features[1],
    )
    factors = whole_or(request.rank, ("auto",), "rank")
    strength = number_or(request.regularization, ("auto",), "regularization")
    model = ImplicitFactorization(factors if isinstance(factors, int) else RANK, strength, random_state=request.seed)
    begin = time.perf_counter()
    pairs, more, where_it_was = _fit_in_partitions(model, request, where)
    shape = len(model.user_ids_), len(model.item_ids_)
    summary: dict[str, Any] = {
        "lorank": __version__,
        "class": "ImplicitFactorization",
        "shape": list(shape),
        "pairs": pairs,
        "rank": model.rank,
        "regularization": model.regularization_,
        "zeros": model.zeros_,
        "sweeps": model.n_iter_,
        "curve": [vars(c) for c in model.curve_],
    }
    summary |= more | {"file": named(request.files), "seconds": time.perf_counter() - begin}
    if where.folder is not None:
        summary["folder"] = str(where.folder)
    if request.out is not None:
        model.save(request.out)
        summary["model"] = str(request.out)
    if request.as_json:
        show_json(summary)
        return say_end(model, summary, request)
    print(f"{counted(pairs, 'pair')} of {counted(shape[0], 'user')} and {counted(shape[1], 'item')}")
    print(
        f"rank {model.rank}, regularization {model.regularization_:.3g}, zeros count {model.zeros_:.3g}, "
        f"{counted(model.n_iter_, 'sweep')}"
    )
    if model.curve_:
        best = max(c.ndcg for c in model.curve_)
        print(f"NDCG of lists of 20 on held-out pairs: {best:.4f}, the best of {counted(len(model.curve_), 'setting')}")
    print(where_it_was)
    return say_end(model, summary, request)


def _fit_in_partitions(model: Any, request: Request, where: Where) -> tuple[int, dict[str, Any], str]:
    """How many pairs there were, what is said of their partitions to programs, and to people."""
    with on_a_cluster(), busy("opening partitions") as say:
        problem = _open(request.files, request.columns, where, say)
    with on_a_cluster(), busy(f"fitting ({ENDS_EARLY})") as say:
        progress = Progress(problem, say)
        model.fit(problem)
        progress.end()
    more = progress.summary()
    return problem.m, more, f"{counted(more['partitions'], 'partition')}, {progress.text()}"


def _open(paths: list[str], names: tuple[str | None, str | None, str | None], where: Where, say: Any) -> Any:
    """The counts of pairs in partitions: a column of them, or each line counts once."""
    from ..distributed import from_csv, from_parquet, from_partitions
    from ..distributed.sources import find_files, schema_of
    from ..io.ratings import guess_columns

    options: dict[str, Any] = {"cluster": where.cluster, "memory": where.memory}
    made = partitions_among(paths, where)
    if made is not None:
        for_files_only(made, names, where)
        return from_partitions(made, **options)
    files = find_files([str(file) for file in all_files(paths)], ENDINGS)
    refuse_other_kinds(files)
    row, col, value = names
    found = guess_columns(files[0], list(schema_of(files[0])), row, col, None, with_values=False)
    say_columns(named(paths), replace(found, value=value))
    read = from_parquet if files[0].suffix.lower() == ".parquet" else from_csv
    duplicates = "sum" if where.duplicates == "error" else where.duplicates
    return read(
        [str(f) for f in files],
        found.row,
        found.col,
        value,
        folder=where.folder,
        duplicates=duplicates,
        watch=lambda what, count: say(f"{what}: {count:,}"),
        **options,
    )


def recommend(fitted: Any, row: str, n: int, seen: bool, as_json: bool) -> None:
    """The best items of a user."""
    from ..io.ratings import alike

    asked = alike(np.array([row]), fitted.user_ids_)
    if asked[0] not in fitted.user_ids_:
        hint = near_ids(row, fitted.user_ids_) or ": lorank inspect shows some that are"
        raise ValueError(f"{row!r} is no user of the model{hint}")
    items, scores = fitted.recommend(asked, n, exclude_seen=not seen)
    there = ~np.isnan(scores[0])
    best = list(zip(items[0][there], scores[0][there], strict=True))
    if as_json:
        show_json({"row": row, "recommendations": [{"col": item, "score": score} for item, score in best]})
    else:
        table(["", "item", "score"], [[k + 1, item, f"{score:.3f}"] for k, (item, score) in enumerate(best)])


def recommend_all(fitted: Any, out: Path, n: int, seen: bool, ratings: Path | None) -> int:
    """The best items of every user, some users at a time: how many users there were."""
    from .tables_out import BlockWriter

    count, folder = len(fitted.user_ids_), None if ratings is None else open_folder(ratings)
    if folder is not None:
        check_ids(folder, (fitted.user_ids_, fitted.item_ids_))
    if folder is None and not seen:
        fitted._remembered()  # refuses before a file is begun
    with BlockWriter(out) as writer, busy("recommending") as say:
        for first, last, pattern in _patterns(fitted, folder, seen):
            hide = fitted._totals[0][first:last] == 0
            items, scores = fitted._best(fitted.user_factors_[first:last], n, pattern, hide=hide)
            there = ~np.isnan(scores)
            place = np.broadcast_to(np.arange(1, n + 1), scores.shape)[there]
            users = np.repeat(fitted.user_ids_[first:last], there.sum(1))
            writer.add({"user": users, "place": place, "item": items[there], "score": scores[there]})
            say(f"{last:,} users of {count:,}")
    return count


def _patterns(fitted: Any, folder: Folder | None, seen: bool) -> Iterator[tuple[int, int, Any]]:
    """Ranges of users, and what they took, which is left out."""
    from ..backends.top_k import rows_of

    if folder is not None and not seen:
        yield from patterns_of(folder)
        return
    took = None if seen else fitted._remembered()
    for first in range(0, len(fitted.user_ids_), ROWS):
        last = min(first + ROWS, len(fitted.user_ids_))
        yield first, last, None if took is None else rows_of(took[0], took[1], np.arange(first, last))


def without(**options: Any) -> None:
    """Options that are for ratings, refused by name."""
    for name, given in options.items():
        if given not in (None, False, "squares"):
            option = f"--{name.replace('_', '-')}"
            raise Misuse(f"{option} is for ratings: leave it out with --implicit")


def by_taste(order: str | None) -> None:
    """Refuse an order that such models do not have."""
    if order == "rating":
        raise Misuse("--by rating is for models of ratings: this one knows what was taken, so leave it out")


def is_implicit(model: Any) -> bool:
    return type(model).__name__ == "ImplicitFactorization"
