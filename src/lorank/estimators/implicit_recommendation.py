"""Fitted state of ImplicitFactorization, and the recommendations that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..backends import Backend
from ..backends.top_k import rows_of, top_columns
from ..common.blas_threads import one_blas_thread
from ..common.checks import ParameterError, check, counted, shown, whole
from ..factorization.implicit import ImplicitSettings, solve_row
from .frames import ids_at, known_positions, pair_columns
from .inputs import Interactions, read_interactions
from .recommendation import Explanation, explanation, nearest


class Recommendations(NamedTuple):
    """The best items of each user: their ids and scores, (k, n) arrays."""

    items: np.ndarray
    scores: np.ndarray


class Pattern(NamedTuple):
    """Training data of an ImplicitFactorization by user, as a sparse matrix.

    Attributes
    ----------
    indptr, indices : arrays
        Row pointers and item indices.
    counts : (m,) array
    weights : (m,) array or None
        Factors on the confidences.
    """

    indptr: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    weights: np.ndarray | None = None

    def of_user(self, user: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Items, counts and weights of one user."""
        part = slice(*self.indptr[user : user + 2])
        return self.indices[part], self.counts[part], None if self.weights is None else self.weights[part]


@dataclass(frozen=True)
class ImplicitState:
    """Everything that recommendations, ``partial_fit`` and model files need of a fitted ImplicitFactorization.

    Attributes
    ----------
    user_ids, item_ids : arrays
        In ascending order.
    user_factors, item_factors : (users, rank) and (items, rank) float32 arrays
    settings : ImplicitSettings
        Of the fit.
    confidence : {"log", "counts", "equal"}
    training : Pattern or None
        The pairs; None after a fit to partitions with too many of them.
    user_counts, item_counts : arrays
        Number of pairs of each user and item.
    """

    user_ids: np.ndarray
    item_ids: np.ndarray
    user_factors: np.ndarray
    item_factors: np.ndarray
    settings: ImplicitSettings
    confidence: str
    training: Pattern | None
    user_counts: np.ndarray
    item_counts: np.ndarray

    def require_training(self) -> Pattern:
        """The training data; a ValueError where the model does not store them."""
        if self.training is None:
            raise ValueError(
                f"the model was fitted to {counted(self.user_counts.sum(), 'pair')} in partitions, too many to store: pass "
                "exclude_seen=False, or use lorank recommend --all --ratings FOLDER"
            )
        return self.training

    def interactions(self) -> Interactions:
        """The training data as pairs."""
        indptr, indices, counts, weights = self.require_training()
        users = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        return Interactions(users, indices.astype(np.int64), counts, self.user_ids, self.item_ids, weights)

    def seen(self, users: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row pointers and item indices of some users' training data."""
        return rows_of(*self.require_training()[:2], users)

    def solve_user(self, items: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Factors of a user with these items and confidences, and the matrix of the normal equations."""
        return solve_row(self.item_factors, items, weights, self.settings)

    def best(
        self,
        backend: Backend,
        users: np.ndarray,
        n: int,
        seen: tuple[np.ndarray, np.ndarray] | None,
        empty: np.ndarray | None = None,
    ) -> Recommendations:
        """The n items with the largest scores, given factors of users; none for users that are flagged as ``empty``."""
        left, right = backend.asarray(users), backend.asarray(self.item_factors)
        cols, scores = top_columns(backend, left, right, int(n), seen=seen, never=self.item_counts == 0)
        if empty is not None:
            cols[empty], scores[empty] = -1, np.nan
        return Recommendations(ids_at(cols, self.item_ids), scores)

    def explain(self, user: int, item: int) -> Explanation:
        """Contributions of a user's items to the score of an item; items are indices."""
        items, counts, factors = self.require_training().of_user(user)
        weights = confidences(self.confidence, counts, factors)
        x, M = self.solve_user(items, weights)
        free = x > 0 if self.settings.nonnegative else np.ones(len(x), bool)  # factors at the bound contribute nothing
        return explanation(self.item_factors[:, free], items, weights, M[np.ix_(free, free)], item)


def confidences(kind: str, counts: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Confidence of each pair by its count, multiplied by its weight."""
    found: np.ndarray = np.ones(len(counts)) if kind == "equal" else np.log2(1 + counts) if kind == "log" else counts
    return found if weights is None else found * weights


@one_blas_thread
class ImplicitRecommendationMixin:
    """Prediction and recommendation methods of ImplicitFactorization, in the ids of the training data."""

    state_: ImplicitState

    def _backend(self) -> Backend:
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Scores at (user, item) pairs of known ids: near 1 for likely items, near 0 for unlikely ones."""
        check_is_fitted(self)
        state, (users, items, _) = self.state_, pair_columns(X, None)
        i, j = known_positions(users, state.user_ids, "user"), known_positions(items, state.item_ids, "item")
        return np.einsum("ij,ij->i", state.user_factors[i], state.item_factors[j]).astype(float)

    def recommend(self, users: Any, n: int = 10, exclude_seen: bool = True) -> Recommendations:
        """The items with the largest scores for each user, best first; exact, in blocks of users.

        Parameters
        ----------
        users : id or (k,) array of ids
            Known ones. A user without pairs has factors of zero and gets no items.
        n : int
        exclude_seen : bool
            Leave out the user's items of the training data.

        Returns
        -------
        items : (k, n) array
            Ids; -1 (None for text ids) where fewer than n items are left. Items without pairs are never recommended.
        scores : (k, n) array
            nan where fewer than n items are left.
        """
        check_is_fitted(self)
        state = self.state_
        rows = known_positions(users, state.user_ids, "user")
        check("n", n, whole(1))
        seen = state.seen(rows) if exclude_seen else None
        return state.best(self._backend(), state.user_factors[rows], n, seen, state.user_counts[rows] == 0)

    def recommend_for(self, items: Any, counts: Any = None, n: int = 10, exclude_seen: bool = True) -> Recommendations:
        """The best items for a new user with these items.

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
        state = self.state_
        at = known_positions(items, state.item_ids, "item")
        if not len(at):
            raise ParameterError("items", "is empty: pass at least one item of the new user")
        one = read_interactions(np.column_stack([np.zeros(len(at), np.int64), at]), counts)
        cols = one.item_ids[one.items]
        if not len(cols):
            raise ValueError("items have no positive count: pass at least one item of the new user")
        x = state.solve_user(cols, confidences(state.confidence, one.counts))[0]
        seen = (np.array([0, len(cols)]), cols) if exclude_seen else None
        return state.best(self._backend(), x[None, :].astype(np.float32), n, seen)

    def similar_items(self, item: Any, n: int = 10) -> Recommendations:
        """Items with the most similar factors.

        Parameters
        ----------
        item : id or (k,) array of ids
        n : int

        Returns
        -------
        items, scores : (k, n) arrays
            Other items, and cosine similarities. Items without pairs are left out.
        """
        check_is_fitted(self)
        state = self.state_
        return self._similar(item, n, state.item_factors, state.item_ids, "item", state.item_counts)

    def similar_users(self, user: Any, n: int = 10) -> Recommendations:
        """Users with the most similar factors.

        Parameters
        ----------
        user : id or (k,) array of ids
        n : int

        Returns
        -------
        items, scores : (k, n) arrays
            Ids of other users, and cosine similarities. Users without pairs are left out.
        """
        check_is_fitted(self)
        state = self.state_
        return self._similar(user, n, state.user_factors, state.user_ids, "user", state.user_counts)

    def explain(self, user: Any, item: Any) -> Explanation:
        """Contributions of a user's items to the score of another item.

        The score is linear in the user's confidences: item t contributes ``w_t y^T M^-1 y_t``, with M the matrix of the
        user's normal equations.

        Parameters
        ----------
        user, item : ids

        Returns
        -------
        items : (m,) array
            The user's items, largest contribution first.
        contributions : (m,) array
            Their sum is the score.
        score : float
            By the exact solution for the user's factors; those of the fit differ slightly.
        """
        check_is_fitted(self)
        state = self.state_
        row, col = known_positions(user, state.user_ids, "user"), known_positions(item, state.item_ids, "item")
        if len(row) != 1 or len(col) != 1:
            raise ValueError(f"explain takes one user and one item, got {shown(user)} and {shown(item)}")
        found = state.explain(int(row[0]), int(col[0]))
        return found._replace(items=state.item_ids[found.items])

    def _similar(
        self, wanted: Any, n: int, factors: np.ndarray, ids: np.ndarray, what: str, counts: np.ndarray
    ) -> Recommendations:
        check("n", n, whole(1))
        at = known_positions(wanted, ids, what)
        positions, cosines = nearest(self._backend(), factors, at, int(n), counts == 0)
        return Recommendations(ids_at(positions, ids), cosines)
