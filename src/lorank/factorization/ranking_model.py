"""Ranking model of ratings: an implicit-feedback model of the same data that orders recommendations.

Which items a user rates predicts further ratings better than their values do. All rated items are positives; the smaller weight
of disliked items is selected on held-out liked items, with the weight of unobserved pairs and the regularization.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..backends import device_backend, get_backend
from .implicit import ImplicitFactors, ImplicitSettings, fit_implicit, half_sweep, ridge_penalties, solve_row
from .implicit_selection import Positives, select_implicit

DISLIKED = (1.0, 0.3, 0.03)  # weights of disliked items relative to liked ones that are tried
RANK, ZEROS, REGULARIZATION = 64, 5.0, 0.02
UPDATE_MAX_ITER = 2
FIRST_CANDIDATES, LATER_CANDIDATES = 18, 7  # settings that are tried with the first weight, and with the others


@dataclass(frozen=True)
class RankingModel:
    """Factors whose products are affinity scores.

    Attributes
    ----------
    rows, cols : (n1, k) and (n2, k) float32 arrays
    popularity : (n2,) array
        Number of liked observations of each column, for rows without observations.
    zeros, regularization : float
        As selected.
    disliked : float
        Weight of disliked items relative to liked ones.
    """

    rows: np.ndarray
    cols: np.ndarray
    popularity: np.ndarray
    zeros: float
    regularization: float
    disliked: float = 1.0

    def grown(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> RankingModel:
        """With more rows and columns, whose factors are zero; the old ones are at these positions."""
        sides = []
        for factors, at, n in ((self.rows, rows, shape[0]), (self.cols, cols, shape[1])):
            more = np.zeros((n, factors.shape[1]), factors.dtype)
            more[at] = factors
            sides.append(more)
        popularity = np.zeros(shape[1])
        popularity[cols] = self.popularity
        return replace(self, rows=sides[0], cols=sides[1], popularity=popularity)

    def solve_row(self, items: np.ndarray, liked: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Factors of a row with these columns, the matrix of its normal equations, and the weights of the columns."""
        weights = np.where(liked, 1.0, self.disliked)
        settings = ImplicitSettings(self.cols.shape[1], self.zeros, self.regularization)
        return *solve_row(self.cols, items, weights, settings), weights


def liked_ratings(values: np.ndarray) -> np.ndarray:
    """Flags of liked ratings: the median and above."""
    return np.asarray(values >= np.median(values)) if len(values) else np.zeros(0, bool)


def fit_ranking_model(
    seen: tuple[np.ndarray, np.ndarray], liked: np.ndarray, shape: tuple[int, int], seed: int, device: str | None = None
) -> RankingModel:
    """Fit the ranking model.

    Parameters
    ----------
    seen : (indptr, indices)
        Pattern of the ratings.
    liked : (m,) bool array
    shape : (int, int)
    seed : int
    device : str, optional
    """
    backend = get_backend() if device is None else device_backend(device)
    indptr, indices = seen
    rows, cols = np.repeat(np.arange(shape[0]), np.diff(indptr)), indices.astype(np.int64)
    settings = ImplicitSettings(RANK, ZEROS * len(cols) / (shape[0] * shape[1]), REGULARIZATION, seed=seed)
    best, most = -1.0, FIRST_CANDIDATES
    chosen = settings, Positives(rows, cols, None, shape), 1.0
    for weight in DISLIKED if liked.any() and not liked.all() else DISLIKED[:1]:
        data = Positives(rows, cols, None if weight == 1 else np.where(liked, 1.0, weight), shape)
        found, curve = select_implicit(
            data, backend, chosen[0], np.float32, zeros=True, regularization=True, liked=liked, most=most
        )
        quality = next((c.ndcg for c in curve if (c.zeros, c.regularization) == (found.zeros, found.regularization)), 0.0)
        if quality > best:
            best, chosen = quality, (found, data, weight)
        most = LATER_CANDIDATES
    sides = fit_implicit(chosen[1].observations(backend, np.float32), backend, chosen[0])
    left, right = (backend.to_numpy(a) for a in (sides.rows, sides.cols))
    popularity = np.bincount(cols[liked], minlength=shape[1]).astype(float)
    return RankingModel(left, right, popularity, chosen[0].zeros, chosen[0].regularization, chosen[2])


def update_ranking_model(
    ranking: RankingModel, seen: tuple[np.ndarray, np.ndarray], liked: np.ndarray, device: str | None = None
) -> RankingModel:
    """Update the ranking model to more ratings: a few iterations with the same settings.

    Parameters
    ----------
    ranking : RankingModel
        Of the new shape (:meth:`RankingModel.grown`).
    seen : (indptr, indices)
        Pattern of all ratings.
    liked : (m,) bool array
    device : str, optional
    """
    backend = get_backend() if device is None else device_backend(device)
    indptr, indices = seen
    shape = len(ranking.rows), len(ranking.cols)
    rows, cols = np.repeat(np.arange(shape[0]), np.diff(indptr)), indices.astype(np.int64)
    weights = None if ranking.disliked == 1 else np.where(liked, 1.0, ranking.disliked)
    settings = ImplicitSettings(ranking.cols.shape[1], ranking.zeros, ranking.regularization, max_iter=UPDATE_MAX_ITER)
    observations = Positives(rows, cols, weights, shape).observations(backend, np.float32)
    sides = ImplicitFactors(backend.asarray(ranking.rows), backend.asarray(ranking.cols))
    # new columns first, from the rows that have factors already
    sides = half_sweep(observations, backend, True, sides, ridge_penalties(observations, backend, settings)[1], settings)
    sides = fit_implicit(observations, backend, settings, sides)
    left, right = (backend.to_numpy(a) for a in (sides.rows, sides.cols))
    return replace(ranking, rows=left, cols=right, popularity=np.bincount(cols[liked], minlength=shape[1]).astype(float))
