"""``lorank evaluate``: ranking metrics of a model and of baselines on held-out items."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from ..common.checks import counted
from ..report.ranking_page import LENGTHS, OTHER_ORDER, Ranking
from .errors import UsageError, print_note
from .models import ImplicitFeedback, Ratings
from .output import print_columns, progress
from .sources import File


def rank_ratings(source: File, estimator: Ratings, positive: float | None, holdout: float, n: int) -> Ranking:
    """Evaluate MatrixCompletion on held-out ratings.

    Parameters
    ----------
    source : File
        With a column of times, the latest ratings of each row are held out; else random ones.
    estimator : Ratings
        Its options determine the model and the random seed of the split.
    positive : float, optional
        Ratings from this value on are relevant; the median by default.
    holdout : float
        Share of each row's ratings that is held out.
    n : int
        Length of the lists.
    """
    from ..evaluation import leave_last_out, leave_some_out

    seed, data = estimator.options.seed, source.read()
    print_columns(source.label, data.columns)
    repeated = len(data.rows) - len(np.unique(data.rows * len(data.col_ids) + data.cols))
    if repeated:
        lines = counted(repeated, "line repeats", "lines repeat")
        print_note(
            f"note: {lines} a pair of row and column, so that held-out values are also known: keep one line of each pair"
        )
    if data.times is None:
        out = leave_some_out(data.rows, holdout, seed=seed)
    else:
        out = leave_last_out(data.rows, data.times, holdout, seed=seed)
    model = estimator.unfitted().set_params(intervals=False)
    return _rank_models(data, out, model, positive, n, estimator)


def rank_refitted(data: Any, model: Any, seed: int) -> Ranking | None:
    """Evaluation for the report of a fitted model: its rank and regularization, fitted to 80 % of each row's ratings.

    None if no row has two ratings, or all held-out ratings are below the median.
    """
    from sklearn.base import clone

    from ..evaluation import leave_some_out

    out = leave_some_out(data.rows, 0.2, seed=seed)
    if not (out & (data.values >= np.median(data.values))).any():
        return None
    again = clone(model).set_params(rank=model.rank_, regularization=model.regularization_, intervals=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fit of the model gave them already
        return _rank_models(data, out, again, None, 10)


def _rank_models(
    data: Any, out: np.ndarray, model: Any, positive: float | None, n: int, estimator: Ratings | None = None
) -> Ranking:
    from ..evaluation import ItemMean, Popularity

    shape = len(data.row_ids), len(data.col_ids)
    threshold = float(np.median(data.values)) if positive is None else float(positive)
    wanted = out & (data.values >= threshold)
    if not out.any():
        raise ValueError("no row has two values: none can be held out")
    if not wanted.any():
        raise UsageError(
            f"none of the {int(out.sum()):,} held-out values is {threshold:g} or more: lower --positive, or raise --holdout"
        )
    begin, kept = time.perf_counter(), ~out
    rows, cols, values = data.rows[kept], data.cols[kept], data.values[kept]
    features = {} if estimator is None else _features_by_index(estimator, data)
    with progress("fitting without the held-out values"):
        if features and estimator is not None:
            train = replace(data, rows=rows, cols=cols, values=values)
            estimator.fit_frame(model.set_params(ranking=True), train, np.arange(shape[0]), np.arange(shape[1]), features)
        else:
            model.set_params(shape=shape, ranking=True).fit(np.column_stack([rows, cols]), values)
    if model.status_ == "interrupted":
        raise KeyboardInterrupt
    means = ItemMean(rows, cols, values, shape[1])
    models = {
        "MatrixCompletion": model,
        OTHER_ORDER: _ByRating(model),
        "popularity": Popularity(rows, cols, shape[1]),
        "item means": means,
    }
    truth, i, j = data.values[out], data.rows[out], data.cols[out]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # columns whose only value is held out
        predicted = model.predict(np.column_stack([i, j]))
    guesses = {"MatrixCompletion": predicted, "item means": means.predict(j)}
    errors = {name: float(np.sqrt(np.mean((guess - truth) ** 2))) for name, guess in guesses.items()}
    return _compare(models, (data.rows[wanted], data.cols[wanted]), cols, shape, n, threshold, errors, begin)


def _features_by_index(estimator: Ratings, data: Any) -> dict[str, Any]:
    """Features of the rows and columns of the data, with indices for ids."""
    from ..io.delimited_text import polars
    from ..io.ratings import positions_of

    found = {}
    for name, frame in estimator.read_features(data).items():
        label, ids = (data.columns.row, data.row_ids) if name == "row_features" else (data.columns.col, data.col_ids)
        at = polars().Series(label, positions_of(frame.get_column(label).to_numpy(), ids))
        found[name] = frame.with_columns(at).filter(at < len(ids))
    return found


class _ByRating:
    """The same model, ordered by predicted rating."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def recommend(self, rows: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
        found: tuple[np.ndarray, np.ndarray] = self.model.recommend(rows, n, by="rating")
        return found


def rank_implicit(source: File, estimator: ImplicitFeedback, holdout: float, n: int) -> Ranking:
    """Evaluate ImplicitFactorization on held-out items; parameters as for :func:`rank_ratings`."""
    import scipy.sparse

    from ..evaluation import Popularity, leave_last_out, leave_some_out

    seed = estimator.options.seed
    users, items, counts, times, shape = read_interactions(source)
    out = leave_some_out(users, holdout, seed=seed) if times is None else leave_last_out(users, times, holdout, seed=seed)
    if not out.any():
        raise ValueError("no user has two items, so that none can be held out: raise --holdout, or use more data")
    begin, kept = time.perf_counter(), ~out
    with progress("fitting without the held-out items"):
        seen = scipy.sparse.csr_array((counts[kept], (users[kept], items[kept])), shape=shape)
        model = estimator.unfitted().fit(seen)
    models = {"ImplicitFactorization": model, "popularity": Popularity(users[kept], items[kept], shape[1])}
    return _compare(models, (users[out], items[out]), items[kept], shape, n, float(counts[out].min()), {}, begin)


def _compare(
    models: dict[str, Any],
    held_out: tuple[np.ndarray, np.ndarray],
    items: np.ndarray,
    shape: tuple[int, int],
    n: int,
    positive: float,
    errors: dict[str, float],
    begin: float,
) -> Ranking:
    from ..evaluation import HeldOutItems, compare

    held, lengths = HeldOutItems.from_pairs(*held_out, shape[0]), [k for k in LENGTHS if k <= shape[1]]
    with progress("recommending"):
        scores = compare(models, held, np.bincount(items, minlength=shape[1]), shape[0], [n, *lengths])
    first = {name: one[0] for name, one in scores.items()}
    others = {name: one[1:] for name, one in scores.items()}
    return Ranking(n, positive, len(held_out[0]), first, others, errors, time.perf_counter() - begin)


def read_interactions(
    source: File,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, tuple[int, int]]:
    """Users, items, counts and times of distinct pairs, as indices from 0; and the numbers of users and items."""
    from ..estimators.inputs import merge_pairs

    data = source.read(with_values=source.names[2] is not None)
    print_columns(source.label, data.columns)
    users, items, times, shape = data.rows, data.cols, data.times, (len(data.row_ids), len(data.col_ids))
    counts = np.ones(len(users)) if source.names[2] is None else data.values
    if times is not None and times.dtype.kind == "M":
        times = times.astype(np.int64)  # microseconds, exact in float64 until the year 2255
    if (counts < 0).any():
        raise ValueError(f"the least count is {counts.min():g}: counts must be 0 or more")
    found = merge_pairs(users, items, counts, np.arange(shape[0]), np.arange(shape[1]))
    if not len(found.users):
        raise ValueError("there are no pairs with a positive count")
    if times is None:
        return found.users, found.items, found.counts, None, shape
    there = counts > 0
    last = np.full(len(found.users), -np.inf)  # a repeated pair has its latest time
    place = np.searchsorted(found.users * shape[1] + found.items, users[there] * shape[1] + items[there])
    np.maximum.at(last, place, times[there])
    return found.users, found.items, found.counts, last, shape
