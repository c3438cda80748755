"""The order in which MatrixCompletion recommends columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import get_backend
from ..backends.top_k import rows_of, top_columns
from ..common.checks import ParameterError, check, one_of, whole
from ..factorization.ranking_model import RankingModel, fit_ranking_model, update_ranking_model
from .cold_start import foretold, never_taken
from .entries import find_known, find_side
from .neighbours import Explanation, explanation, nearest

if TYPE_CHECKING:
    from .matrix_completion import MatrixCompletion

ORDERS = ("taste", "rating")


def recommend(model: MatrixCompletion, rows: Any, n: int, exclude_seen: bool, by: str) -> tuple[np.ndarray, np.ndarray]:
    """The first n columns of each row, and what is predicted there; see :meth:`MatrixCompletion.recommend`.

    Here and below, rows and columns are places, and ids are the estimator's business.
    """
    check("by", by, one_of(ORDERS))
    rows = find_side(rows, None, "rows")
    check("n", n, whole(1))
    if n * len(rows) > 10**9:
        raise ParameterError("n", f"must not be larger than there are columns, {model.model_.shape[1]}: got {n}")
    fitted = model.model_
    rows = np.where(rows < fitted.shape[0], rows, fitted.shape[0]).astype(np.int64)  # others were never observed
    seen = rows_of(*seen_by(model), rows) if exclude_seen else None
    never = never_taken(model)
    if by == "rating":
        left, right = fitted._sides()
        backend = get_backend()
        cols, _ = top_columns(backend, left[np.minimum(rows, len(left) - 1)], right[:-1], int(n), seen=seen, never=never)
    else:
        cols = _by_taste(tasted(model), rows, int(n), seen, never)
    there = cols >= 0
    scores = np.full(cols.shape, np.nan)
    i = np.broadcast_to(rows[:, None], cols.shape)[there]
    scores[there] = model._expected(fitted.predict(i, cols[there]))
    return cols, scores


def similar(model: MatrixCompletion, wanted: Any, n: int, columns: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows or columns whose factors of taste point in the same direction; see :meth:`MatrixCompletion.similar_items`."""
    side, size = ("cols" if columns else "rows"), model.model_.shape[columns]
    at = find_known(wanted, None, side, size)
    check("n", n, whole(1))
    taste, fitted = tasted(model), model.model_
    factors, counts = (taste.cols, fitted.col_counts) if columns else (taste.rows, fitted.row_counts)
    return nearest(get_backend(), factors, at, min(int(n), size), counts == 0)


def explain(model: MatrixCompletion, row: Any, col: Any) -> Explanation:
    """What the row rated that speaks for a column; see :meth:`MatrixCompletion.explain`."""
    places = []
    for one, side, size in zip((row, col), ("rows", "cols"), model.model_.shape, strict=True):
        at = find_known(one, None, side, size)
        if len(at) != 1:
            raise ValueError(f"explain takes one row and one column, got {len(at)} {side}")
        places.append(int(at[0]))
    (indptr, indices), taste = seen_by(model), tasted(model)
    if math.isnan(taste.zeros):
        raise ValueError("this model is of an earlier version, whose files do not say how taste was fitted: fit it again")
    begin, end = indptr[places[0] : places[0] + 2]
    cols = indices[begin:end]
    _, M, weights = taste.solve_row(cols, model._liked[begin:end])
    return explanation(taste.cols, cols, weights, M, places[1])


def seen_by(model: MatrixCompletion) -> tuple[np.ndarray, np.ndarray]:
    """The pattern of the observations; a ValueError where a model does not remember it."""
    if model._seen is None:
        raise ValueError(
            "the model was fitted to partitions and does not hold what its rows have seen: recommend with by='rating' and "
            "exclude_seen=False, or for all rows of the partitions with `lorank recommend --all`"
        )
    return model._seen


def tasted(model: MatrixCompletion) -> RankingModel:
    """The model of what people take, fitted when it is first asked for; after partial_fit, brought up to date."""
    found: RankingModel | None = getattr(model, "_taste", None)
    device = None if model.device is None else str(model.device)
    if found is None:
        seed = model.random_state if isinstance(model.random_state, (int, np.integer)) else 0
        found = fit_ranking_model(seen_by(model), model._liked, model.model_.shape, int(seed), device)
    elif model._taste_is_old:
        found = update_ranking_model(found, seen_by(model), model._liked, device)
    if found is not model._taste:
        found = foretold(model, found)
    assert found is not None
    model._taste, model._taste_is_old = found, False
    return found


def _by_taste(
    taste: RankingModel, rows: np.ndarray, n: int, seen: tuple[np.ndarray, np.ndarray] | None, never: np.ndarray
) -> np.ndarray:
    """By the products of factors; where a row has none, by popularity."""
    backend = get_backend()
    inside = rows < len(taste.rows)
    left = np.where(inside[:, None], taste.rows[np.where(inside, rows, 0)], 0)
    cols, _ = top_columns(backend, left, taste.cols, n, seen=seen, never=never)
    strangers = np.flatnonzero(~left.any(1))
    if len(strangers):
        rank = np.empty(len(taste.popularity))
        rank[np.argsort(-taste.popularity, kind="stable")] = np.arange(len(rank), 0, -1)
        some = None if seen is None else rows_of(*seen, strangers)
        cols[strangers], _ = top_columns(backend, np.ones((len(strangers), 1)), rank[:, None], n, seen=some, never=never)
    return cols
