"""Recommendations of a fitted MatrixCompletion: ranked lists, similar rows and columns, and explanations."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..backends import Backend, get_backend
from ..backends.top_k import rows_of, top_columns
from ..common.blas_threads import one_blas_thread
from ..common.checks import ParameterError, check, counted, one_of, whole
from ..factorization.ranking_model import RankingModel, fit_ranking_model, update_ranking_model
from .cold_start import predict_factors
from .frames import ids_at, make_frame, unique_names
from .inputs import find_known, find_side
from .ratings_state import RatingsState

ORDERS = ("affinity", "rating")
MAX_SCORES = 10**9  # rows times n


class Explanation(NamedTuple):
    """Explanation of an item's score: the user's items, largest contribution first, and their contributions to the score."""

    items: np.ndarray
    contributions: np.ndarray
    score: float


def fit_ranking(state: RatingsState, seed: int = 0, device: str | None = None) -> RatingsState:
    """The state with a ranking model fitted to its training data."""
    pattern, liked = state.training_pattern(), _liked(state)
    ranking = fit_ranking_model(pattern, liked, state.model.shape, seed, device)
    return replace(state, ranking=predict_factors(state, ranking))


def update_ranking(state: RatingsState, device: str | None = None) -> RatingsState:
    """The state with its ranking model, if there is one, updated to its training data."""
    if state.ranking is None:
        return state
    ranking = update_ranking_model(state.ranking, state.training_pattern(), _liked(state), device)
    return replace(state, ranking=predict_factors(state, ranking))


def recommend(
    state: RatingsState, rows: np.ndarray, n: int, *, exclude_seen: bool = True, by: str = "affinity"
) -> tuple[np.ndarray, np.ndarray]:
    """The n best columns of each row, and the predictions for them; see :meth:`MatrixCompletion.recommend`.

    Parameters
    ----------
    state : RatingsState
    rows : (k,) integer array
        Indices; those beyond the last row are rows without observations.
    n : int
    exclude_seen : bool
    by : {"affinity", "rating"}
    """
    check("by", by, one_of(ORDERS))
    check("n", n, whole(1))
    model = state.model
    if n * len(rows) > MAX_SCORES:
        raise ParameterError("n", f"must not be larger than there are columns, {model.shape[1]}: got {n}")
    rows = np.minimum(rows, model.shape[0]).astype(np.int64)
    ranking = require_ranking(state) if by == "affinity" else None
    seen = rows_of(*state.training_pattern(), rows) if exclude_seen else None
    if ranking is None:
        left, right = model.padded_factors()
        left, right = left[np.minimum(rows, len(left) - 1)], right[:-1]
        cols, _ = top_columns(get_backend(), left, right, int(n), seen=seen, never=state.unseen_columns)
    else:
        cols = _by_affinity(ranking, rows, int(n), seen, state.unseen_columns)
    there, predictions = cols >= 0, np.full(cols.shape, np.nan)
    i = np.broadcast_to(rows[:, None], cols.shape)[there]
    predictions[there] = state.expected(model.predict(i, cols[there]))
    return cols, predictions


def similar(state: RatingsState, wanted: np.ndarray, n: int, columns: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows or columns with the most similar factors of the ranking model; see :meth:`MatrixCompletion.similar_items`."""
    check("n", n, whole(1))
    ranking, model = require_ranking(state), state.model
    factors, counts = (ranking.cols, model.col_counts) if columns else (ranking.rows, model.row_counts)
    return nearest(get_backend(), factors, wanted, min(int(n), model.shape[columns]), counts == 0)


def explain(state: RatingsState, row: int, col: int) -> Explanation:
    """Contributions of a row's observations to the score of a column; see :meth:`MatrixCompletion.explain`."""
    indptr, indices = state.training_pattern()
    ranking, (begin, end) = require_ranking(state), indptr[row : row + 2]
    cols = indices[begin:end]
    _, M, weights = ranking.solve_row(cols, _liked(state)[begin:end])
    return explanation(ranking.cols, cols, weights, M, col)


def require_ranking(state: RatingsState) -> RankingModel:
    """The ranking model; a ValueError where there is none."""
    if state.ranking is None:
        raise ValueError(
            "there is no ranking model, which recommend(by='affinity'), similar_items, similar_users and explain need: fit "
            "with ranking=True, or call fit_ranking(); recommend(by='rating') orders by predicted values"
        )
    return state.ranking


def _liked(state: RatingsState) -> np.ndarray:
    return np.zeros(0, bool) if state.training is None else state.training.liked


def _by_affinity(
    ranking: RankingModel, rows: np.ndarray, n: int, seen: tuple[np.ndarray, np.ndarray] | None, never: np.ndarray
) -> np.ndarray:
    """Columns by products of factors; by popularity for rows without factors."""
    backend = get_backend()
    inside = rows < len(ranking.rows)
    left = np.where(inside[:, None], ranking.rows[np.where(inside, rows, 0)], 0)
    cols, _ = top_columns(backend, left, ranking.cols, n, seen=seen, never=never)
    cold = np.flatnonzero(~left.any(1))
    if len(cold):
        rank = np.empty(len(ranking.popularity))
        rank[np.argsort(-ranking.popularity, kind="stable")] = np.arange(len(rank), 0, -1)
        some = None if seen is None else rows_of(*seen, cold)
        cols[cold], _ = top_columns(backend, np.ones((len(cold), 1)), rank[:, None], n, seen=some, never=never)
    return cols


def nearest(backend: Backend, factors: np.ndarray, at: np.ndarray, n: int, never: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The n others with the largest cosine similarity of factors.

    Parameters
    ----------
    backend : Backend
    factors : (m, k) array
    at : (p,) integer array
        Positions whose neighbours are wanted.
    n : int
    never : (m,) bool array
        Positions that are left out.

    Returns
    -------
    positions, cosines : (p, n) arrays
        -1 and nan where there are no more.
    """
    length = np.sqrt(np.einsum("ij,ij->i", factors, factors, dtype=np.float64))
    unit = (factors / np.where(length > 0, length, 1)[:, None]).astype(np.float32)
    itself = (np.arange(len(at) + 1), at)
    return top_columns(backend, backend.asarray(unit[at]), backend.asarray(unit), n, seen=itself, never=never)


def explanation(factors: np.ndarray, items: np.ndarray, weights: np.ndarray, M: np.ndarray, item: int) -> Explanation:
    """Contributions ``w_t y^T M^-1 y_t`` of a user's items t to the score of another item, the largest first.

    Parameters
    ----------
    factors : (n2, k) array
        Factors of all items.
    items : (m,) integer array
        The user's items.
    weights : (m,) array
    M : (k, k) array
        Matrix of the user's normal equations.
    item : int
    """
    given = np.linalg.solve(M, factors[item].astype(float))
    parts = weights * (factors[items].astype(float) @ given)
    order = np.argsort(-parts, kind="stable")
    return Explanation(items[order], parts[order], float(parts.sum()))


@one_blas_thread
class RecommendationMixin:
    """Recommendation methods of MatrixCompletion, in the ids of the training data."""

    state_: RatingsState
    handle_unknown: str

    def recommend(
        self, rows: Any, n: int = 10, exclude_seen: bool = True, by: str = "affinity", *, as_frame: str | None = None
    ) -> Any:
        """Recommend columns for each row, best first.

        Columns without observations and features are not recommended. Scores are computed in blocks of rows.

        Parameters
        ----------
        rows : index or id, or (k,) array of them
        n : int
            Columns for each row.
        exclude_seen : bool
            Leave out the columns that the row has observations of.
        by : {"affinity", "rating"}
            ``"affinity"`` orders columns by the ranking model, an implicit-feedback model (see
            :class:`ImplicitFactorization`) of the same data: which columns a row has observations of predicts further
            observations better than the values do. It needs ``ranking=True`` or :meth:`fit_ranking`; rows without
            observations get the most popular columns. ``"rating"`` orders columns by their predicted values, and finds far
            fewer of the columns that rows will be observed in.
        as_frame : {"pandas", "polars"}, optional
            Return a data frame with a line for each row and column, its place in the list and the prediction (``place_`` and
            ``prediction_`` where the data have columns of these names).

        Returns
        -------
        cols : (k, n) array
            Indices, or ids after a fit to ids; -1 (None for text ids) where fewer than n columns are left.
        predictions : (k, n) array
            What :meth:`predict` returns for them; nan where fewer than n columns are left.
        """
        check_is_fitted(self)
        state = self.state_
        at = find_side(rows, state.ids, "rows")
        if state.ids is not None or self.handle_unknown == "error":
            self._report_unknown(at < state.model.shape[0], "row", ("is", "are"), "not in the data of the fit")
        found, predictions = recommend(state, at, n, exclude_seen=exclude_seen, by=by)
        cols = self._ids(found, "cols")
        if as_frame is None:
            return cols, predictions
        k, place = np.nonzero(found >= 0)
        names, there = state.labels or {"row": "row", "col": "col"}, found >= 0
        columns = {names["row"]: np.atleast_1d(np.asarray(rows))[k], names["col"]: cols[there]}
        own = unique_names(list(columns), ("place", "prediction"))
        return make_frame(as_frame, columns | {own[0]: place + 1, own[1]: predictions[there]})

    def similar_items(self, cols: Any, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Columns with the most similar factors of the ranking model.

        Parameters
        ----------
        cols : index or id, or (k,) array of them
        n : int

        Returns
        -------
        cols, cosines : (k, n) arrays
            Other columns, most similar first, and cosine similarities; -1 (None for text ids) and nan where there are no
            more. Columns without observations are left out.
        """
        return self._similar(cols, n, "cols")

    def similar_users(self, rows: Any, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Rows with the most similar factors of the ranking model; as :meth:`similar_items` for rows."""
        return self._similar(rows, n, "rows")

    def explain(self, row: Any, col: Any) -> Explanation:
        """Contributions of a row's observations to the affinity score of a column.

        The score of the ranking model is a sum over the row's observations, as in :meth:`ImplicitFactorization.explain`.

        Parameters
        ----------
        row, col : indices or ids

        Returns
        -------
        items, contributions : (m,) arrays
            The row's columns, largest contribution first, and their contributions.
        score : float
        """
        check_is_fitted(self)
        at = self._find(row, "rows"), self._find(col, "cols")
        if len(at[0]) != 1 or len(at[1]) != 1:
            raise ValueError(f"explain takes one row and one column, got {len(at[0])} rows and {len(at[1])} cols")
        found = explain(self.state_, int(at[0][0]), int(at[1][0]))
        return found._replace(items=self._ids(found.items, "cols"))

    def _similar(self, wanted: Any, n: int, side: str) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        found, cosines = similar(self.state_, self._find(wanted, side), n, columns=side == "cols")
        return self._ids(found, side), cosines

    def _find(self, wanted: Any, side: str) -> np.ndarray:
        """Indices of known rows (columns)."""
        return find_known(wanted, self.state_.ids, side, self.state_.model.shape[side == "cols"])

    def _ids(self, positions: np.ndarray, side: str) -> np.ndarray:
        return positions if self.state_.ids is None else ids_at(positions, self.state_.ids[side])

    def _report_unknown(self, known: np.ndarray, thing: str, verbs: tuple[str, str], what: str) -> None:
        """Warn about unknown rows or columns, or refuse them, according to ``handle_unknown``."""
        bad = np.flatnonzero(~known)
        if not len(bad) or self.handle_unknown == "ignore":
            return
        text = f"{len(bad):,} of {counted(len(known), thing)} {verbs[len(bad) != 1]} {what}"
        if self.handle_unknown == "error":
            raise ValueError(f"{text}, the first at position {bad[0]}; handle_unknown='warn' predicts averages for them")
        warnings.warn(f"{text}: average values are predicted for them (see known)", UserWarning, stacklevel=3)
