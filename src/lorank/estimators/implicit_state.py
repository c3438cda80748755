"""Fitted state and common methods of the estimators of implicit feedback: ImplicitFactorization and EASE."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state

from ..backends import Observations
from ..common.blas_threads import one_blas_thread
from ..common.checks import Expected, check_parameters, counted
from ..common.logs import verbose_fit
from ..factorization.implicit_selection import MANY, Positives
from ..factorization.ranking_model import RankingModel
from ..problems import Completion
from .fitting import MAX_STORED
from .frames import pair_columns
from .inputs import Interactions, check_completion, check_counts, read_interactions, union_interactions
from .recommendation import RankedState, RecommendationMixin, part_of_state

CONFIDENCES = ("log", "counts", "equal")


class Pattern(NamedTuple):
    """Training data by user, as a sparse matrix.

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
class ImplicitState(RankedState):
    """Everything that recommendations, ``partial_fit`` and model files need of a fitted estimator of implicit feedback.

    Attributes
    ----------
    user_ids, item_ids : arrays
        In ascending order.
    ranking : RankingModel
    confidence : {"log", "counts", "equal"}
    training : Pattern or None
        The pairs; None after a fit to partitions with too many of them.
    user_counts, item_counts : arrays
        Number of pairs of each user and item.
    """

    user_ids: np.ndarray
    item_ids: np.ndarray
    ranking: RankingModel
    confidence: str
    training: Pattern | None
    user_counts: np.ndarray
    item_counts: np.ndarray

    @classmethod
    def of(cls, data: Interactions, confidence: str, ranking: RankingModel) -> ImplicitState:
        """The state after a fit to these pairs."""
        indptr, indices = positives_of(data, confidence).pattern()
        training, counts = Pattern(indptr, indices, data.counts, data.weights), (np.diff(indptr), item_counts(data))
        return cls(data.user_ids, data.item_ids, ranking, confidence, training, *counts)

    @property
    def ids(self) -> dict[str, np.ndarray]:
        return {"rows": self.user_ids, "cols": self.item_ids}

    @property
    def names(self) -> tuple[str, str]:
        return self.words

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.user_ids), len(self.item_ids)

    @property
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        return self.user_counts, self.item_counts

    @property
    def never(self) -> np.ndarray:
        return np.asarray(self.item_counts == 0)

    def require_ranking(self) -> RankingModel:
        return self.ranking

    def require_training(self) -> Pattern:
        """The training data; a ValueError where the model does not store them."""
        if self.training is None:
            raise ValueError(
                f"the model was fitted to {counted(self.user_counts.sum(), 'pair')} in partitions, too many to store: pass "
                "exclude_seen=False, or use lorank recommend --all --ratings FOLDER"
            )
        return self.training

    def training_pattern(self) -> tuple[np.ndarray, np.ndarray]:
        return self.require_training()[:2]

    def confidences(self) -> np.ndarray:
        _, _, counts, weights = self.require_training()
        return confidences(self.confidence, counts, weights)

    def new_weights(self, counts: Any, m: int) -> np.ndarray:
        return confidences(self.confidence, check_counts(counts, m))

    def interactions(self) -> Interactions:
        """The training data as pairs."""
        indptr, indices, counts, weights = self.require_training()
        users = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        return Interactions(users, indices.astype(np.int64), counts, self.user_ids, self.item_ids, weights)

    def scores_at(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """Scores of pairs, by the order of the recommendations."""
        ranking = self.ranking
        if ranking.order == "affinity":
            return np.einsum("ij,ij->i", ranking.rows[rows], ranking.cols[cols]).astype(float)
        if ranking.items is None:
            return np.asarray(ranking.popularity[cols] / max(len(ranking.rows), 1))
        found, column = np.empty(len(rows)), {int(col): ranking.items.column(int(col)) for col in np.unique(cols)}
        for k, (row, col) in enumerate(zip(rows, cols, strict=True)):
            taken = self.taken(np.array([row]))
            found[k] = taken.data @ column[int(col)][taken.indices]
        return found


def confidences(kind: str, counts: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Confidence of each pair by its count, multiplied by its weight."""
    found: np.ndarray = np.ones(len(counts)) if kind == "equal" else np.log2(1 + counts) if kind == "log" else counts
    return found if weights is None else found * weights


def positives_of(data: Interactions, confidence: str) -> Positives:
    """The pairs with their confidences."""
    weights = confidences(confidence, data.counts, data.weights)
    return Positives(data.users, data.items, None if (weights == 1).all() else weights, data.shape)


def item_counts(data: Interactions) -> np.ndarray:
    """Number of pairs of each item."""
    return np.bincount(data.items, minlength=data.shape[1])


@one_blas_thread
class ImplicitEstimator(RecommendationMixin, BaseEstimator):
    """Base of the estimators of implicit feedback: fit, prediction and updates."""

    parameters: ClassVar[dict[str, Expected]]  # valid values
    confidence: str
    random_state: Any
    state_: ImplicitState
    user_ids_: np.ndarray = part_of_state("user_ids")
    item_ids_: np.ndarray = part_of_state("item_ids")

    @verbose_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        rows: Any = None,
        cols: Any = None,
        values: Any = None,
    ) -> Self:
        """Fit to pairs of user and item.

        Parameters
        ----------
        X : (m, 2) array of ids, SciPy sparse matrix (users by items), pandas or polars data frame, or Completion
            Ids are whole numbers or text. A data frame has columns of users, items and optionally counts, in this order or
            named. The stored entries of a sparse matrix are counts; empty rows and columns are users and items, too. The
            values of a :class:`~lorank.Completion` are counts; factors and :class:`EASE` of low rank are fitted where its
            partitions are, on disk or at workers.
        y : (m,) array, optional
            Counts, where X has none; pairs that occur several times are added up. Not negative; pairs with count 0 are
            dropped.
        sample_weight : (m,) array, optional
            Factor on the confidence of each pair (each stored entry of a sparse matrix): smaller for old pairs, for example.
            Not negative; a pair that occurs several times gets the mean. For a data frame also the name of a column.
        rows, cols, values : str, optional
            Columns of a data frame with users, items and counts.

        Notes
        -----
        Features of users and items are supported by :class:`MatrixCompletion`, with ratings.
        """
        check_parameters(self, **self.parameters)
        if isinstance(X, Completion):
            self.state_ = self._fit_problem(X, y, sample_weight)
        else:
            data = read_interactions(X, y, (rows, cols, values), sample_weight)
            if not len(data.users):
                raise ValueError("there are no pairs with a positive count: nothing to learn from")
            self.state_ = self._fit_pairs(data)
        return self

    @abstractmethod
    def _fit_pairs(self, data: Interactions) -> ImplicitState:
        """The state after a fit to pairs in main memory."""

    @abstractmethod
    def _fit_partitions(self, problem: Completion) -> RankingModel:
        """The ranking model, without popularities, after a fit to the counts of a partitioned problem."""

    def _fit_problem(self, problem: Completion, y: Any, sample_weight: Any) -> ImplicitState:
        """The state after a fit to the counts of a problem, where they are."""
        _check_problem(problem, y, sample_weight, self.device)
        ids = [np.arange(n) if a is None else a for a, n in zip((problem.row_ids, problem.col_ids), problem.shape, strict=True)]
        backend, training = problem.backend, None
        if getattr(problem.observations, "graph", None) is None:
            indptr, indices, values, _ = problem.observations.host()
            pairs = read_interactions(scipy.sparse.csr_array((values, indices, indptr), shape=problem.shape))
            return replace(self._fit_pairs(pairs), user_ids=ids[0], item_ids=ids[1])
        ranking = self._fit_partitions(problem)
        if problem.m <= MAX_STORED:
            indptr, indices, values, _ = problem.observations.host()
            training = Pattern(indptr, indices, values.astype(float))
            counts = [np.diff(indptr), np.bincount(indices, minlength=problem.shape[1])]
        else:
            counts = [backend.to_numpy(problem.observations.counts(side)) for side in (0, 1)]
        ranking = replace(ranking, popularity=np.asarray(counts[1], float))
        return ImplicitState(ids[0], ids[1], ranking, self.confidence, training, counts[0], counts[1])

    def _partitioned_positives(self, problem: Completion) -> tuple[Observations, float]:
        """Ones in single precision with confidences as weights, where the counts are; and the sum of the confidences."""
        backend, observed = problem.backend, problem.observations
        counts = backend.astype(observed.values, np.float64)
        same = float(counts.min()) == float(counts.max()) == 1.0
        if not same or problem.dtype != np.float32:
            observed = observed.with_values(backend.astype(counts * 0 + 1, np.float32))
        if same or self.confidence == "equal":
            return observed, float(problem.m)
        weights = np.log2(counts + 1) if self.confidence == "log" else counts
        return observed.with_weights(backend.astype(weights, np.float32)), float(weights.sum())

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def predict(self, X: Any) -> np.ndarray:
        """Scores at (user, item) pairs of known ids, by the order of :meth:`recommend`: large for likely items."""
        check_is_fitted(self)
        users, items, _ = pair_columns(X, None)
        return self.state_.scores_at(self._find(users, "rows"), self._find(items, "cols"))

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        rows: Any = None,
        cols: Any = None,
        values: Any = None,
    ) -> Self:
        """Update the model with more pairs, of known or new users and items: a few iterations at the same settings.

        Parameters
        ----------
        X, y, sample_weight, rows, cols, values
            As in ``fit``; counts are added to those of the pairs before. The first call is a fit.
        """
        if not hasattr(self, "state_"):
            return self.fit(X, y, sample_weight, rows=rows, cols=cols, values=values)
        state = self.state_
        data = union_interactions(state.interactions(), read_interactions(X, y, (rows, cols, values), sample_weight))
        at = np.searchsorted(data.user_ids, state.user_ids), np.searchsorted(data.item_ids, state.item_ids)
        positives = positives_of(data, state.confidence)
        grown = state.ranking.grown(*at, data.shape)
        ranking = grown.updated(positives, item_counts(data).astype(float), self._backend())
        self.state_ = ImplicitState.of(data, state.confidence, ranking)
        return self


def _check_problem(problem: Completion, y: Any, sample_weight: Any, device: str | None) -> None:
    """A ValueError for a Completion whose values are no counts, and for incompatible parameters."""
    check_completion(problem, y, sample_weight, device)
    if problem.observations.weights is not None:
        raise ValueError("the Completion has weights: make it without them, with counts as values")
    least = float(problem.y.min())
    if not least > 0:
        raise ValueError(
            f"the smallest value of the Completion is {least:g}: counts are positive. Leave out pairs without counts and "
            "disliked items, or fit MatrixCompletion to ratings"
        )


def sample_users(observed: Any, seed: int) -> Positives:
    """Pairs in main memory for the selection: those of so many users that there are not too many."""
    n1, n2 = observed.shape
    kept: np.ndarray = np.ones(n1, bool)
    if observed.m > MANY:
        kept = np.random.default_rng(seed).random(n1) < MANY / observed.m
    rows, cols, weights = observed.of_rows(kept)
    number = np.cumsum(kept) - 1
    return Positives(number[rows], cols, weights, (int(kept.sum()), n2))
