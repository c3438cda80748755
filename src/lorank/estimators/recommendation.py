"""Recommendations of the fitted estimators: ranked lists, similar users and items, and explanations."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from ..backends import Backend, device_backend, get_backend
from ..backends.top_k import rows_of, top_columns, top_scores
from ..common.blas_threads import one_blas_thread
from ..common.checks import ParameterError, check, counted, shown, whole
from ..factorization.order_selection import OrderCandidate
from ..factorization.ranking_model import RankingModel
from ..io.archive import save_model
from .frames import ids_at, make_frame, unique_names
from .inputs import find_known, find_side

MAX_SCORES = 10**9  # rows times n


class Recommendations(NamedTuple):
    """Ranked lists, or the most similar items (users) of each one.

    Attributes
    ----------
    items : (k, n) array
        Ids or indices, best first; -1 (None for text ids) where fewer than n are left.
    scores : (k, n) array
        nan where fewer than n are left.
    """

    items: np.ndarray
    scores: np.ndarray


class Explanation(NamedTuple):
    """Explanation of an item's score: the user's items, largest contribution first, and their contributions to the score."""

    items: np.ndarray
    contributions: np.ndarray
    score: float


class RankedState(ABC):
    """What recommendations need of a fitted state. Users are rows, items are columns; both are indices here."""

    words = ("user", "item")  # what users and items are called in messages
    value_name = "score"  # of the scores of recommended items, in data frames

    @property
    @abstractmethod
    def ids(self) -> dict[str, np.ndarray] | None:
        """Ids of ``"rows"`` and ``"cols"`` in ascending order; None where they are indices."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, str]:
        """Names of the columns of users and items in data frames."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @property
    @abstractmethod
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Number of observations of each user and of each item."""

    @property
    @abstractmethod
    def never(self) -> np.ndarray:
        """Flags of items that are never recommended."""

    @abstractmethod
    def require_ranking(self) -> RankingModel:
        """The ranking model; a ValueError where there is none."""

    @abstractmethod
    def training_pattern(self) -> tuple[np.ndarray, np.ndarray]:
        """Row pointers and column indices of the training data; a ValueError where the model does not store them."""

    @abstractmethod
    def confidences(self) -> np.ndarray:
        """Weights of the training data in the ranking model."""

    @abstractmethod
    def new_weights(self, counts: np.ndarray | None, m: int) -> np.ndarray:
        """Weights of the m items of a new user."""

    def resolve_order(self, by: str) -> str:
        """The order with this name; ``"auto"`` is the selected one."""
        ranking = self.require_ranking()
        return ranking.resolve(by, ranking.orders)

    def order_scores(self, order: str, rows: np.ndarray, backend: Backend) -> Any:
        """Scores of all items for some users, as a function of a range of them."""
        ranking = self.require_ranking()
        inside = rows < self.shape[0]
        left = np.where(inside[:, None], ranking.rows[np.where(inside, rows, 0)], 0)
        taken = self.taken(rows) if order == "similarity" else None
        return ranking.scores(backend, order, left, taken)

    def values(self, rows: np.ndarray, cols: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """The values that are shown for recommended items, (k, n): their scores, unless there are predictions."""
        return scores

    def taken(self, rows: np.ndarray) -> scipy.sparse.csr_array:
        """Weights of some users' items."""
        indptr, indices = self.training_pattern()
        some, at = rows_of(indptr, np.arange(len(indices)), rows)
        return scipy.sparse.csr_array((self.confidences()[at], indices[at], some), (len(rows), self.shape[1]))

    def recommend(
        self,
        rows: np.ndarray,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        by: str = "auto",
        never: np.ndarray | None = None,
        seen: tuple[np.ndarray, np.ndarray] | None = None,
        backend: Backend | None = None,
    ) -> Recommendations:
        """The n best items of some users; see :meth:`RecommendationMixin.recommend`.

        Parameters
        ----------
        rows : (k,) integer array
            Those beyond the last row are users without observations.
        n : int
        exclude_seen : bool
        by : str
        never : (n2,) bool array, optional
            Items to leave out besides those that are never recommended.
        seen : (indptr, indices), optional
            Items of the users that are left out; by default those of the training data.
        backend : Backend, optional
            Of products of factors.
        """
        check("n", n, whole(1))
        if n * len(rows) > MAX_SCORES:
            raise ParameterError("n", f"must not be larger than there are columns, {self.shape[1]}: got {n}")
        order = self.resolve_order(by)
        backend = backend if backend is not None and order == "affinity" else get_backend()
        rows = np.minimum(rows, self.shape[0]).astype(np.int64)
        if seen is None and exclude_seen:
            seen = rows_of(*self.training_pattern(), rows)
        scores = self.order_scores(order, rows, backend)
        hidden = self.never if never is None else self.never | never
        cols, found = top_scores(backend, scores, (len(rows), self.shape[1]), int(n), seen=seen, never=hidden)
        return Recommendations(cols, self.values(rows, cols, found))

    def recommend_for(
        self, items: np.ndarray, weights: np.ndarray, n: int, exclude_seen: bool = True, backend: Backend | None = None
    ) -> Recommendations:
        """The best items for a new user with these items and weights."""
        ranking = self.require_ranking()
        order = ranking.order if ranking.order in ranking.orders else ranking.orders[0]
        backend = backend if backend is not None and order == "affinity" else get_backend()
        left = np.empty((1, 0), np.float32)
        if order == "affinity":
            left = ranking.solve_row(items, weights)[0][None, :].astype(np.float32)
        taken = scipy.sparse.csr_array((weights, items, [0, len(items)]), (1, self.shape[1]))
        scores = ranking.scores(backend, order, left, taken)
        seen = (np.array([0, len(items)]), items) if exclude_seen else None
        return Recommendations(*top_scores(backend, scores, (1, self.shape[1]), int(n), seen=seen, never=self.never))

    def similar(self, at: np.ndarray, n: int, columns: bool, backend: Backend | None = None) -> Recommendations:
        """The users or items with the largest cosine similarity of factors; without factors, by the item-to-item model."""
        check("n", n, whole(1))
        ranking, count = self.require_ranking(), min(int(n), self.shape[columns])
        never, itself = self.counts[columns] == 0, (np.arange(len(at) + 1), at)
        if ranking.rank:
            backend = backend or get_backend()
            factors = ranking.cols if columns else ranking.rows
            length = np.sqrt(np.einsum("ij,ij->i", factors, factors, dtype=np.float64))
            unit = (factors / np.where(length > 0, length, 1)[:, None]).astype(np.float32)
            sides = backend.asarray(unit[at]), backend.asarray(unit)
            return Recommendations(*top_columns(backend, *sides, count, seen=itself, never=never))
        if not columns or ranking.items is None:
            raise ValueError("an item-to-item model has no factors of users: similar_users needs ImplicitFactorization")
        one = scipy.sparse.csr_array((np.ones(len(at)), at, np.arange(len(at) + 1)), (len(at), self.shape[1]))
        found = ranking.items.scores(one)
        shape = len(at), self.shape[1]
        return Recommendations(
            *top_scores(get_backend(), lambda part: found[part.start : part.stop], shape, count, seen=itself, never=never)
        )

    def explain(self, row: int, col: int) -> Explanation:
        """Contributions of a user's items to the score of another item."""
        ranking, taken = self.require_ranking(), self.taken(np.array([row]))
        parts = ranking.contributions(taken.indices, taken.data, col)
        order = np.argsort(-parts, kind="stable")
        return Explanation(taken.indices[order], parts[order], float(parts.sum()))


def backend_for(device: Any) -> Backend:
    """The backend of a device, such as ``"cuda"``; the default one for None."""
    return get_backend() if device is None else device_backend(str(device))


def part_of_state(path: str) -> Any:
    """A fitted attribute that is a part of ``state_``: an AttributeError before ``fit``, as scikit-learn expects."""
    return property(attrgetter(f"state_.{path}"), doc="")


@one_blas_thread
class RecommendationMixin:
    """Recommendations and model files of the estimators, in the ids of the training data."""

    state_: Any  # a RankedState
    device: str | None
    handle_unknown: str = "error"

    @property
    def order_(self) -> str:
        """Order of :meth:`recommend`, as selected on held-out lists."""
        return str(self._ranking.order)

    @property
    def orders_(self) -> list[OrderCandidate]:
        """The orders that were compared on held-out lists, with their NDCG; empty where none were."""
        return list(self._ranking.candidates)

    @property
    def _ranking(self) -> Any:
        """The ranking model; an AttributeError without one, as for all fitted attributes, so that ``dir`` leaves them out."""
        try:
            return self.state_.require_ranking()
        except ValueError as error:
            raise AttributeError(str(error)) from None

    def recommend(
        self,
        users: Any,
        n: int = 10,
        exclude_seen: bool = True,
        by: str = "auto",
        *,
        items: Any = None,
        exclude: Any = None,
        as_frame: str | None = None,
    ) -> Any:
        """Recommend items to each user, best first.

        Items without observations and features are not recommended. Scores are computed in blocks of users. Users without
        observations get the most popular items.

        Parameters
        ----------
        users : id or index, or (k,) array of them
        n : int
            Length of the lists.
        exclude_seen : bool
            Leave out the user's items of the training data.
        by : {"auto", "affinity", "similarity", "popularity", "rating"}
            Order of the items: ``"affinity"`` by the products of factors of an implicit-feedback model, ``"similarity"`` by an
            item-to-item model, ``"popularity"``, or ``"rating"`` by predicted values (:class:`MatrixCompletion`). ``"auto"`` is
            the order that found most on held-out lists (``order_``). Of the first two, a model has those that it selected.
        items : array of ids or indices, optional
            Recommend these items only.
        exclude : array of ids or indices, optional
            Items that are not recommended.
        as_frame : {"pandas", "polars"}, optional
            Return a data frame with a line for each user and item, its place in the list and the score (``place_`` and
            ``score_`` where the data have columns of these names).

        Returns
        -------
        items : (k, n) array
            Ids or indices; -1 (None for text ids) where fewer than n items are left.
        scores : (k, n) array
            Scores; what ``predict`` returns for :class:`MatrixCompletion`. nan where fewer than n items are left.

        Examples
        --------
        >>> from lorank import ImplicitFactorization
        >>> taken = [("anna", "tea"), ("anna", "bread"), ("ben", "tea"), ("ben", "milk"), ("carl", "bread")]
        >>> model = ImplicitFactorization(rank=1).fit(taken)
        >>> model.recommend("anna", n=1).items.tolist()
        [['milk']]
        """
        check_is_fitted(self)
        state = self.state_
        if self.handle_unknown == "error":
            at = self._find(users, "rows")
        else:
            at = find_side(users, state.ids, "rows", state.words[0])
            if state.ids is not None:
                self._report_unknown(at < state.shape[0], state.words[0], ("is", "are"), "not in the data of the fit")
        never = np.zeros(state.shape[1], bool)
        if items is not None:
            never[:] = True
            never[self._find(items, "cols")] = False
        if exclude is not None:
            never[self._find(exclude, "cols")] = True
        found = state.recommend(at, n, exclude_seen=exclude_seen, by=by, never=never, backend=self._backend())
        lists = self._with_ids(found, "cols")
        if as_frame is None:
            return lists
        there = found.items >= 0
        k, place = np.nonzero(there)
        columns = dict(zip(state.names, (np.atleast_1d(np.asarray(users))[k], lists.items[there]), strict=True))
        own = unique_names(list(columns), ("place", state.value_name))
        return make_frame(as_frame, columns | {own[0]: place + 1, own[1]: lists.scores[there]})

    def recommend_for(self, items: Any, counts: Any = None, n: int = 10, exclude_seen: bool = True) -> Recommendations:
        """The best items for a new user with these items, by the ranking model.

        Parameters
        ----------
        items : (m,) array of ids or indices
        counts : (m,) array, optional
            Of implicit feedback.
        n : int
        exclude_seen : bool

        Returns
        -------
        items, scores : (1, n) arrays
            As in :meth:`recommend`.
        """
        check_is_fitted(self)
        check("n", n, whole(1))
        at = self._find(items, "cols")
        if not len(at):
            raise ParameterError("items", "is empty: pass at least one item of the new user")
        weights = self.state_.new_weights(counts, len(at))
        kept, group = np.unique(at[weights > 0], return_inverse=True)
        if not len(kept):
            raise ValueError("items have no positive count: pass at least one item of the new user")
        total = np.bincount(group, weights[weights > 0])
        return self._with_ids(self.state_.recommend_for(kept, total, n, exclude_seen, self._backend()), "cols")

    def similar_items(self, items: Any, n: int = 10) -> Recommendations:
        """Items with the most similar factors; :class:`EASE`: items with the largest weights.

        Parameters
        ----------
        items : id or index, or (k,) array of them
        n : int

        Returns
        -------
        items, scores : (k, n) arrays
            Other items, most similar first, and cosine similarities; -1 (None for text ids) and nan where there are no more.
            Items without observations are left out.
        """
        return self._similar(items, n, "cols")

    def similar_users(self, users: Any, n: int = 10) -> Recommendations:
        """Users with the most similar factors; as :meth:`similar_items` for users."""
        return self._similar(users, n, "rows")

    def explain(self, user: Any, item: Any) -> Explanation:
        """Contributions of a user's items to the score of another item.

        The score of the ranking model is linear in the user's weights: item t contributes ``w_t y^T M^-1 y_t``, with M the
        matrix of the user's normal equations, or ``w_t B_ty`` with an item-to-item model.

        Parameters
        ----------
        user, item : ids or indices

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
        at = self._find(user, "rows"), self._find(item, "cols")
        if len(at[0]) != 1 or len(at[1]) != 1:
            one, other = self.state_.words
            raise ValueError(f"explain takes one {one} and one {other}, got {shown(user)} and {shown(item)}")
        found = self.state_.explain(int(at[0][0]), int(at[1][0]))
        return found._replace(items=self._ids(found.items, "cols"))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file that :func:`lorank.load` reads. The file contains no pickle and is written atomically."""
        check_is_fitted(self)
        return save_model(self, path)

    def _backend(self) -> Backend:
        return backend_for(self.device)

    def _similar(self, wanted: Any, n: int, side: str) -> Recommendations:
        check_is_fitted(self)
        found = self.state_.similar(self._find(wanted, side), n, side == "cols", self._backend())
        return self._with_ids(found, side)

    def _find(self, wanted: Any, side: str) -> np.ndarray:
        """Indices of known rows (columns)."""
        columns = side == "cols"
        return find_known(wanted, self.state_.ids, side, self.state_.shape[columns], self.state_.words[columns])

    def _ids(self, positions: np.ndarray, side: str) -> np.ndarray:
        return positions if self.state_.ids is None else ids_at(positions, self.state_.ids[side])

    def _with_ids(self, found: Recommendations, side: str) -> Recommendations:
        return Recommendations(self._ids(found.items, side), found.scores)

    def _report_unknown(self, known: np.ndarray, thing: str, verbs: tuple[str, str], what: str) -> None:
        """Warn about unknown rows or columns, or refuse them, according to ``handle_unknown``."""
        bad = np.flatnonzero(~known)
        if not len(bad) or self.handle_unknown == "ignore":
            return
        text = f"{len(bad):,} of {counted(len(known), thing)} {verbs[len(bad) != 1]} {what}"
        if self.handle_unknown == "error":
            raise ValueError(f"{text}, the first at position {bad[0]}; handle_unknown='warn' predicts averages for them")
        warnings.warn(f"{text}: average values are predicted for them (see known)", UserWarning, stacklevel=3)
