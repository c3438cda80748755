"""A regressor on index pairs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, check_random_state

from ..backends import backend_of, device_backend
from ..datafits import ROBUST, SQUARES, Logistic, Loss, Ordinal, resolve_loss
from ..diagnosis import diagnose
from ..factor_models import Candidate, Choice, FactorModel, Fit, Settings, centred_problem, choose, fit_factors, unfitted
from ..factor_models.choose import COARSE, MANY, RANKS
from ..factor_models.folds import clipped
from ..factor_models.taste import Taste, liked_ones
from ..operators import Completion
from ..operators.array_checks import as_shape
from ..parameter_checks import NOT_NEGATIVE, check
from ..result import History
from ..solvers.runner import INTERRUPTED
from .checks import (
    check_bounds,
    check_choice,
    check_fit_options,
    check_pairs,
    check_positions,
    check_rank,
    check_strength,
    check_values,
    check_weights,
)
from .neighbours import Explanation
from .outliers import find_outliers, warn_about_outliers

SOLVERS = ("auto", "variational", "alternating")
QUANTILES = 2001
FOLD_SWEEPS = 50


class FoldIn(NamedTuple):
    """A new row: its factors (k,), and predictions for all columns (n2,)."""

    factors: np.ndarray
    predictions: np.ndarray


class MatrixCompletion(RegressorMixin, BaseEstimator):
    """Predict the entries of a matrix at index pairs from others that were observed, noise and all.

    Values are the sum of a mean, offsets of row and column, and a product of ``rank`` factors of each.

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
        Whether values have a mean, and rows and columns offsets from it. Without, the matrix itself is of low rank.
    bounds : (float, float), optional
        Clip predictions to these.
    loss : str or Loss
        What entries are compared with the values by: ``"squares"``; ``"robust"``, squares for all but gross errors, which are
        found and left out (``outliers_``); ``"huber"``, ``"absolute"``, ``"cauchy"`` or ``"tukey"``, by which large errors
        count for less; ``"logistic"`` for yes and no, ``"ordinal"`` for stars, ``"poisson"`` for counts, where
        predictions are probabilities, expected stars and expected counts. Ranks are then chosen by held-out deviance, and
        factors have learned priors, so that separable classes do no harm. See ``docs/losses.md``.
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
        The factors without offsets, ``U diag(s) V^T``.
    row_bias_, col_bias_ : arrays
    mean_ : float
    rank_ : int
    regularization_ : float or "learned"
    n_iter_ : int
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
        loss: Any = "squares",
        solver: str = "auto",
        intervals: bool = False,
        holdout: float = 0.1,
        cv: int = 1,
        n_jobs: int | None = None,
        shape: tuple[int, int] | None = None,
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
        self.loss = loss
        self.solver = solver
        self.intervals = intervals
        self.holdout = holdout
        self.cv = cv
        self.n_jobs = n_jobs
        self.shape = shape
        self.random_state = random_state
        self.device = device
        self.tol = tol
        self.max_iter = max_iter

    _seen: tuple[np.ndarray, np.ndarray] | None = None  # the pattern of the observations, where they are not too many
    _taste: Taste | None = None  # the order of recommendations, when it was asked for

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MatrixCompletion:
        """Fit to observed entries.

        Parameters
        ----------
        X : (m, 2) array of whole numbers, a SciPy sparse matrix, or a Completion
            Row and column of each observation; of a sparse matrix, the stored entries are observed. A
            :class:`~lorank.Completion` may be larger than memory, or on a cluster (``Completion.from_partitions``).
        y : (m,) array
            The values; not given with a sparse matrix or a Completion.
        sample_weight : (m,) array, optional
            An observation of weight 2 counts like two.

        Notes
        -----
        Ctrl-C ends the fit with the best model so far, and ``status_`` says "interrupted".
        """
        if isinstance(X, Completion):
            from .partitioned import fit_problem

            return fit_problem(self, X, y, sample_weight)
        if hasattr(X, "tocoo") and y is None:
            coo = X.tocoo()
            shape = coo.shape if self.shape is None else self.shape
            if coo.ndim != 2:
                raise ValueError(f"X is a sparse array of shape {coo.shape}: a matrix has two dimensions")
            pairs, values = np.column_stack([coo.row, coo.col]).astype(np.int64), check_values(coo.data, "X")
        else:
            values, pairs, shape = check_values(y), check_pairs(X), self.shape
        if len(pairs) < 2:
            raise ValueError(f"found {len(pairs)} sample(s): at least 2 observations are needed to fit anything")
        if len(pairs) != len(values):
            raise ValueError(f"X and y must be alike in length: got {len(pairs):,} pairs and {len(values):,} values")
        shape = self._shape(pairs[:, 0], pairs[:, 1], shape)
        weights = check_weights(sample_weight, len(values))
        self._plan(shape, len(values))  # refuses what cannot be, before anything is computed
        self.outliers_ = find_outliers(self, pairs, values, weights) if self._robust else None
        if self.outliers_ is not None and self.outliers_.any():
            keep = ~self.outliers_
            pairs, values, weights = pairs[keep], values[keep], None if weights is None else weights[keep]
        rows, cols = pairs[:, 0], pairs[:, 1]
        settings, ranks, strengths = self._plan(shape, len(values))
        if settings.loss is not None:  # classes of all observations, for every part of them
            settings = replace(settings, loss=settings.loss.prepare(values, backend_of(values))[1])
        self.loss_, self._two = settings.loss, bool(len(values) and values.min() < 0)
        self.n_features_in_ = 2
        self.calibration_ = np.empty(0)
        if settings.device is not None:  # once, for the choice and for the fit
            device = device_backend(settings.device)
            rows, cols, values = device.asindex(rows), device.asindex(cols), device.asarray(values)
        problem, mean = centred_problem(rows, cols, values, shape, weights, settings.device, settings.offsets, settings.loss)
        options: dict[str, Any] = {"weights": weights, "ranks": ranks, "strengths": strengths, "bounds": self.bounds}
        options |= {"folds": self.cv, "share": self.holdout, "n_jobs": self.n_jobs}
        chosen = ranks is not None or strengths != "given" or self.intervals
        choice = (lambda: choose(rows, cols, values, shape, settings, **options)) if chosen else None
        fit, settings = self._fitted(problem, mean, settings, choice)
        self._conclude(problem, fit, settings, len(values) - problem.m)
        host = problem.observations.host()
        self._seen, self._liked = host[:2], liked_ones(host.values)
        if self.loss_ is None and not self._robust:
            warn_about_outliers(self.model_, rows, cols, values, weights)
        return self

    def _fitted(
        self, problem: Completion, mean: float, settings: Settings, choice: Callable[[], Choice] | None
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
        self.loss_, self._taste = fit.loss, None
        self._set_classes()
        self._set_model(fit.model.host())
        self.history_, self.n_iter_, self.status_ = fit.history, fit.n_iter, fit.status
        self.regularization_ = "learned" if settings.regularization is None else settings.regularization

    @property
    def _robust(self) -> bool:
        return isinstance(self.loss, str) and self.loss == ROBUST

    def predict(self, X: Any) -> np.ndarray:
        """The entries at index pairs.

        A row or column that was not observed in ``fit`` is predicted as an average one, from the offsets (and what factors
        average rows have); a warning says how often, and :meth:`known` where.
        """
        rows, cols = self._pairs(X)
        unknown = len(rows) - int(self.model_.known(rows, cols).sum())
        if unknown:
            warnings.warn(
                f"{unknown:,} of {len(rows):,} pairs have a row or column that was never observed: predicted as an average one "
                "(see known)",
                UserWarning,
                stacklevel=2,
            )
        return self._expected(self.model_.predict(rows, cols))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class at index pairs, an (m, classes) array in the order of ``classes_``.

        With ``loss="logistic"`` or ``"ordinal"``.
        """
        rows, cols = self._pairs(X)
        z = self.model_.predict(rows, cols)
        if isinstance(self.loss_, Logistic):
            one = self.loss_.mean(z)
            return np.column_stack([1 - one, one])
        if isinstance(self.loss_, Ordinal):
            return self.loss_.probabilities(z)
        name = "squares" if self.loss_ is None else self.loss_.name
        raise ValueError(f"loss={name!r} has no classes: fit with loss='logistic' or 'ordinal', or use predict")

    def known(self, X: Any) -> np.ndarray:
        """Whether the row and the column of each pair were observed in ``fit``."""
        return self.model_.known(*self._pairs(X))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Bounds between which a share ``coverage`` of new observations falls.

        Split conformal prediction: the errors of held-out observations, each in units of its predicted spread, say how many
        spreads wide an interval has to be. They were predicted by a fit to the other observations; the model itself is
        fitted to all of them, so that intervals are if anything a little too wide.

        Returns
        -------
        low, high : (m,) arrays
        """
        check_is_fitted(self)
        self._refuse_intervals()
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}")
        if not len(self.calibration_):
            raise ValueError("no observations were held out to calibrate intervals: fit with intervals=True")
        rows, cols = self._pairs(X)
        level = min(1.0, np.ceil((self.calibration_size_ + 1) * coverage) / self.calibration_size_)
        width = float(np.interp(level, np.linspace(0, 1, len(self.calibration_)), self.calibration_))
        middle = clipped(self.model_.predict(rows, cols), self.bounds)
        half = width * self.model_.spread(rows, cols)
        return clipped(middle - half, self.bounds), clipped(middle + half, self.bounds)

    def fold_in(self, cols: Any, values: Any) -> FoldIn:
        """A new row from some of its entries, without fitting again.

        Parameters
        ----------
        cols : (m,) integer array
        values : (m,) array
        """
        check_is_fitted(self)
        cols, values = check_positions(cols, "cols"), check_values(values, "values")
        if cols.dtype.kind not in "iu" or cols.ndim != 1 or len(cols) != len(values):
            raise ValueError("fold_in takes a list of column numbers and as many values")
        if len(cols) and (cols.min() < 0 or cols.max() >= self.model_.shape[1]):
            raise ValueError(f"columns must lie in 0 .. {self.model_.shape[1] - 1}, got {cols.min()} .. {cols.max()}")
        cols, group = np.unique(cols, return_inverse=True)
        if self.loss_ is not None and self.loss_.discrete:
            values = self.loss_.encoded(values)
        values = np.bincount(group, values) / np.bincount(group) if len(cols) else values
        factors = self._folded(cols, values)
        return FoldIn(factors, self._expected(self.model_.mean + self.model_.cols @ factors))

    def _folded(self, cols: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The factors of a new row; with a loss, by reweighted least squares."""
        model, at = self.model_, np.array([0, len(cols)])
        if self.loss_ is None or not len(cols):
            return model.fold_in(at, cols, values if self.loss_ is None else np.empty(0))[0]
        factors = model.fold_in(np.array([0, 0]), cols[:0], values[:0])[0]
        for _ in range(FOLD_SWEEPS):
            d = model.mean + model.cols[cols] @ factors - values
            weights, responses = self.loss_.settled(d, values).majorizer(d, values)
            before, factors = factors, model.fold_in(at, cols, responses, weights)[0]
            if np.abs(factors - before).max() < 1e-6:
                break
        return factors

    def recommend(self, rows: Any, n: int = 10, exclude_seen: bool = True, by: str = "taste") -> tuple[np.ndarray, np.ndarray]:
        """Columns for each row, best first.

        Columns that were never observed are not recommended. Rows are taken in blocks, so that the matrix is never there as a
        whole.

        Parameters
        ----------
        rows : int or (k,) integer array
        n : int
        exclude_seen : bool
            Leave out what the row has observations of.
        by : {"taste", "rating"}
            ``"taste"`` puts first what a row would take and like: what it came to rate at all says more about that than the
            ratings do. The model for it (see :class:`ImplicitFactorization`) is fitted to the same data when it is first asked
            for; rows that were never observed get what is liked most often. ``"rating"`` puts the largest predictions first.

        Returns
        -------
        cols : (k, n) integer array
            -1 where fewer than n columns are left.
        predictions : (k, n) array
            What :meth:`predict` gives for them; nan there.
        """
        check_is_fitted(self)
        from .recommending import recommend

        return recommend(self, rows, n, exclude_seen, by)

    def similar_items(self, cols: Any, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The columns that are taken by the same rows: those whose factors of taste point in the same direction.

        Parameters
        ----------
        cols : int or (k,) integer array
        n : int

        Returns
        -------
        cols, cosines : (k, n) arrays
            Other columns, nearest first, and the cosines of the angles; -1 and nan where there are no more. Columns that were
            never observed are left out.
        """
        check_is_fitted(self)
        from .recommending import similar

        return similar(self, cols, n, columns=True)

    def similar_users(self, rows: Any, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The rows that take the same columns; as :meth:`similar_items` for rows."""
        check_is_fitted(self)
        from .recommending import similar

        return similar(self, rows, n, columns=False)

    def explain(self, row: int, col: int) -> Explanation:
        """Which of a row's observations speak for recommending a column.

        The score of taste is a sum over what the row has rated, as in :meth:`ImplicitFactorization.explain`.

        Parameters
        ----------
        row, col : int

        Returns
        -------
        items, contributions : (m,) arrays
            The row's columns, what speaks most for the column first, and what each adds to the score.
        score : float
        """
        check_is_fitted(self)
        from .recommending import explain

        return explain(self, row, col)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file that :func:`lorank.load` reads. No pickle; written in one go."""
        from .files import save_estimator

        return save_estimator(self, path)

    def _plan(self, shape: tuple[int, int], m: int) -> tuple[Settings, list[int] | None, str]:
        """The settings, the ranks to try (None: the given one), and which strengths to try."""
        loss = resolve_loss(SQUARES if self._robust else self.loss)
        self._refuse_intervals(loss)
        check_choice(self.solver, SOLVERS, "solver")
        check_choice(self.penalty, ("nuclear", "frobenius"), "penalty")
        check_bounds(self.bounds)
        strength = check_strength(self.regularization)
        if self.solver == "variational" and isinstance(strength, float):
            raise ValueError(
                f"solver='variational' learns its regularization: leave it at 'auto' or 'learned', or use solver='alternating' "
                f"with {strength}"
            )
        if self.solver == "alternating" and strength == "learned":
            raise ValueError("solver='alternating' needs a strength: a number, or regularization='auto'")
        check_fit_options(self)
        check("count_scaling", self.count_scaling, NOT_NEGATIVE)
        top = min(shape)
        rank = check_rank(self.rank, top)
        if rank == 0 and not self.biases:
            raise ValueError("rank=0 without biases leaves nothing to fit: allow biases, or a rank of 1")
        ranks = None
        if rank == "auto":
            most = max(1, min(top, m // (2 * sum(shape)) + 2, RANKS[-1]))
            ranks = [r for r in (COARSE if m >= MANY else RANKS) if (r or self.biases) and r <= most]
        learned = isinstance(strength, str) and self.solver != "alternating"
        strengths = "given"
        if strength == "auto":
            both = learned and self.solver == "auto" and m < MANY
            strengths = "both" if both else "given" if learned else "path"
        if strengths == "path" and ranks is not None:  # a path of penalties finds the rank by itself
            rank, ranks = ranks[-1], None
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        settings = Settings(
            rank if isinstance(rank, int) else 1,
            None if learned else 0.0 if isinstance(strength, str) else float(strength),
            "nuclear" if self.penalty == "nuclear" else "frobenius",
            float(self.count_scaling),
            bool(self.biases),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            seed=int(seed),
            device=None if self.device is None else str(self.device),
            loss=loss,
            noise="unit" if loss is not None and loss.discrete else "both",
        )
        return settings, ranks, strengths

    def _shape(self, rows: np.ndarray, cols: np.ndarray, shape: Any) -> tuple[int, int]:
        n1, n2 = int(rows.max()) + 1, int(cols.max()) + 1
        if shape is not None:
            given = as_shape(shape)
            if given[0] < n1 or given[1] < n2:
                raise ValueError(f"shape {given} does not hold row {n1 - 1} and column {n2 - 1}")
            n1, n2 = given
        if max(n1, n2) > 1000 + 100 * len(rows):
            raise ValueError(
                f"indices (or shape) reach {max(n1, n2) - 1:,} for {len(rows):,} observations: map ids to 0 .. n-1 first, e.g. "
                "with numpy.unique(ids, return_inverse=True)"
            )
        return n1, n2

    def _keep_choice(self, choice: Choice) -> None:
        self.curve_, self.calibration_size_ = choice.curve, len(choice.scores)
        self.heldout_ = np.stack([choice.values, choice.predictions, choice.spreads])
        if len(choice.scores):
            self.calibration_ = np.quantile(choice.scores, np.linspace(0, 1, min(QUANTILES, len(choice.scores))))

    def _expected(self, z: np.ndarray) -> np.ndarray:
        """Predictions from entries of the matrix."""
        return clipped(z if self.loss_ is None else self.loss_.mean(z), self.bounds)

    def _refuse_intervals(self, loss: Loss | None = None) -> None:
        """Intervals are for values on a scale: of classes and counts there are probabilities."""
        found = loss if loss is not None else getattr(self, "loss_", None)
        if found is None or not found.discrete or (loss is not None and not self.intervals):
            return
        instead = "means, of which Poisson's distribution gives them" if found.name == "poisson" else "predict_proba"
        raise ValueError(f"loss={found.name!r} has no intervals: leave out intervals=True, and take {instead}")

    def _set_classes(self) -> None:
        if isinstance(self.loss_, Logistic):
            self.classes_ = np.array([-1.0, 1.0] if self._two else [0.0, 1.0])
        elif isinstance(self.loss_, Ordinal):
            self.classes_ = np.array(self.loss_.classes)

    def _pairs(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        pairs = check_pairs(X)
        return pairs[:, 0], pairs[:, 1]

    def _set_model(self, model: FactorModel) -> None:
        self.model_ = model
        self.mean_, self.rank_ = model.mean, model.rank
        self.row_bias_, self.col_bias_ = model.row_offset(), model.col_offset()
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
