"""ImplicitFactorization: recommendations from implicit feedback (views, clicks, purchases)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..backends import Backend, Observations, get_backend
from ..common.checks import NOT_NEGATIVE, POSITIVE, YES_OR_NO, one_of, or_word, whole
from ..factorization.implicit import ImplicitFactors, ImplicitSettings, fit_implicit
from ..factorization.implicit_selection import ImplicitCandidate, Positives, select_implicit
from ..factorization.order_selection import RANKS, OrderCandidate, select_order
from ..factorization.ranking_model import RankingModel
from ..loop.runner import INTERRUPTED
from ..problems import Completion
from .implicit_state import CONFIDENCES, ImplicitEstimator, ImplicitState, confidences, item_counts, positives_of, sample_users
from .inputs import Interactions
from .recommendation import part_of_state

ZEROS, REGULARIZATION = 5.0, 0.02  # where the search starts: total weight of the unobserved pairs relative to the observed ones
FACTOR_COPIES = 8  # arrays of the size of one side's factors that a fit to partitions holds at a time, about


class ImplicitFactorization(ImplicitEstimator):
    """Recommend items from implicit feedback: unobserved pairs count as weak negatives.

    Users and items have ``rank`` factors each, and the score of an item is their product. Fitted by weighted least squares
    over the whole matrix with the frequency-scaled regularization of iALS.

    Parameters
    ----------
    rank : int or "auto"
        Number of factors. ``"auto"`` tries 64, 128 and 256 on held-out pairs, and selects the order of recommendations there:
        by the factors, by an item-to-item model (:class:`EASE` or item neighborhoods), or by popularity. With a number, or
        ``nonnegative=True``, the factors order recommendations.
    regularization : float or "auto"
        Weight of the penalty. ``"auto"`` selects it by the NDCG of held-out pairs.
    zeros : float or "auto"
        Weight of an unobserved pair relative to a pair that was observed once. ``"auto"`` selects it in the same way.
    confidence : {"log", "counts", "equal"}
        Weight of a pair with count c: ``log2(1 + c)``, c, or 1.
    scaling : float
        Exponent of the total confidence of a user (item) in its penalty: 1 as in iALS, 0 for the same penalty for all.
    max_iter : int
        Maximum number of ALS iterations. Early stopping regularizes: where settings are selected, three quarters or half of
        the iterations are made if that improves the NDCG of held-out pairs.
    inner_max_iter : int
        Conjugate gradient iterations for each side in each ALS iteration.
    nonnegative : bool
        Nonnegative factors, which are interpretable as parts: a column of ``item_factors_`` shows the items of a part. Ranks
        slightly worse and takes longer.
    random_state : int, RandomState or None
    verbose : int
        1 logs fits and the selection, 2 also iterations, to standard error or the handlers of the logger ``lorank``; 0 (the
        default) logs nothing.
    device : str, optional
        PyTorch device of the fit and of recommendations, such as ``"cuda"``. The attributes are NumPy arrays.

    Attributes
    ----------
    user_ids_, item_ids_ : arrays
        In ascending order: ids of the data, or row and column indices of a sparse matrix.
    user_factors_, item_factors_ : (users, rank) and (items, rank) float32 arrays
    regularization_, zeros_ : float
    rank_ : int
    order_ : {"affinity", "similarity", "popularity"}
        Order of :meth:`recommend`: factors, item-to-item model or popularity. ``orders_`` has those that were compared.
    state_ : ImplicitState
        All of the fitted model, immutable; the attributes above are parts of it.
    curve_ : list of ImplicitCandidate
        Settings that were tried, with the NDCG of held-out pairs; empty where nothing was selected.
    n_iter_ : int
    status_ : str
        "done", or "interrupted" after Ctrl-C.

    Notes
    -----
    Among items of equal score, the one that comes first in ``item_ids_`` is recommended first. Ctrl-C ends the fit with the
    factors so far and ``status_`` "interrupted".

    Raises
    ------
    ValueError
        By ``fit`` and ``partial_fit`` for invalid data or parameters; by all other methods before ``fit`` (scikit-learn's
        NotFittedError).

    Examples
    --------
    >>> import numpy as np
    >>> from lorank import ImplicitFactorization
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(0, 2, (60, 1))  # two groups of users, and two groups of items
    >>> users, items = np.nonzero(rng.random((60, 20)) < np.where(group == np.arange(20) % 2, 0.5, 0.02))
    >>> model = ImplicitFactorization(rank=2).fit(np.column_stack([users, items]))
    >>> best = model.recommend([0], n=3).items[0]
    >>> bool((best % 2 == group[0]).all())
    True
    """

    parameters: ClassVar = {
        "rank": or_word(whole(1), "auto"),
        "regularization": or_word(POSITIVE, "auto"),
        "zeros": or_word(POSITIVE, "auto"),
        "confidence": one_of(CONFIDENCES),
        "scaling": NOT_NEGATIVE,
        "max_iter": whole(1),
        "inner_max_iter": whole(1),
        "nonnegative": YES_OR_NO,
    }
    user_factors_: np.ndarray = part_of_state("ranking.rows")
    item_factors_: np.ndarray = part_of_state("ranking.cols")
    rank_: int = part_of_state("ranking.rank")
    regularization_: float = part_of_state("ranking.settings.regularization")
    zeros_: float = part_of_state("ranking.settings.zeros")

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        regularization: float | Literal["auto"] = "auto",
        *,
        zeros: float | Literal["auto"] = "auto",
        confidence: str = "log",
        scaling: float = 1.0,
        max_iter: int = 8,
        inner_max_iter: int = 3,
        nonnegative: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
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
        self.verbose = verbose
        self.device = device

    def plot(self, figure: Any = None) -> Any:
        """Plot held-out NDCG of the settings and of the orders of recommendations that were compared.

        Needs matplotlib.

        Parameters
        ----------
        figure : matplotlib figure, optional
            Where to draw; by default a new figure with a transparent ground, for light and dark pages.

        Returns
        -------
        matplotlib figure
        """
        from .plots import plot_implicit

        check_is_fitted(self)
        return plot_implicit(self, figure)

    def _fit_pairs(self, data: Interactions) -> ImplicitState:
        settings, positives, backend = self._settings(), positives_of(data, self.confidence), self._backend()
        if self.zeros == "auto":
            total = float(confidences(self.confidence, data.counts, data.weights).sum())
            settings = replace(settings, zeros=ZEROS * total / (data.shape[0] * data.shape[1]))
        self.status_ = "done"
        settings, self.curve_ = self._select(positives, backend, settings)
        order, items, tried = "affinity", None, list[OrderCandidate]()
        if self.rank == "auto" and not self.nonnegative:
            ranks = [RANKS[0], *(rank for rank in RANKS[1:] if rank <= min(data.shape))]
            liked: np.ndarray = np.ones(len(data.users), bool)
            try:
                order, settings, items, tried = select_order(positives, liked, backend, settings, ranks)
            except KeyboardInterrupt:
                self.status_, settings = str(INTERRUPTED), replace(settings, max_iter=1)
        sides = self._fit_factors(positives.observations(backend, np.float32), backend, settings)
        popularity = item_counts(data).astype(float)
        left, right = map(backend.to_numpy, sides)
        ranking = RankingModel(left, right, popularity, settings, order=order, item_settings=items, candidates=tuple(tried))
        if items is not None:
            ranking = replace(ranking, items=items.fit(positives.matrix(), backend, settings.seed))
        return ImplicitState.of(data, self.confidence, ranking)

    def _fit_partitions(self, problem: Completion) -> RankingModel:
        if self.nonnegative:
            raise ValueError("nonnegative=True takes pairs in main memory, not partitions: leave it out, or fit to arrays")
        settings, backend, (n1, n2) = self._settings(), problem.backend, problem.shape
        workers = problem.observations.graph.engine.workers  # type: ignore[attr-defined]
        backend.check_bytes(FACTOR_COPIES * 4 * settings.rank * (n1 + n2 * workers), f"factors of rank {settings.rank}")
        observed, total = self._partitioned_positives(problem)
        if self.zeros == "auto":
            settings = replace(settings, zeros=ZEROS * total / (n1 * n2))
        self.status_, self.curve_ = "done", list[ImplicitCandidate]()
        if "auto" in (self.zeros, self.regularization):
            settings, self.curve_ = self._select(sample_users(observed, settings.seed), get_backend(), settings)
        left, right = map(backend.to_numpy, self._fit_factors(observed, backend, settings))
        return RankingModel(left, right, np.zeros(n2), settings)

    def _settings(self) -> ImplicitSettings:
        """Settings of the fit; those that are to be selected are initial values."""
        return ImplicitSettings(
            RANKS[0] if self.rank == "auto" else int(self.rank),
            ZEROS if self.zeros == "auto" else float(self.zeros),
            REGULARIZATION if self.regularization == "auto" else float(self.regularization),
            float(self.scaling),
            int(self.max_iter),
            int(self.inner_max_iter),
            self._seed(),
            bool(self.nonnegative),
        )

    def _select(
        self, data: Positives, backend: Backend, settings: ImplicitSettings
    ) -> tuple[ImplicitSettings, list[ImplicitCandidate]]:
        """Select the settings that are not given; after Ctrl-C, the initial ones and a single iteration."""
        options = {name: getattr(self, name) == "auto" for name in ("zeros", "regularization")}
        if not any(options.values()):
            return settings, []
        try:
            return select_implicit(data, backend, settings, np.float32, **options, max_iter=True)
        except KeyboardInterrupt:
            self.status_ = str(INTERRUPTED)
            return replace(settings, max_iter=1), []

    def _fit_factors(self, observations: Observations, backend: Backend, settings: ImplicitSettings) -> ImplicitFactors:
        """Factors of users and items; after Ctrl-C, those of the last iteration, or of the first one, computed anew."""
        last: list[ImplicitFactors] = []
        self.n_iter_ = 0

        def after(factors: ImplicitFactors) -> bool:
            last[:] = [factors]
            self.n_iter_ += 1
            return False

        try:
            return fit_implicit(observations, backend, settings, after_sweep=after)
        except KeyboardInterrupt:
            self.status_ = str(INTERRUPTED)
            return last[0] if last else fit_implicit(observations, backend, replace(settings, max_iter=1), after_sweep=after)
