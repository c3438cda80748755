"""What a fitted ImplicitFactorization tells: scores, the best items of users known and new, likenesses, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..backends import Backend
from ..backends.top_k import rows_of, top_columns
from ..common.checks import ParameterError, check, counted, shown, whole
from ..factorization.implicit import ImplicitSettings, solve_row
from .frames import pair_columns
from .ids import find_ids, named
from .interactions import read_interactions
from .neighbours import Explanation, explanation, nearest


class Recommendations(NamedTuple):
    """The best items of each user: their ids and scores, (k, n) arrays."""

    items: np.ndarray
    scores: np.ndarray


class ImplicitRecommenderMixin:
    """Of a model that has factors of its users and items, and mostly remembers who took what."""

    scaling: float
    nonnegative: bool
    user_ids_: np.ndarray
    item_ids_: np.ndarray
    user_factors_: np.ndarray
    item_factors_: np.ndarray
    zeros_: float
    regularization_: float
    _seen: tuple[np.ndarray, np.ndarray] | None
    _counts: np.ndarray
    _factors: np.ndarray | None
    _totals: tuple[np.ndarray, np.ndarray]

    def _backend(self) -> Backend:
        raise NotImplementedError

    def _weights(self, counts: np.ndarray, factors: np.ndarray | None = None) -> np.ndarray:
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Scores at (user, item) pairs of known ids: about 1 for what was taken, about 0 for what would not be."""
        check_is_fitted(self)
        users, items, _ = pair_columns(X, None)
        i, j = find_ids(users, self.user_ids_, "user"), find_ids(items, self.item_ids_, "item")
        return np.einsum("ij,ij->i", self.user_factors_[i], self.item_factors_[j]).astype(float)

    def recommend(self, users: Any, n: int = 10, exclude_seen: bool = True) -> Recommendations:
        """The items with the largest scores for each user, best first; exact, in blocks.

        Parameters
        ----------
        users : id or (k,) array of ids
            Known ones. A user without any pair (of a sparse matrix) has factors of zero, and gets nothing.
        n : int
        exclude_seen : bool
            Leave out what the user has taken.

        Returns
        -------
        items : (k, n) array
            Ids; -1 (None, where ids are text) where fewer than n items are left. Items that nobody took are never recommended.
        scores : (k, n) array
            nan there.
        """
        check_is_fitted(self)
        rows = find_ids(users, self.user_ids_, "user")
        check("n", n, whole(1))
        seen = rows_of(*self._remembered(), rows) if exclude_seen else None
        return self._best(self.user_factors_[rows], n, seen, hide=self._totals[0][rows] == 0)

    def recommend_for(self, items: Any, counts: Any = None, n: int = 10, exclude_seen: bool = True) -> Recommendations:
        """The best items for somebody new, who took these.

        Parameters
        ----------
        items : (m,) array of ids
        counts : (m,) array, optional
        n : int
        exclude_seen : bool

        Returns
        -------
        items, scores : (1, n) arrays
            As in :meth:`recommend`.
        """
        check_is_fitted(self)
        check("n", n, whole(1))
        at = find_ids(items, self.item_ids_, "item")
        if not len(at):
            raise ParameterError("items", "is empty: somebody new is known by what they took")
        fake = read_interactions(np.column_stack([np.zeros(len(at), np.int64), at]), counts)
        cols = fake.item_ids[fake.items]
        if not len(cols):
            raise ValueError("no item has a positive count: somebody new is known by what they took")
        x = self._solved(cols, self._weights(fake.counts))[0]
        seen = (np.array([0, len(cols)]), cols) if exclude_seen else None
        return self._best(x[None, :].astype(np.float32), n, seen)

    def similar_items(self, item: Any, n: int = 10) -> Recommendations:
        """The items whose factors point in the same direction.

        Parameters
        ----------
        item : id or (k,) array of ids
        n : int

        Returns
        -------
        items, scores : (k, n) arrays
            Other items, and the cosines of the angles; those that nobody took are left out.
        """
        check_is_fitted(self)
        return self._similar(item, n, self.item_factors_, self.item_ids_, "item", self._totals[1])

    def similar_users(self, user: Any, n: int = 10) -> Recommendations:
        """The users whose factors point in the same direction.

        Parameters
        ----------
        user : id or (k,) array of ids
        n : int

        Returns
        -------
        items, scores : (k, n) arrays
            Ids of other users, and the cosines of the angles; those without any pair are left out.
        """
        check_is_fitted(self)
        return self._similar(user, n, self.user_factors_, self.user_ids_, "user", self._totals[0])

    def explain(self, user: Any, item: Any) -> Explanation:
        """Which of a user's items speak for another one.

        The score is linear in what the user took: item t adds ``w_t y^T M^-1 y_t``, with M the matrix of the user's normal
        equations.

        Parameters
        ----------
        user, item : ids

        Returns
        -------
        items : (m,) array
            What the user took, what speaks most for the item first.
        contributions : (m,) array
            They add up to the score.
        score : float
            Of the user's factors as solved exactly; the fit's own differ by little.
        """
        check_is_fitted(self)
        row, col = find_ids(user, self.user_ids_, "user"), find_ids(item, self.item_ids_, "item")
        if len(row) != 1 or len(col) != 1:
            raise ValueError(f"explain takes one user and one item, got {shown(user)} and {shown(item)}")
        indptr, indices = self._remembered()
        begin, end = indptr[row[0] : row[0] + 2]
        factors = None if self._factors is None else self._factors[begin:end]
        cols, weights = indices[begin:end], self._weights(self._counts[begin:end], factors)
        x, M = self._solved(cols, weights)
        free = x > 0 if self.nonnegative else np.ones(len(x), bool)  # what is held at zero adds nothing
        found = explanation(self.item_factors_[:, free], cols, weights, M[np.ix_(free, free)], int(col[0]))
        return found._replace(items=self.item_ids_[found.items])

    def _remembered(self) -> tuple[np.ndarray, np.ndarray]:
        if self._seen is None:
            raise ValueError(
                f"the model was fitted to {counted(self._totals[0].sum(), 'pair')} in partitions, too many to "
                "remember who took what: pass exclude_seen=False, or use lorank recommend --all --ratings FOLDER"
            )
        return self._seen

    def _solved(self, cols: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The factors of a user who took these, and the matrix of their normal equations."""
        rank = self.item_factors_.shape[1]
        settings = ImplicitSettings(
            rank, self.zeros_, self.regularization_, float(self.scaling), nonnegative=bool(self.nonnegative)
        )
        return solve_row(self.item_factors_, cols, weights, settings)

    def _best(
        self, users: np.ndarray, n: int, seen: tuple[np.ndarray, np.ndarray] | None, hide: np.ndarray | None = None
    ) -> Recommendations:
        backend = self._backend()
        left, right = backend.asarray(users), backend.asarray(self.item_factors_)
        cols, scores = top_columns(backend, left, right, int(n), seen=seen, never=self._totals[1] == 0)
        if hide is not None:
            cols[hide], scores[hide] = -1, np.nan
        return Recommendations(named(cols, self.item_ids_), scores)

    def _similar(
        self, wanted: Any, n: int, factors: np.ndarray, ids: np.ndarray, what: str, counts: np.ndarray
    ) -> Recommendations:
        check("n", n, whole(1))
        at = find_ids(wanted, ids, what)
        places, cosines = nearest(self._backend(), factors, at, int(n), counts == 0)
        return Recommendations(named(places, ids), cosines)
