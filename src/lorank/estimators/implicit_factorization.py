"""Recommendations from what people took: views, clicks, purchases."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state

from ..backends import Backend, Observations, device_backend, get_backend
from ..common.checks import NOT_NEGATIVE, POSITIVE, YES_OR_NO, ParameterError, check, one_of, shown, whole
from ..factorization.implicit import ImplicitFactors, ImplicitSettings, fit_implicit, half_sweep, ridge_penalties
from ..factorization.implicit_selection import ImplicitCandidate, Positives, select_implicit
from ..io.archive import save_model
from ..loop.runner import INTERRUPTED
from ..problems import Completion
from .implicit_recommendation import ImplicitRecommenderMixin
from .interactions import Interactions, read_interactions, united

ZEROS, REGULARIZATION = 5.0, 0.02  # where a search begins: the weight of all zeros, that of all ones being 1; and the penalty
CONFIDENCES = ("log", "counts", "equal")
UPDATE = 2  # sweeps of partial_fit


class ImplicitFactorization(ImplicitRecommenderMixin, BaseEstimator):
    """Recommend from what people took, without ratings: all that was not taken counts as a weak "no".

    Users and items have ``rank`` factors each, and the score of an item is their product. Fitted by least squares over the
    whole matrix, with the regularisation of iALS, which grows with how often a user or an item is seen.

    Parameters
    ----------
    rank : int
        Factors of each user and each item.
    regularization : float or "auto"
        The strength of the penalty. ``"auto"`` looks for the one whose recommendations find held-out positives best.
    zeros : float or "auto"
        How much an entry that was not observed counts, 1 being an entry that was observed once. ``"auto"`` looks for it in the
        same way.
    confidence : {"log", "counts", "equal"}
        How much a pair counts that was observed c times: ``log2(1 + c)``, c, or 1.
    scaling : float
        The power of a row's (column's) total confidence in its penalty: 1 as in iALS, 0 for the same penalty for all.
    max_iter : int
        The most sweeps. Few of them regularise, too: where settings are chosen, three quarters of them or half are taken if
        those find more of what is held out.
    inner_max_iter : int
        Conjugate gradient iterations for each side in each ALS iteration.
    nonnegative : bool
        Factors that are never negative, so that each is a part that users and items have more or less of: which items belong to
        a part is seen from its column of ``item_factors_``. Ranks somewhat worse, and takes longer.
    random_state : int, RandomState or None
    device : str, optional
        Fit and recommend with PyTorch there, on ``"cuda"`` for example. The attributes are NumPy arrays all the same.

    Attributes
    ----------
    user_ids_, item_ids_ : arrays
        In rising order: the ids of the data, or the numbers of rows and columns of a sparse matrix.
    user_factors_, item_factors_ : (users, rank) and (items, rank) float32 arrays
    regularization_, zeros_ : float
    curve_ : list of ImplicitCandidate
        What was tried, with NDCG on held-out positives; empty where nothing was chosen.
    n_iter_ : int
    status_ : str
        "done", or "interrupted" where Ctrl-C ended the fit.

    Notes
    -----
    Of equal scores, the item that comes first among ``item_ids_`` is recommended first. Ctrl-C ends the fit with the factors so
    far, and ``status_`` says "interrupted".

    Raises
    ------
    ValueError
        By ``fit`` and its kin, where data or a parameter are not what they should be, by name; before ``fit`` (scikit-learn's
        NotFittedError) by all others.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank import ImplicitFactorization
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(0, 2, (60, 1))  # two kinds of people, and two kinds of things
    >>> users, items = np.nonzero(rng.random((60, 20)) < np.where(group == np.arange(20) % 2, 0.5, 0.02))
    >>> model = ImplicitFactorization(rank=2).fit(np.column_stack([users, items]))
    >>> best = model.recommend([0], n=3).items[0]
    >>> bool((best % 2 == group[0]).all())
    True
    """

    def __init__(
        self,
        rank: int = 64,
        regularization: float | str = "auto",
        *,
        zeros: float | str = "auto",
        confidence: str = "log",
        scaling: float = 1.0,
        max_iter: int = 8,
        inner_max_iter: int = 3,
        nonnegative: bool = False,
        random_state: Any = 0,
        device: str | None = None,
    ) -> None:
        self.rank = rank
        self.regularization = regularization
        self.zeros = zeros
        self.confidence = confidence
        self.scaling = scaling
        self.max_iter = max_iter
        self.inner_max_iter = inner_max_iter
        self.nonnegative = nonnegative
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        rows: Any = None,
        cols: Any = None,
        values: Any = None,
    ) -> ImplicitFactorization:
        """Fit to what was taken.

        Parameters
        ----------
        X : (m, 2) array of ids, SciPy sparse matrix (users by items), pandas or polars data frame, or Completion
            Ids are whole numbers or text. A data frame has the columns user, item and perhaps count, in this order, or they are
            named. Of a sparse matrix the stored entries are counts; rows and columns without any are users and items too. So
            are the values of a :class:`~lorank.Completion`, which is fitted where its partitions are: on disk, or at workers.
        y : (m,) array, optional
            Counts, where X has none: a pair that is there several times is counted as often. Not negative; 0 is not taken.
        sample_weight : (m,) array, optional
            A factor on how much each pair (each stored entry of a sparse matrix) counts, multiplied with its ``confidence``:
            less for old observations, for example. Not negative; of a pair that occurs several times, the mean. For a data
            frame also the name of a column.
        rows, cols, values : str, optional
            The columns of a data frame with users, items and counts.

        Notes
        -----
        There are no features of users and items here: :class:`MatrixCompletion` takes them, with ratings.
        """
        if isinstance(X, Completion):
            from .implicit_partitioned import fit_problem

            if sample_weight is not None:
                raise ValueError("sample_weight goes with pairs in main memory, not with a Completion: leave it out")
            return fit_problem(self, X, y)
        settings, search = self._plan()
        data = read_interactions(X, y, (rows, cols, values), sample_weight)
        if not len(data.users):
            raise ValueError("there are no pairs with a positive count: nothing to learn from")
        if search["zeros"]:
            total = float(self._weights(data.counts, data.weights).sum())
            settings = replace(settings, zeros=ZEROS * total / (data.shape[0] * data.shape[1]))
        positives, backend = self._positives(data), self._backend()
        self.curve_: list[ImplicitCandidate] = []
        if any(search.values()):
            settings, self.curve_ = select_implicit(
                positives,
                backend,
                settings,
                np.float32,
                zeros=search["zeros"],
                regularization=search["regularization"],
                max_iter=True,
            )
        sides = self._swept(positives.observations(backend, np.float32), backend, settings, None)
        return self._keep(data, settings, sides)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        rows: Any = None,
        cols: Any = None,
        values: Any = None,
    ) -> ImplicitFactorization:
        """Go on with more pairs, of known or new users and items: a few sweeps from the factors so far, at the same settings.

        Parameters
        ----------
        X, y, sample_weight, rows, cols, values
            As in :meth:`fit`; counts are added to those before. The first call is a fit.
        """
        if not hasattr(self, "item_factors_"):
            return self.fit(X, y, sample_weight, rows=rows, cols=cols, values=values)
        self._remembered()
        settings, _ = self._plan()
        settings = replace(settings, zeros=self.zeros_, regularization=self.regularization_, max_iter=UPDATE)
        data = united(self._data(), read_interactions(X, y, (rows, cols, values), sample_weight))
        start = []
        for ids, old, factors in (
            (data.user_ids, self.user_ids_, self.user_factors_),
            (data.item_ids, self.item_ids_, self.item_factors_),
        ):
            grown = np.zeros((len(ids), factors.shape[1]), factors.dtype)  # new ones: found from the others at once
            grown[np.searchsorted(ids, old)] = factors
            start.append(grown)
        backend = self._backend()
        sides = ImplicitFactors(*(backend.asarray(a) for a in start))
        sides = self._swept(self._positives(data).observations(backend, np.float32), backend, settings, sides)
        return self._keep(data, settings, sides)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file that :func:`lorank.load` reads. No pickle; written in one go."""
        check_is_fitted(self)
        return save_model(self, path)

    # -- what the methods share ---------------------------------------------------------------------------------------
    def _plan(self) -> tuple[ImplicitSettings, dict[str, bool]]:
        """The settings to begin with, and what is to be chosen."""
        check("rank", self.rank, whole(1))
        check("confidence", self.confidence, one_of(CONFIDENCES))
        check("scaling", self.scaling, NOT_NEGATIVE)
        check("max_iter", self.max_iter, whole(1))
        check("inner_max_iter", self.inner_max_iter, whole(1))
        check("nonnegative", self.nonnegative, YES_OR_NO)
        search, numbers = {}, {}
        for name, first in (("zeros", ZEROS), ("regularization", REGULARIZATION)):
            given = getattr(self, name)
            search[name] = isinstance(given, str) and given == "auto"
            if not search[name] and not POSITIVE.holds(given):
                raise ParameterError(name, f"must be positive and finite, or 'auto': got {shown(given)}")
            numbers[name] = first if search[name] else float(given)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        settings = ImplicitSettings(
            rank=int(self.rank),
            scaling=float(self.scaling),
            max_iter=int(self.max_iter),
            inner_max_iter=int(self.inner_max_iter),
            seed=seed,
            nonnegative=bool(self.nonnegative),
            **numbers,
        )
        return settings, search

    def _backend(self) -> Backend:
        return get_backend() if self.device is None else device_backend(str(self.device))

    def _weights(self, counts: np.ndarray, factors: np.ndarray | None = None) -> np.ndarray:
        """Confidence by counts, times the weights that were given."""
        if self.confidence == "equal":
            found = np.ones(len(counts))
        else:
            found = np.log2(1 + counts) if self.confidence == "log" else counts
        return found if factors is None else found * factors

    def _positives(self, data: Interactions) -> Positives:
        weights = self._weights(data.counts, data.weights)
        return Positives(data.users, data.items, None if (weights == 1).all() else weights, data.shape)

    def _swept(
        self, observations: Observations, backend: Backend, settings: ImplicitSettings, start: ImplicitFactors | None
    ) -> ImplicitFactors:
        """The fit, or what there is of it when Ctrl-C comes."""
        last: list[ImplicitFactors] = []
        self.n_iter_, self.status_ = 0, "done"

        def after(sides: ImplicitFactors) -> bool:
            last[:] = [sides]
            self.n_iter_ += 1
            return False

        try:
            if start is not None:  # new items first, from the users who have factors already
                cols = ridge_penalties(observations, backend, settings)[1]
                start = half_sweep(observations, backend, True, start, cols, settings)
            return fit_implicit(observations, backend, settings, start, after_sweep=after)
        except KeyboardInterrupt:
            if not last:
                raise
            self.status_ = str(INTERRUPTED)
            return last[0]

    def _keep(self, data: Interactions, settings: ImplicitSettings, sides: ImplicitFactors) -> ImplicitFactorization:
        backend = self._backend()
        self.user_ids_, self.item_ids_ = data.user_ids, data.item_ids
        self.user_factors_, self.item_factors_ = (backend.to_numpy(a) for a in (sides.rows, sides.cols))
        self.zeros_, self.regularization_ = settings.zeros, settings.regularization
        self._remember(*self._positives(data).pattern(), data.counts, data.weights)
        return self

    def _remember(self, indptr: np.ndarray, indices: np.ndarray, counts: np.ndarray, factors: np.ndarray | None = None) -> None:
        """What each user took, and how many pairs each user and each item has."""
        self._factors = factors
        self._seen: tuple[np.ndarray, np.ndarray] | None = (indptr, indices)
        self._counts, self._totals = counts, (np.diff(indptr), np.bincount(indices, minlength=len(self.item_ids_)))

    def _forget(self, users: np.ndarray, items: np.ndarray) -> None:
        """Only how many pairs each user and each item has: there are too many of them."""
        self._seen, self._counts, self._factors, self._totals = None, np.empty(0), None, (users, items)

    def _data(self) -> Interactions:
        indptr, indices = self._remembered()
        users = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        return Interactions(users, indices.astype(np.int64), self._counts, self.user_ids_, self.item_ids_, self._factors)
