"""Fit and update the ranking model of a MatrixCompletion."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from ..backends import device_backend, get_backend
from ..factorization.order_selection import Scores
from ..factorization.ranking_model import count_liked, fit_ranking_model, ratings_positives
from ..loop.runner import INTERRUPTED
from .cold_start import predict_factors
from .ratings_state import RatingsState

if TYPE_CHECKING:
    from .matrix_completion import MatrixCompletion


def fit_ranking(model: MatrixCompletion, state: RatingsState, regularization: float | str) -> RatingsState:
    """The state with a ranking model fitted to its training data.

    The order of recommendations is selected on held-out lists, to which the order by ratings is refitted, too.

    Parameters
    ----------
    model : MatrixCompletion
    state : RatingsState
    regularization : float or "learned"
        As selected.
    """

    def rating_scores(kept: np.ndarray) -> Scores:
        """Entries predicted by a fit to the ratings with flags."""
        assert state.training is not None
        indptr, cols, values, weights = state.training.entries
        pairs = np.column_stack([np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), cols])[kept]
        loss = "squares" if isinstance(model.loss, str) and model.loss == "robust" else model.loss
        options = {"rank": state.model.rank, "regularization": regularization, "shape": state.model.shape, "loss": loss}
        options |= {"intervals": False, "ranking": False, "handle_unknown": "ignore", "device": None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about parts of the data
            trial = clone(model).set_params(**options)
            trial.fit(pairs, values[kept], None if weights is None else weights[kept])
        if trial.status_ == INTERRUPTED:
            raise KeyboardInterrupt
        left, right = trial.model_.padded_factors()
        return lambda users: left[users] @ right[:-1].T

    pattern = state.training_pattern()
    seed = int(model.random_state) if isinstance(model.random_state, (int, np.integer)) else 0
    others: dict[str, Callable[[np.ndarray], Scores]] = {"rating": rating_scores}
    ranking = fit_ranking_model(pattern, state.liked, state.model.shape, seed, device_name(model), others)
    return replace(state, ranking=predict_factors(state, ranking))


def update_ranking(state: RatingsState, device: str | None = None) -> RatingsState:
    """The state with its ranking model, if there is one, updated to its training data."""
    if state.ranking is None:
        return state
    pattern, shape = state.training_pattern(), state.model.shape
    data = ratings_positives(pattern, state.liked, shape, state.ranking.disliked)
    backend = get_backend() if device is None else device_backend(device)
    ranking = state.ranking.updated(data, count_liked(pattern[1], state.liked, shape[1]), backend)
    return replace(state, ranking=predict_factors(state, ranking))


def device_name(model: MatrixCompletion) -> str | None:
    return None if model.device is None else str(model.device)
