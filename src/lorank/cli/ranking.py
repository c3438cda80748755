"""Models and baselines fitted to a part of the ratings, and their recommendations against the rest."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from ..report.ranking_page import LENGTHS, OTHER_ORDER, Ranking
from .output import Misuse, busy


def rank_models(data: Any, out: np.ndarray, model: Any, positive: float | None = None, n: int = 10) -> Ranking:
    """Fit to what is not held out, recommend, and compare with what is.

    Parameters
    ----------
    data : Ratings
    out : (m,) bool array
        What is held out.
    model : MatrixCompletion
        Not fitted; its shape is set here.
    positive : float, optional
        Values from here on count as liked; by default the median of all.
    n : int
        Places that count.
    """
    from ..evaluation import HeldOutItems, compare

    shape = len(data.row_ids), len(data.col_ids)
    liked = float(np.median(data.values)) if positive is None else float(positive)
    wanted = out & (data.values >= liked)
    if not out.any():
        raise ValueError("no row has two values: none can be held out to compare with")
    if not wanted.any():
        raise Misuse(
            f"none of the {int(out.sum()):,} held-out values is {liked:g} or more: lower --positive, or raise --holdout"
        )
    held = HeldOutItems.from_pairs(data.rows[wanted], data.cols[wanted], shape[0])
    begin = time.perf_counter()
    with busy("fitting to a part"):
        models, errors = fitted_models(data, ~out, shape, model)
    if model.status_ == "interrupted":
        raise KeyboardInterrupt
    counts = np.bincount(data.cols[~out], minlength=shape[1])
    lengths = [k for k in LENGTHS if k <= shape[1]]
    with busy("recommending"):
        scores = compare(models, held, counts, shape[0], [n, *lengths])
    return Ranking(
        n,
        liked,
        int(wanted.sum()),
        {name: one[0] for name, one in scores.items()},
        {name: one[1:] for name, one in scores.items()},
        errors,
        time.perf_counter() - begin,
    )


def ranked_again(data: Any, model: Any, seed: int) -> Ranking | None:
    """For the report of a fitted model: one with the same rank and strength, fitted to four fifths of each row's values.

    None where there is nothing to compare with: no row has two values, or all that were held out are below the median.
    """
    from sklearn.base import clone

    from ..evaluation import leave_some_out

    out = leave_some_out(data.rows, 0.2, seed=seed)
    if not (out & (data.values >= np.median(data.values))).any():
        return None
    again = clone(model).set_params(rank=model.rank_, regularization=model.regularization_, intervals=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said already of the model itself
        return rank_models(data, out, again)


class ByRating:
    """The same model, the largest predictions first."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def recommend(self, rows: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
        found: tuple[np.ndarray, np.ndarray] = self.model.recommend(rows, n, by="rating")
        return found


def fitted_models(data: Any, kept: np.ndarray, shape: tuple[int, int], model: Any) -> tuple[dict[str, Any], dict[str, float]]:
    """Models fitted to the values that were kept, by name, and their errors on the others."""
    from ..evaluation import ItemMean, Popularity

    rows, cols, values = data.rows[kept], data.cols[kept], data.values[kept]
    model.set_params(shape=shape).fit(np.column_stack([rows, cols]), values)
    means = ItemMean(rows, cols, values, shape[1])
    models = {
        "MatrixCompletion": model,
        OTHER_ORDER: ByRating(model),
        "popularity": Popularity(rows, cols, shape[1]),
        "item means": means,
    }
    truth, i, j = data.values[~kept], data.rows[~kept], data.cols[~kept]
    guesses = {"MatrixCompletion": model._expected(model.model_.predict(i, j)), "item means": means.predict(j)}
    return models, {name: float(np.sqrt(np.mean((guess - truth) ** 2))) for name, guess in guesses.items()}
