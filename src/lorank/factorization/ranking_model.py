"""Ranking models: the factors, item-to-item weights and popularity that order recommendations.

The ranking model of ratings is an implicit-feedback model of the same data. Which items a user rates predicts further ratings
better than their values do. All rated items are positives; the smaller weight of disliked items is selected on held-out liked
items, with the weight of unobserved pairs and the regularization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse

from ..backends import Array, Backend
from ..common.checks import one_of
from .implicit import ImplicitFactors, ImplicitSettings, fit_implicit, half_sweep, ridge_penalties, solve_row
from .implicit_selection import Positives, select_implicit
from .item_model import ItemModel
from .order_selection import ItemSettings, OrderCandidate, Scores, select_order

DISLIKED = (1.0, 0.3, 0.03)  # weights of disliked items relative to liked ones that are tried
RANK, ZEROS, REGULARIZATION = 64, 5.0, 0.02
UPDATE_MAX_ITER = 2
FIRST_CANDIDATES, LATER_CANDIDATES = 18, 4  # settings that are tried with the first weight, and with the others


@dataclass(frozen=True)
class RankingModel:
    """Model that orders the items of each user.

    Attributes
    ----------
    rows, cols : (n1, k) and (n2, k) float32 arrays
        Factors, whose products are affinity scores; k = 0 without a factor model.
    popularity : (n2,) array
        Number of liked observations of each column.
    settings : ImplicitSettings
        Of the factors.
    disliked : float
        Weight of disliked ratings relative to liked ones.
    order : {"affinity", "similarity", "popularity", "rating"}
        The order of recommendations by default.
    items : ItemModel or None
        Item-to-item model, where its order is the default.
    item_settings : ItemSettings or None
    candidates : tuple of OrderCandidate
        The orders that were compared on held-out lists.
    """

    rows: np.ndarray
    cols: np.ndarray
    popularity: np.ndarray
    settings: ImplicitSettings
    disliked: float = 1.0
    order: str = "affinity"
    items: ItemModel | None = None
    item_settings: ItemSettings | None = None
    candidates: tuple[OrderCandidate, ...] = ()

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.cols.shape[1])

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders that the model has."""
        own = {"affinity": self.rank > 0, "similarity": self.items is not None, "popularity": True}
        return tuple(name for name, there in own.items() if there)

    def resolve(self, by: str, orders: tuple[str, ...]) -> str:
        """The order with this name, which must be among these; ``"auto"`` is the selected one."""
        if by not in ("auto", *orders):
            raise one_of(("auto", *orders)).refuse("by", by)
        return self.order if by == "auto" else by

    def scores(
        self, backend: Backend, order: str, left: np.ndarray, taken: scipy.sparse.csr_array | None
    ) -> Callable[[range], Array]:
        """Scores of all items for some users.

        Users without factors, or without items, get the share of users that have each item: the most popular items.

        Parameters
        ----------
        backend : Backend
            Of the scores.
        order : str
        left : (k, rank) array
            Factors of the users.
        taken : (k, n2) CSR array or None
            Weights of their items, for the order "similarity".

        Returns
        -------
        callable
            From a range of the users to their scores.
        """
        share = self.popularity / max(len(self.rows), 1)
        if order == "popularity":
            return lambda part: backend.asarray(np.tile(share, (len(part), 1)))
        if order == "similarity":
            assert self.items is not None
            assert taken is not None
            model, matrix, cold = self.items, taken, np.diff(taken.indptr) == 0
        else:
            sides, cold = (backend.asarray(left), backend.asarray(self.cols)), ~left.any(1)

        def block(part: range) -> Array:
            at = slice(part.start, part.stop)
            found = backend.asarray(model.scores(matrix[at])) if order == "similarity" else sides[0][at] @ sides[1].T
            unknown = np.flatnonzero(cold[at])
            if len(unknown):
                found[backend.asindex(unknown)] = backend.asarray(share.astype(backend.dtype(found)))
            return found

        return block

    def solve_row(self, items: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Factors of a row with these columns and weights, and the matrix of its normal equations."""
        return solve_row(self.cols, items, weights, self.settings)

    def contributions(self, items: np.ndarray, weights: np.ndarray, item: int) -> np.ndarray:
        """Contributions of a user's items t to the score of another item, whose sum is the score.

        ``w_t y^T M^-1 y_t`` with factors, M the matrix of the user's normal equations; ``w_t B_ty`` with an item-to-item model.
        """
        if self.items is not None:
            return weights * self.items.column(item)[items]
        x, M = self.solve_row(items, weights)
        free = x > 0 if self.settings.nonnegative else np.ones(len(x), bool)  # factors at the bound contribute nothing
        given = np.linalg.solve(M[np.ix_(free, free)], self.cols[item, free].astype(float))
        return np.asarray(weights * (self.cols[np.ix_(items, free)].astype(float) @ given))

    def grown(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> RankingModel:
        """With more rows and columns, whose factors are zero; the old ones are at these positions."""
        sides = []
        for factors, at, n in ((self.rows, rows, shape[0]), (self.cols, cols, shape[1])):
            more = np.zeros((n, factors.shape[1]), factors.dtype)
            more[at] = factors
            sides.append(more)
        popularity = np.zeros(shape[1])
        popularity[cols] = self.popularity
        items = None if self.items is None else self.items.grown(cols, shape[1])
        return replace(self, rows=sides[0], cols=sides[1], popularity=popularity, items=items)

    def updated(self, data: Positives, popularity: np.ndarray, backend: Backend) -> RankingModel:
        """Updated to more data of the same shape: a few iterations with the same settings.

        Parameters
        ----------
        data : Positives
            All pairs with their weights.
        popularity : (n2,) array
        backend : Backend
        """
        found = replace(self, popularity=popularity)
        if self.item_settings is not None:
            items = self.item_settings.fit(data.matrix(), backend, self.settings.seed)
            found = replace(found, items=items)
        if not self.rank:
            return found
        observations = data.observations(backend, np.float32)
        sides = ImplicitFactors(backend.asarray(self.rows), backend.asarray(self.cols))
        settings = replace(self.settings, max_iter=UPDATE_MAX_ITER)
        # new columns first, from the rows that have factors already
        penalties = ridge_penalties(observations, backend, settings)[1]
        sides = fit_implicit(
            observations, backend, settings, half_sweep(observations, backend, True, sides, penalties, settings)
        )
        return replace(found, rows=backend.to_numpy(sides.rows), cols=backend.to_numpy(sides.cols))


def liked_ratings(values: np.ndarray) -> np.ndarray:
    """Flags of liked ratings: the median and above."""
    return np.asarray(values >= np.median(values)) if len(values) else np.zeros(0, bool)


def fit_ranking_model(
    seen: tuple[np.ndarray, np.ndarray],
    liked: np.ndarray,
    shape: tuple[int, int],
    seed: int,
    backend: Backend,
    others: Mapping[str, Callable[[np.ndarray], Scores]] | None = None,
) -> RankingModel:
    """Fit the ranking model of ratings, and select the order of recommendations.

    Parameters
    ----------
    seen : (indptr, indices)
        Pattern of the ratings.
    liked : (m,) bool array
    shape : (int, int)
    seed : int
    backend : Backend
    others : mapping, optional
        More orders; see :func:`~lorank.factorization.order_selection.select_order`.
    """
    plain = ratings_positives(seen, liked, shape, 1.0)
    settings = ImplicitSettings(RANK, ZEROS * len(plain.cols) / (shape[0] * shape[1]), REGULARIZATION, seed=seed)
    best, most, disliked = -1.0, FIRST_CANDIDATES, 1.0
    for weight in DISLIKED if liked.any() and not liked.all() else DISLIKED[:1]:
        data = ratings_positives(seen, liked, shape, weight)
        found, curve = select_implicit(
            data, backend, settings, np.float32, zeros=True, regularization=True, liked=liked, most=most
        )
        quality = next((c.ndcg for c in curve if (c.zeros, c.regularization) == (found.zeros, found.regularization)), 0.0)
        if quality > best:
            best, settings, disliked = quality, found, weight
        most = LATER_CANDIDATES
    data = ratings_positives(seen, liked, shape, disliked)
    order, settings, item_settings, tried = select_order(data, liked, backend, settings, (RANK,), others)
    sides = fit_implicit(data.observations(backend, np.float32), backend, settings)
    items = None if item_settings is None else item_settings.fit(data.matrix(), backend, seed)
    left, right = (backend.to_numpy(a) for a in (sides.rows, sides.cols))
    popularity = count_liked(seen[1], liked, shape[1])
    return RankingModel(left, right, popularity, settings, disliked, order, items, item_settings, tuple(tried))


def ratings_positives(
    seen: tuple[np.ndarray, np.ndarray], liked: np.ndarray, shape: tuple[int, int], disliked: float
) -> Positives:
    """All ratings as positives, disliked ones with a smaller weight."""
    indptr, indices = seen
    rows, cols = np.repeat(np.arange(shape[0]), np.diff(indptr)), indices.astype(np.int64)
    return Positives(rows, cols, None if disliked == 1 else np.where(liked, 1.0, disliked), shape)


def count_liked(indices: np.ndarray, liked: np.ndarray, n_items: int) -> np.ndarray:
    """Number of liked observations of each item."""
    return np.bincount(indices[liked], minlength=n_items).astype(float)
