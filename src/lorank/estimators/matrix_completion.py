"""A regressor on index pairs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..backends import backend_of, device_backend
from ..common.checks import counted
from ..evaluation.diagnosis import diagnose
from ..factorization import Candidate, FactorModel, Fit, Selection, Settings, centred_problem, fit_factors, select, unfitted
from ..factorization.majorization import origin_of
from ..factorization.training_data import training_data_of
from ..factorization.update import add_unseen
from ..io.archive import save_model
from ..loop.result import History
from ..loop.runner import INTERRUPTED
from ..losses import Logistic, Ordinal
from ..problems import Completion
from .cold_start import featured, with_features
from .entries import full_shape, read_entries, read_weights
from .features import SideTable
from .fitting import is_robust, plan, refuse_negative
from .frames import without_named
from .inputs import check_weights
from .outliers import find_outliers, warn_about_outliers
from .ratings_state import FoldIn, PredictionMixin

QUANTILES = 2001


class MatrixCompletion(PredictionMixin, RegressorMixin, BaseEstimator):
    """Predict the entries of a matrix at index pairs from others that were observed, noise and all.

    Values are the sum of a mean, biases of row and column, and a product of ``rank`` factors of each.

    Parameters
    ----------
    rank : int or "auto"
        Factors of each row and column. ``"auto"`` tries 0, 1, 2, 3, 4, 6, 8, ... on held-out observations.
    regularization : float, "learned" or "auto"
        A number is the strength of ``penalty``. ``"learned"`` finds priors of the factors and the noise of each row and column
        by variational Bayes: no strength to choose. ``"auto"`` compares that with a path of strengths on held-out
        observations, and takes what predicts best; with 300,000 observations and more, priors are known so well that it takes
        them at once.
    penalty : {"nuclear", "frobenius"}
        What a strength multiplies: the sum of the singular values, or half the sum of their squares.
    count_scaling : float
        Penalise rows and columns in proportion to their number of observations to this power.
    biases : bool
        Whether values have a mean, and rows and columns biases from it. Without, the matrix itself is of low rank.
    bounds : (float, float), optional
        Clip predictions to these.
    nonnegative : bool
        Non-negative matrix factorisation of what was observed: factors, and so predictions, are never negative, and each value
        is a sum of ``rank`` parts. There are no biases then, whatever ``biases`` says: an bias that may be negative would
        leave the parts deviations instead of amounts. Factors are drawn to the mean of their side instead of to zero, so that
        rows with few observations are average ones. A strength is found on held-out observations where none is given.
    loss : str or Loss
        What entries are compared with the values by: ``"squares"``; ``"robust"``, squares for all but gross errors, which are
        found and left out (``outliers_``); ``"huber"``, ``"absolute"``, ``"cauchy"`` or ``"tukey"``, by which large errors
        count for less; ``"logistic"`` for yes and no, ``"ordinal"`` for stars, ``"poisson"`` for counts, where
        predictions are probabilities, expected stars and expected counts. Ranks are then chosen by held-out deviance, and
        factors have learned priors, so that separable classes do no harm. See :doc:`/losses`.
    solver : {"auto", "variational", "alternating"}
        ``"variational"`` learns priors and takes no strength; ``"alternating"`` minimises the penalty; ``"auto"`` is what the
        regularization asks for.
    intervals : bool
        Hold out observations for :meth:`predict_interval` even where nothing is chosen by them: a second fit.
    holdout : float
        The share of the observations held out to choose and to calibrate.
    cv : int
        From 2 on: that many folds instead of one held-out share.
    n_jobs : int, optional
        Processes for the folds.
    shape : (int, int), optional
        Of the matrix; by default just large enough for the pairs.
    handle_unknown : {"warn", "ignore", "error"}
        What to do with rows, columns and ids that were not observed in ``fit``: predict them as average ones with a warning, or
        without, or refuse them.
    random_state : int, RandomState or None
    device : str, optional
        Fit with PyTorch there, on ``"cuda"`` for example. The attributes are NumPy arrays all the same, and predictions need
        no device.
    tol : float
        Stop when further sweeps are expected to lower the error of predictions by less than this, relatively.
    max_iter : int
        The most sweeps.

    Attributes
    ----------
    U_, s_, V_ : arrays
        The factors without biases, ``U diag(s) V^T``.
    row_bias_, col_bias_ : arrays
    mean_ : float
    row_factors_, col_factors_ : (n1, rank) and (n2, rank) arrays
        The factors as they were fitted, with ``row_factors_ @ col_factors_.T`` the matrix without mean and biases; with
        ``nonnegative=True`` not negative, the largest part first.
    rank_ : int
    regularization_ : float or "learned"
    n_iter_ : int
    status_ : Status
        How the fit ended: "converged", "max_iter" or "interrupted", with advice.
    history_ : History
    curve_ : list of Candidate
        Rank, strength and held-out error of everything that was tried; empty where nothing was chosen.
    diagnosis_ : Diagnosis
    model_ : FactorModel
    outliers_ : (m,) bool array or None
        With ``loss="robust"``: which observations were left out, in the order given.
    loss_ : Loss or None
        With what it has learned (a scale, thresholds); None for least squares.
    classes_ : array
        With ``loss="logistic"`` and ``"ordinal"``: the classes, in the order of :meth:`predict_proba`.
    ids_ : dict or None
        The users' own ids of ``"rows"`` and ``"cols"``, in the order of the arrays above; None after a fit to index pairs.

    Raises
    ------
    ValueError
        By ``fit`` and its kin, where data or a parameter are not what they should be, by name; before ``fit`` (scikit-learn's
        NotFittedError) by all others.

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

    def __init__(
        self,
        rank: int | str = "auto",
        regularization: float | str = "auto",
        *,
        penalty: str = "nuclear",
        count_scaling: float = 0.0,
        biases: bool = True,
        bounds: tuple[float, float] | None = None,
        nonnegative: bool = False,
        loss: Any = "squares",
        solver: str = "auto",
        intervals: bool = False,
        holdout: float = 0.1,
        cv: int = 1,
        n_jobs: int | None = None,
        shape: tuple[int, int] | None = None,
        handle_unknown: str = "warn",
        random_state: Any = 0,
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
        self.holdout = holdout
        self.cv = cv
        self.n_jobs = n_jobs
        self.shape = shape
        self.handle_unknown = handle_unknown
        self.random_state = random_state
        self.device = device
        self.tol = tol
        self.max_iter = max_iter

    _sides: dict[str, SideTable] = {}  # noqa: RUF012  features of rows ("row") and columns ("col"); set by fit, never changed

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
            Row and column of each observation; of a sparse matrix, the stored entries are observed. Whole numbers in arrays are
            indices, counted from 0. Text, and whatever stands in a data frame, are ids: of any kind and order, and all methods
            then take and give ids. A :class:`~lorank.Completion` may be larger than memory, or on a cluster
            (:func:`lorank.distributed.from_partitions`).
        y : (m,) array
            The values; not given with a sparse matrix or a Completion, nor with a data frame that has them.
        sample_weight : (m,) array, optional
            An observation of weight 2 counts like two. For a data frame also the name of a column.
        rows, cols, values : str, optional
            The columns of a data frame with rows (users, say), columns (items) and values (ratings); by default its columns, in
            this order.
        row_features, col_features : data frame, (n, d) array or sparse matrix, optional
            What is known of rows and columns, from which their factors are foretold where observations say little. A data frame
            with the ids in a column called as in X, or one line for each index. Whole numbers of at most 32 kinds are
            categories too, text of one word is a category, and other text counts by its words; a missing cell is an average
            one. Each observed row needs a line; those that were never observed are predicted from their features alone.

        Notes
        -----
        Ctrl-C ends the fit with the best model so far, and ``status_`` says "interrupted".
        """
        before = vars(self).copy()
        try:
            if isinstance(X, Completion):
                from .partitioned import fit_problem

                if row_features is not None or col_features is not None:
                    raise ValueError("features go with observations in arrays and data frames, not with a Completion")
                self._sides = {}
                return fit_problem(self, X, y, sample_weight)
            names = rows, cols, values
            entries = read_entries(without_named(X, (sample_weight,), names), y, names)
            if len(entries.rows) < 2:
                raise ValueError(
                    f"found {counted(len(entries.rows), 'sample')}: at least 2 observations are needed to fit anything"
                )
            refuse_negative(self, entries.values)
            entries, sides = with_features(entries, row_features, col_features)
            shape = full_shape(entries, self.shape)
            weights = check_weights(read_weights(sample_weight, X), len(entries.values))
            if weights is not None and np.count_nonzero(weights) < 2:
                raise ValueError("found 1 sample with a weight above 0: at least 2 observations are needed to fit anything")
            plan(self, shape, len(entries.values))  # refuses what cannot be, before anything is computed
            self.ids_, self.labels_, self._sides = entries.ids, entries.labels, sides
            return self._fit(np.column_stack([entries.rows, entries.cols]), entries.values, shape, weights)
        except BaseException:  # a model fitted before stays what it was
            self.__dict__ = before
            raise

    def _fit(
        self, pairs: np.ndarray, values: np.ndarray, shape: tuple[int, int], weights: np.ndarray | None
    ) -> MatrixCompletion:
        """To index pairs, all of it checked."""
        robust = is_robust(self)
        self.outliers_ = find_outliers(self, pairs, values, weights) if robust else None
        left_out = None
        if self.outliers_ is not None and self.outliers_.any():
            keep = ~self.outliers_
            left_out = pairs[~keep, 0], pairs[~keep, 1], values[~keep]
            pairs, values, weights = pairs[keep], values[keep], None if weights is None else weights[keep]
        rows, cols = np.ascontiguousarray(pairs.T)
        settings, ranks, search = plan(self, shape, len(values))
        if self._sides:
            settings, search = featured(settings, self._sides, shape), "given"
        if settings.loss is not None:  # classes of all observations, for every part of them
            settings = replace(settings, loss=settings.loss.prepare(values, backend_of(values))[1])
        self.loss_, self._two = settings.loss, bool(len(values) and values.min() < 0)
        self.n_features_in_ = 2
        self.calibration_ = np.empty(0)
        if settings.device is not None:  # once, for the choice and for the fit
            device = device_backend(settings.device)
            rows, cols, values = device.asindex(rows), device.asindex(cols), device.asarray(values)
        problem, mean = centred_problem(rows, cols, values, shape, weights, settings.device, settings.biases, settings.loss)
        options: dict[str, Any] = {"weights": weights, "ranks": ranks, "search": search, "bounds": self.bounds}
        options |= {"folds": self.cv, "share": self.holdout, "n_jobs": self.n_jobs}
        chosen = ranks is not None or search != "given" or self.intervals
        choice = (lambda: select(rows, cols, values, shape, settings, **options)) if chosen else None
        fit, settings = self._fitted(problem, mean, settings, choice)
        counting = len(values) if weights is None else int(np.count_nonzero(weights))
        self._conclude(problem, fit, settings, counting - problem.m)
        self._memory = training_data_of(problem, mean)
        if left_out is not None:  # they are not learned from, but were seen
            self._memory = self._memory.with_unlearned(*left_out, shape)
        if self.loss_ is None and not robust:
            warn_about_outliers(self.model_, rows, cols, values, weights)
        return self

    def _fitted(
        self, problem: Completion, mean: float, settings: Settings, choice: Callable[[], Selection] | None
    ) -> tuple[Fit, Settings]:
        """Choose where there is something to choose, and fit; Ctrl-C ends it with the best so far."""
        best: Fit | None = None
        self.curve_: list[Candidate] = []
        self.heldout_: np.ndarray | None = None
        try:
            if choice is not None:
                made = choice()
                best, settings = made.fit, made.settings
                self._keep_choice(made)
                if made.interrupted:
                    return best, settings
            return fit_factors(problem, mean, settings, None if best is None else best.factors), settings
        except KeyboardInterrupt:
            return replace(best or unfitted(problem, mean, settings), status=INTERRUPTED), settings

    def _conclude(self, problem: Completion, fit: Fit, settings: Settings, repeated: int) -> None:
        """Diagnose, and take over a fit."""
        rank = max(settings.rank, 1)
        try:
            self.diagnosis_ = diagnose(problem, rank, duplicates=repeated)
        except KeyboardInterrupt:  # a moment's work, which what follows needs: once more, and the fit is kept
            fit = replace(fit, status=INTERRUPTED)
            self.diagnosis_ = diagnose(problem, rank, duplicates=repeated)
        if settings.rank > 1 and (self.diagnosis_.oversampling < 1 or self.diagnosis_.components > 1):
            warnings.warn(f"recovery cannot be unique here. {self.diagnosis_.verdict}", UserWarning, stacklevel=3)
        self.loss_, self._taste, self._taste_is_old = fit.loss, None, False
        self._set_classes()
        model = fit.model.host()
        if problem.loss is None and origin_of(problem) is None and not settings.nonnegative:
            model = add_unseen(problem, model)
        self._set_model(model)
        self.history_, self.n_iter_, self.status_ = fit.history, fit.n_iter, fit.status
        self.regularization_ = "learned" if settings.regularization is None else settings.regularization

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
        """Learn more observations, of known or new rows and columns, without starting over.

        Rows and columns that are new are found from what is known of the others; those that have something new are solved
        again, given the rest. The rank, the priors, the mean and the calibration of intervals stay, as do ``history_`` and
        ``diagnosis_``: fit again when there is much more than at the last fit.

        Parameters
        ----------
        X, y, sample_weight, rows, cols, values
            As in :meth:`fit`; index pairs after a fit to index pairs, ids after a fit to ids. A pair that was observed before
            becomes the mean of its values, and is refused where these are classes. The first call is a fit. X may be left
            out where only features are new.
        row_features, col_features : optional
            What is known of new rows and columns, as in :meth:`fit`: after a fit with features each needs it.
        """
        if not hasattr(self, "model_"):
            sides = {"row_features": row_features, "col_features": col_features}
            return self.fit(X, y, sample_weight, rows=rows, cols=cols, values=values, **sides)
        from .partial_fit import learn_more, meet

        before = dict(self.__dict__)
        try:
            meet(self, row_features, col_features)
            if X is None and (row_features is not None or col_features is not None):
                return self
            return learn_more(self, X, y, sample_weight, (rows, cols, values))
        except BaseException:  # what is refused leaves nothing behind
            self.__dict__ = before
            raise

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file that :func:`lorank.load` reads. No pickle; written in one go."""
        check_is_fitted(self)
        return save_model(self, path)

    def _keep_choice(self, choice: Selection) -> None:
        self.curve_, self.calibration_size_ = choice.curve, len(choice.scores)
        self.heldout_ = np.stack([choice.values, choice.predictions, choice.spreads])
        if len(choice.scores):
            scores = np.sort(choice.scores)  # of which NumPy finds quantiles several times faster
            self.calibration_ = np.quantile(scores, np.linspace(0, 1, min(QUANTILES, len(scores))))

    def _set_classes(self) -> None:
        if isinstance(self.loss_, Logistic):
            self.classes_ = np.array([-1.0, 1.0] if self._two else [0.0, 1.0])
        elif isinstance(self.loss_, Ordinal):
            self.classes_ = np.array(self.loss_.classes)

    def _set_model(self, model: FactorModel) -> None:
        self.model_ = model
        self.mean_, self.rank_ = model.mean, model.rank
        self.row_bias_, self.col_bias_ = model.row_biases(), model.col_biases()
        self.row_factors_, self.col_factors_ = model.rows[:, : model.rank], model.cols[:, : model.rank]
        point = model.point()
        n1, n2 = model.shape
        if point is None:
            self.U_, self.s_, self.V_ = np.zeros((n1, 0)), np.zeros(0), np.zeros((n2, 0))
        else:
            self.U_, self.s_, self.V_ = point.U, point.s, point.V
        if not hasattr(self, "history_"):
            self.history_ = History()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # the checks' data are not index pairs
        return tags


__all__ = ["FoldIn", "MatrixCompletion"]
