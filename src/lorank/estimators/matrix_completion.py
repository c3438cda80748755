"""MatrixCompletion: a regressor on pairs of row and column, with recommendations."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..backends import Backend, get_backend
from ..common.blas_threads import one_blas_thread
from ..common.checks import NOT_NEGATIVE, SHARE, YES_OR_NO, check_parameters, one_of, optional, or_word, whole
from ..common.logs import verbose_fit
from ..factorization import FactorModel
from ..losses import Loss
from ..problems import Completion
from .fitting import FitResult, fit_entries, fit_problem, fit_ranking, is_robust
from .inputs import BOUNDS, check_values, find_pairs, read_entries
from .partial_fit import add_features, add_observations, update_ranking
from .ratings_state import FoldIn, RatingsState
from .recommendation import RecommendationMixin, backend_for, part_of_state


@one_blas_thread
class MatrixCompletion(RecommendationMixin, RegressorMixin, BaseEstimator):
    """Predict entries of a matrix from other, noisy entries.

    Values are the sum of a mean, biases of row and column, and a product of ``rank`` factors of each.

    Parameters
    ----------
    rank : int or "auto"
        Number of factors; 0 for biases only. ``"auto"`` begins at the number of components that stand out from noise
        (``spectrum_``), and tries larger and smaller ones on held-out observations.
    regularization : float, "learned" or "auto"
        Regularization of the factors. A number multiplies ``penalty``. ``"learned"`` estimates priors of the factors and the
        noise of each row and column by variational Bayes. ``"auto"`` compares both on held-out observations; from 300,000
        observations on it takes learned priors without comparison.
    penalty : {"nuclear", "frobenius"}
        Penalty that a number as ``regularization`` multiplies: the sum of the singular values, or half the sum of their
        squares.
    count_scaling : float
        Scale the penalty of each row and column with its number of observations to this power.
    biases : bool
        Fit a mean and biases of rows and columns. False: the matrix itself is of low rank.
    bounds : "auto", (float, float) or None
        Clip predictions to this range. "auto" takes the range of the values where they are a rating scale: at most 20
        different ones (``bounds_``).
    nonnegative : bool
        Nonnegative matrix factorization: factors are nonnegative and there are no biases, so that each value is a sum of
        ``rank`` parts. Factors are shrunk to the mean of their side instead of to zero. ``regularization`` is selected on
        held-out observations unless it is a number.
    loss : str or Loss
        Loss function: ``"squares"``; ``"robust"``, least squares without outliers, which are detected (``outliers_``);
        ``"huber"``, ``"absolute"``, ``"cauchy"`` or ``"tukey"`` for heavy-tailed noise; ``"logistic"`` for two classes,
        ``"ordinal"`` for ratings, ``"poisson"`` for counts. Predictions are then probabilities, expected ratings and expected
        counts, and ranks are selected by held-out deviance. See :doc:`/losses`.
    solver : {"auto", "variational", "alternating"}
        ``"variational"`` learns priors; ``"alternating"`` minimizes the penalized loss; ``"auto"`` follows from
        ``regularization``.
    intervals : bool
        Hold out observations to calibrate :meth:`predict_interval` even where nothing is selected on them; takes a second
        fit.
    ranking : bool
        Also fit the ranking model, an implicit-feedback model of the same data, which :meth:`recommend`,
        :meth:`similar_items`, :meth:`similar_users` and :meth:`explain` need, and select the order of recommendations on
        held-out lists; :meth:`fit_ranking` does it later.
    holdout : float
        Share of the observations held out for selection and calibration.
    cv : int
        Number of folds for selection and calibration; 1 holds out ``holdout`` once.
    n_jobs : int, optional
        Processes for the folds.
    shape : (int, int), optional
        Shape of the matrix; by default the smallest one that contains the pairs.
    handle_unknown : {"warn", "ignore", "error"}
        Whether to warn about rows, columns and ids without observations in ``fit``, to ignore or to refuse them. Averages are
        predicted for them.
    random_state : int, RandomState or None
    verbose : int
        1 logs fits and the selection, 2 also iterations, to standard error or the handlers of the logger ``lorank``; 0 (the
        default) logs nothing.
    device : str, optional
        PyTorch device of the fit, such as ``"cuda"``. The attributes are NumPy arrays, and predictions need no device.
    tol : float
        Stop when further iterations are expected to lower the prediction error by less than this, relatively.
    max_iter : int
        Maximum number of ALS iterations.

    Attributes
    ----------
    U_, s_, V_ : arrays
        Singular value decomposition ``U diag(s) V^T`` of the matrix without mean and biases.
    row_bias_, col_bias_ : arrays
    mean_ : float
    row_factors_, col_factors_ : (n1, rank) and (n2, rank) arrays
        Fitted factors; ``row_factors_ @ col_factors_.T`` is the matrix without mean and biases. With ``nonnegative=True`` they
        are nonnegative, the largest part first.
    rank_ : int
        0 where factors do not predict better than biases alone.
    regularization_ : float or "learned"
    n_iter_ : int
    status_ : Status
        "converged", "max_iter" or "interrupted", with advice.
    history_ : History
    curve_ : list of Candidate
        Rank, regularization and held-out error of all candidates; empty where nothing was selected.
    spectrum_ : Spectrum or None
        With ``rank="auto"``: singular values of the observations without biases, normalized by the numbers of observations of
        rows and columns, and the null edge, above which they are structure; their number is the first rank that is tried.
    heldout_ : (3, m) array or None
        Values, predictions and predictive standard deviations of the held-out observations.
    diagnosis_ : Diagnosis
    outliers_ : (m,) bool array or None
        With ``loss="robust"``: flags of the observations that were left out.
    model_ : FactorModel
    bounds_ : (float, float) or None
        The range of predictions.
    loss_ : Loss or None
        With its fitted parameters (scale, thresholds); None for least squares.
    classes_ : array
        With ``loss="logistic"`` and ``"ordinal"``: the classes, in the order of :meth:`predict_proba`.
    ids_ : dict or None
        Ids of ``"rows"`` and ``"cols"``, in the order of the arrays above; None after a fit to index pairs.
    order_ : {"affinity", "similarity", "popularity", "rating"}
        With a ranking model: the order of :meth:`recommend` that found most on held-out lists (``orders_``).
    state_ : RatingsState
        All of the fitted model, immutable; the attributes from ``model_`` to here are parts of it.

    Raises
    ------
    ValueError
        By ``fit`` and ``partial_fit`` for invalid data or parameters; by all other methods before ``fit`` (scikit-learn's
        NotFittedError).

    Examples
    --------
    >>> import numpy as np
    >>> from lorank import MatrixCompletion
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))
    >>> pairs = np.argwhere(rng.random(X.shape) < 0.5)
    >>> model = MatrixCompletion(rank=2).fit(pairs, X[pairs[:, 0], pairs[:, 1]])
    >>> bool(abs(model.predict([[0, 0]])[0] - X[0, 0]) < 0.5)
    True
    """

    parameters: ClassVar = {  # valid values
        "rank": or_word(whole(0), "auto"),
        "regularization": or_word(NOT_NEGATIVE, "auto", "learned"),
        "penalty": one_of(("nuclear", "frobenius")),
        "count_scaling": NOT_NEGATIVE,
        "bounds": optional(or_word(BOUNDS, "auto")),
        "nonnegative": YES_OR_NO,
        "solver": one_of(("auto", "variational", "alternating")),
        "ranking": YES_OR_NO,
        "holdout": SHARE,
        "cv": whole(1),
        "handle_unknown": one_of(("warn", "ignore", "error")),
        "tol": NOT_NEGATIVE,
        "max_iter": whole(1),
    }
    state_: RatingsState
    model_: FactorModel = part_of_state("model")
    mean_: float = part_of_state("model.mean")
    rank_: int = part_of_state("model.rank")
    row_bias_: np.ndarray = part_of_state("model.row_biases")
    col_bias_: np.ndarray = part_of_state("model.col_biases")
    row_factors_: np.ndarray = part_of_state("model.row_factors")
    col_factors_: np.ndarray = part_of_state("model.col_factors")
    U_: np.ndarray = part_of_state("svd.U")
    s_: np.ndarray = part_of_state("svd.s")
    V_: np.ndarray = part_of_state("svd.V")
    bounds_: tuple[float, float] | None = part_of_state("bounds")
    loss_: Loss | None = part_of_state("loss")
    ids_: dict[str, np.ndarray] | None = part_of_state("ids")

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        regularization: float | Literal["learned", "auto"] = "auto",
        *,
        penalty: Literal["nuclear", "frobenius"] = "nuclear",
        count_scaling: float = 0.0,
        biases: bool = True,
        bounds: tuple[float, float] | Literal["auto"] | None = "auto",
        nonnegative: bool = False,
        loss: Any = "squares",
        solver: Literal["auto", "variational", "alternating"] = "auto",
        intervals: bool = False,
        ranking: bool = False,
        holdout: float = 0.1,
        cv: int = 1,
        n_jobs: int | None = None,
        shape: tuple[int, int] | None = None,
        handle_unknown: Literal["warn", "ignore", "error"] = "warn",
        random_state: Any = 0,
        verbose: int = 0,
        device: str | None = None,
        tol: float = 1e-3,
        max_iter: int = 50,
    ) -> None:
        self.rank = rank
        self.regularization = regularization
        self.penalty = penalty
        self.count_scaling = count_scaling
        self.biases = biases
        self.bounds = bounds
        self.nonnegative = nonnegative
        self.loss = loss
        self.solver = solver
        self.intervals = intervals
        self.ranking = ranking
        self.holdout = holdout
        self.cv = cv
        self.n_jobs = n_jobs
        self.shape = shape
        self.handle_unknown = handle_unknown
        self.random_state = random_state
        self.verbose = verbose
        self.device = device
        self.tol = tol
        self.max_iter = max_iter

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
        row_features: Any = None,
        col_features: Any = None,
    ) -> MatrixCompletion:
        """Fit to observed entries.

        Parameters
        ----------
        X : (m, 2) array of whole numbers or text, SciPy sparse matrix, data frame of pandas or polars, or a Completion
            Row and column of each observation; the stored entries of a sparse matrix. Whole numbers in arrays are indices,
            counted from 0. Text, and any column of a data frame, are ids; all methods then take and return ids. A
            :class:`~lorank.Completion` may be larger than memory, or on a cluster
            (:func:`lorank.distributed.from_partitions`).
        y : (m,) array
            Values; left out for a sparse matrix, a Completion and a data frame with a column of values.
        sample_weight : (m,) array, optional
            An observation of weight 2 counts like two. For a data frame also the name of a column.
        rows, cols, values : str, optional
            Columns of a data frame with rows (users), columns (items) and values (ratings). By default its two or three
            columns in this order; of more columns, those with usual names, such as user, item and rating.
        row_features, col_features : data frame, (n, d) array or sparse matrix, optional
            Features of rows and columns, on which the prior means of their factors depend. A data frame with the ids in a
            column named as in X, or one line for each index. Integers with at most 32 levels are used as categories, too;
            text of one word is a category, other text is hashed by words; missing cells get the mean. Each observed row
            needs a line; rows without observations are predicted from their features.

        Notes
        -----
        Ctrl-C ends the fit with the best model so far and ``status_`` "interrupted".
        """
        check_parameters(self, **self.parameters)
        if isinstance(X, Completion):
            if row_features is not None or col_features is not None:
                raise ValueError("row_features and col_features need observations in arrays or data frames, not a Completion")
            return self._set(fit_problem(self, X, y, sample_weight))
        entries, weights = read_entries(X, y, (rows, cols, values), sample_weight)
        return self._set(fit_entries(self, entries, weights, row_features, col_features))

    def partial_fit(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        rows: Any = None,
        cols: Any = None,
        values: Any = None,
        row_features: Any = None,
        col_features: Any = None,
    ) -> MatrixCompletion:
        """Update the model with more observations, of known or new rows and columns.

        Factors of new rows and columns are computed from those of the others; rows and columns with new observations are
        solved again. The rank, priors, mean and calibration of intervals stay, as do ``history_`` and ``diagnosis_``: fit
        again when there are many more observations than at the last fit. The ranking model is updated where there is one.

        Parameters
        ----------
        X, y, sample_weight, rows, cols, values
            As in :meth:`fit`; index pairs after a fit to index pairs, ids after a fit to ids. A pair that was observed before
            gets the mean of its values; classes have no mean, and such a pair is refused. The first call is a fit. X may be
            left out where only features are new.
        row_features, col_features : optional
            Features of new rows and columns, as in :meth:`fit`; required for each of them after a fit with features.
        """
        names = rows, cols, values
        if not hasattr(self, "state_"):
            features = {"row_features": row_features, "col_features": col_features}
            return self.fit(X, y, sample_weight, rows=rows, cols=cols, values=values, **features)
        state = add_features(self.state_, row_features, col_features)
        if X is not None or (row_features is None and col_features is None):
            if is_robust(self) and not isinstance(X, Completion):
                raise ValueError("loss='robust' detects outliers among all observations: fit again, with all of them")
            state = add_observations(state, X, y, names, sample_weight)
        self.state_ = update_ranking(state, backend_for(self.device)) if state is not self.state_ else state
        return self

    def fit_ranking(self) -> MatrixCompletion:
        """Fit the ranking model to the training data of the last fit, and select the order of recommendations.

        See the parameter ``ranking``. The order by predicted ratings is one of those that are compared, which takes one more
        fit at the selected rank.
        """
        check_is_fitted(self)
        self.state_ = fit_ranking(self, self.state_, self.regularization_)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict entries.

        For rows and columns without observations in ``fit``, averages are predicted from the biases and the prior means of
        the factors; a warning counts them, and :meth:`known` flags them (see ``handle_unknown``).

        Parameters
        ----------
        X : (m, 2) array, list of pairs, or data frame
            Index pairs, or ids after a fit to ids. Of a data frame, the columns named as in ``fit``, or its two columns.
        """
        rows, cols = self._pairs(X)
        known = self.state_.is_known(rows, cols)
        self._report_unknown(known, "pair", ("has", "have"), "a row or column that was never observed")
        return self.state_.expected(self.model_.predict(rows, cols))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict class probabilities, an (m, classes) array in the order of ``classes_``.

        Needs ``loss="logistic"`` or ``"ordinal"``.
        """
        rows, cols = self._pairs(X)
        return self.state_.predict_proba(rows, cols)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that contain new observations with probability ``coverage``.

        Split conformal prediction: interval widths are quantiles of the errors of held-out observations, each divided by its
        predicted standard deviation. The model itself is fitted to all observations, so that intervals tend to be slightly
        too wide.

        Parameters
        ----------
        X : as in :meth:`predict`
        coverage : float
            Between 0 and 1.

        Returns
        -------
        low, high : (m,) arrays
        """
        rows, cols = self._pairs(X)
        return self.state_.predict_interval(rows, cols, coverage)

    def known(self, X: Any) -> np.ndarray:
        """Whether the row and the column of each pair were observed in ``fit``."""
        rows, cols = self._pairs(X)
        return self.model_.known(rows, cols)

    def fold_in(self, cols: Any, values: Any, *, features: Any = None) -> FoldIn:
        """Factors and predictions of a new row from some of its entries and its features, without fitting again.

        Parameters
        ----------
        cols : (m,) array
            Indices or ids of known columns.
        values : (m,) array
        features : data frame of one line, (d,) or (1, d) array, or dict, optional
            Features of the new row, after a fit with ``row_features``.
        """
        check_is_fitted(self)
        shift = None if features is None else self.state_.prior_shift(features)
        values = check_values(values, "values")
        return self.state_.fold_in(self._find(cols, "cols"), values, shift)

    def plot(self, figure: Any = None) -> Any:
        """Plot the convergence, the spectrum, held-out errors of the ranks that were tried, and held-out predictions.

        Needs matplotlib.

        Parameters
        ----------
        figure : matplotlib figure, optional
            Where to draw; by default a new figure with a transparent ground, for light and dark pages.

        Returns
        -------
        matplotlib figure
        """
        from .plots import plot_ratings

        check_is_fitted(self)
        return plot_ratings(self, figure)

    def _set(self, result: FitResult) -> MatrixCompletion:
        """Take over the result of a fit."""
        for name, value in vars(result).items():
            setattr(self, f"{name}_", value)
        self.n_features_in_ = 2
        return self

    def _backend(self) -> Backend:
        return get_backend()  # predictions need no device

    def _pairs(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        return find_pairs(X, self.state_.ids, self.state_.labels)

    @property
    def classes_(self) -> np.ndarray:
        if self.state_.classes is None:
            raise AttributeError("classes_ exists only with loss='logistic' and 'ordinal'")
        return self.state_.classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # the data of scikit-learn's checks are no index pairs
        return tags


__all__ = ["FoldIn", "MatrixCompletion"]
