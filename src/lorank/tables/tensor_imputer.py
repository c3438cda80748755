"""TensorImputer: missing values of arrays with three or more axes, and of long tables with three or more keys."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state

from ..common.blas_threads import one_blas_thread
from ..common.checks import SHARE, Expected, ParameterError, check, check_parameters, counted, one_of, shown, whole
from ..common.logs import verbose_fit
from ..io.archive import save_model
from ..io.figures import EITHER_BLUE, ORANGE, blank_figure, draw_predictions, style_axes
from ..io.ratings import positions_of
from .columns import frame_kind
from .tensor_model import TensorCandidate, fit_tensor

MAX_INDICES = 2**31 - 1  # columns of an unfolding
NOT_AN_ARRAY = "must be an array of numbers with three axes or more, nan for missing values"


@one_blas_thread
class TensorImputer(TransformerMixin, BaseEstimator):
    """Imputation of missing values in arrays with three or more axes, such as sensors x days x hours.

    A Bayesian Tucker model: the mean, effects of each mode (axis) and interactions of two and more modes, each of low rank and
    shrunk by variances that are learned from the data, by Gibbs sampling. Entries are held out in the pattern of the missing
    ones (single entries, and whole fibres such as the hours of a sensor on a day); they select the rank of each mode, and a
    matrix factorization of an unfolding instead where that has a smaller error; and they calibrate prediction intervals.

    Parameters
    ----------
    rank : int, tuple of int or "auto"
        Rank of the Tucker model: one number for all modes, or one for each. ``"auto"`` (the default) selects it.
    method : {"auto", "tucker", "unfolding"}
        Models to select from; ``"auto"`` (the default) tries both. With a number as ``rank`` it is the Tucker model.
    holdout : float
        Share of the observed entries that are held out for the selection and for intervals (default 0.1).
    n_samples : int
        Number of samples of the Tucker model, of which predictions are the mean (default 40).
    random_state : int, RandomState or None
        Seed (default 0).
    verbose : int
        1 logs the candidates, to standard error or the handlers of the logger ``lorank``; 0 (the default) logs nothing.

    Attributes
    ----------
    shape_ : tuple of int
    method_ : {"tucker", "unfolding"}
        The selected method.
    mode_ : int or None
        The mode whose indices are the rows of the selected unfolding.
    rank_ : tuple of int
        Rank of each mode; of an unfolding, (rank,).
    quality_ : float
        Held-out error: root mean square in standard deviations of the observed entries (1 is as good as their mean); nan with
        fewer than 30 observed entries.
    heldout_ : (3, m) array
        Values, predictions and predictive standard deviations of the held-out entries.
    curve_ : list of TensorCandidate
        Method, rank and held-out error of all candidates.
    mean_, scale_ : float
        Mean and standard deviation of the observed entries.
    noise_ : float
        Standard deviation of the noise.
    ids_, names_ : lists or None
        After :meth:`fit_entries`: the ids of each mode, and with a data frame the names of the columns of keys.
    status_ : {"fitted", "interrupted"}
        Ctrl-C ends the fit with the best model so far.

    Raises
    ------
    ValueError
        Invalid data or parameter, by name. Methods other than ``fit`` and ``fit_entries`` raise scikit-learn's NotFittedError
        before them.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank import TensorImputer
    >>> rng = np.random.default_rng(0)
    >>> X = np.einsum("ia,ja,ka->ijk", *(rng.standard_normal((n, 2)) for n in (15, 12, 10)))
    >>> missing = rng.random(X.shape) < 0.7
    >>> imputer = TensorImputer(rank=2)
    >>> filled = imputer.fit_transform(np.where(missing, np.nan, X))
    >>> bool(np.sqrt(np.mean((filled - X)[missing] ** 2)) < 0.1 * X.std())
    True
    """

    parameters: ClassVar = {  # valid values
        "method": one_of(("auto", "tucker", "unfolding")),
        "holdout": SHARE,
        "n_samples": Expected("be a whole number from 2 to 10,000", lambda n: whole(2).holds(n) and n <= 10_000),
    }

    def __init__(
        self,
        rank: int | Sequence[int] | Literal["auto"] = "auto",
        *,
        method: Literal["auto", "tucker", "unfolding"] = "auto",
        holdout: float = 0.1,
        n_samples: int = 40,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.method = method
        self.holdout = holdout
        self.n_samples = n_samples
        self.random_state = random_state
        self.verbose = verbose

    @verbose_fit
    def fit(self, X: Any, y: Any = None) -> TensorImputer:
        """Fit the model to an array.

        Parameters
        ----------
        X : array with three or more axes
            With nan for missing values.
        """
        check_parameters(self, **self.parameters)
        a = _array(X)
        index = np.argwhere(~np.isnan(a))
        self.ids_: list[np.ndarray] | None = None
        self.names_: list[str] | None = None
        return self._fit(index, a[tuple(index.T)], a.shape)

    @verbose_fit
    def fit_entries(self, keys: Any, values: Any) -> TensorImputer:
        """Fit the model to a long table: one line for each observed entry.

        Parameters
        ----------
        keys : (m, d) array or data frame
            Ids of three or more modes, whole numbers or text, such as sensor, day and hour. Other types, such as dates, become
            text.
        values : (m,) array, or the name of a column of the data frame
            Repeated keys get the mean of their values.
        """
        check_parameters(self, **self.parameters)
        if isinstance(values, str):
            if not frame_kind(keys) or values not in keys.columns:
                raise ParameterError("values", f"names no column of the data frame: got {values!r}")
            keys, values = keys[[name for name in keys.columns if name != values]], keys[values].to_numpy()
        self.names_ = [str(name) for name in keys.columns] if frame_kind(keys) else None
        parts, y = _keys(keys), _as_array("values", values)
        if y.shape != (len(parts[0]),) or y.dtype.kind not in "fiub":
            raise ParameterError("values", f"must be a number for each line of keys, got shape {y.shape} of {y.dtype}")
        y = y.astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(y))
        if len(bad):
            raise ParameterError("values", f"[{bad[0]}] = {y[bad[0]]} is not finite: leave out missing entries")
        found = [np.unique(part, return_inverse=True) for part in parts]
        self.ids_ = [ids for ids, _ in found]
        index, place = np.unique(np.column_stack([at.ravel() for _, at in found]), axis=0, return_inverse=True)
        counts = np.bincount(place.ravel())
        return self._fit(index, np.bincount(place.ravel(), y) / counts, tuple(map(len, self.ids_)))

    def transform(self, X: Any) -> np.ndarray:
        """Fill missing values; observed values are unchanged.

        Parameters
        ----------
        X : array
            Of the shape of that in ``fit``, whose indices it has: the same sensors, days and hours.
        """
        a = self._same(X)
        index = np.argwhere(np.isnan(a))
        a[tuple(index.T)] = self.predict_index(index)[0]
        return a

    def predict(self, keys: Any) -> np.ndarray:
        """Predict entries.

        Parameters
        ----------
        keys : (m, d) array or data frame
            Indices after :meth:`fit`, ids after :meth:`fit_entries`. Unknown ids get averages, with a warning.
        """
        return self.predict_index(self._index(keys))[0]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Prediction intervals.

        Parameters
        ----------
        X : array as in :meth:`transform`, or keys as in :meth:`predict`
        coverage : float
            Probability with which an interval contains the missing value, between 0 and 1 (default 0.9).

        Returns
        -------
        low, high : arrays
            For an array, equal where a value is observed.
        """
        check("coverage", coverage, SHARE)
        if frame_kind(X) or np.ndim(X) < 3:
            mean, half = self.predict_index(self._index(X), coverage)
            return mean - half, mean + half
        low = self._same(X)
        high, index = low.copy(), np.argwhere(np.isnan(low))
        mean, half = self.predict_index(index, coverage)
        low[tuple(index.T)], high[tuple(index.T)] = mean - half, mean + half
        return low, high

    def plot(self, figure: Any = None) -> Any:
        """Plot the held-out errors of all candidates (``curve_``) and the predictions of held-out entries. Needs matplotlib.

        Parameters
        ----------
        figure : matplotlib figure, optional
            Where to draw; by default a new figure with a transparent ground, for light and dark pages.

        Returns
        -------
        matplotlib figure
        """
        check_is_fitted(self)
        figure = blank_figure(9.6, max(3.4, 1 + 0.24 * len(self.curve_)), transparent=True) if figure is None else figure
        left, right = figure.subplots(1, 2)
        style_axes(left, "held-out error (1: that of the mean)", "", f"Selected: {self.method_}", transparent=True)
        kinds, chosen = [(one.method, tuple(one.rank), one.mode) for one in self.curve_], (self.method_, self.rank_, self.mode_)
        colours = [ORANGE if kind == chosen else EITHER_BLUE for kind in kinds]
        left.barh(range(len(kinds)), [one.error for one in self.curve_], color=colours)
        names = [f"{name}{'' if mode is None else f' {mode}'}, rank {' x '.join(map(str, rank))}" for name, rank, mode in kinds]
        left.set_yticks(range(len(names)), names)
        left.invert_yaxis()
        if self.heldout_.shape[1]:
            draw_predictions(right, *self.heldout_[:2])
        return figure

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file that :func:`lorank.load` reads, without pickle and atomically."""
        check_is_fitted(self)
        return save_model(self, path)

    # -- parts of these ------------------------------------------------------------------------------------------------
    def _fit(self, index: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> TensorImputer:
        if not len(values):
            raise ValueError("X has no observed entry: all values are missing")
        if math.prod(shape) // min(shape) > MAX_INDICES**2 or max(len(np.unique(index[:, 0])), len(values)) > MAX_INDICES:
            raise ValueError(f"an array of shape {shape} with {counted(len(values), 'entry', 'entries')} is too large")
        rank = self._rank(shape)
        self.mean_, deviation = float(values.mean()), float(values.std())
        if not math.isfinite(deviation):
            raise ValueError("the variance of the values overflows: divide them by their largest absolute value")
        self.scale_ = deviation if deviation > 1e-12 * abs(self.mean_) else 1.0
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fit = fit_tensor(
            index,
            (values - self.mean_) / self.scale_,
            shape,
            np.random.default_rng(seed),
            rank=rank,
            method=self.method,
            holdout=self.holdout,
            n_samples=self.n_samples,
        )
        self.shape_, self.model_, self.curve_ = shape, fit.model, fit.curve
        unit = np.array([[self.mean_], [self.mean_], [0.0]])
        self.heldout_ = fit.heldout * self.scale_ + unit
        self.quality_ = math.nan if fit.best is None else fit.best.error
        self.scores_ = np.sort(np.abs(fit.heldout[0] - fit.heldout[1]) / fit.heldout[2])
        self.status_ = "interrupted" if fit.interrupted else "fitted"
        return self

    def _rank(self, shape: tuple[int, ...]) -> list[int] | None:
        if isinstance(self.rank, str) and self.rank == "auto":
            return None
        given: Any = list(self.rank) if isinstance(self.rank, (list, tuple)) else [self.rank] * len(shape)
        right = len(given) == len(shape) and all(whole(1).holds(r) for r in given)
        if not right:
            raise ParameterError(
                "rank", f"must be 'auto', a whole number, 1 or more, or {len(shape)} of them: got {shown(self.rank)}"
            )
        if self.method == "unfolding":
            raise ParameterError("rank", f"needs method='tucker', got {shown(self.rank)} with method='unfolding'")
        return [min(int(r), n - 1) for r, n in zip(given, shape, strict=True)]

    def _same(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        a = _array(X)
        if self.ids_ is not None or a.shape != self.shape_:
            own = "keys" if self.ids_ is not None else f"an array of shape {self.shape_}"
            raise ValueError(f"X has shape {a.shape}, and the model was fitted to {own}: fit an imputer to this array")
        return a

    def _index(self, keys: Any) -> np.ndarray:
        check_is_fitted(self)
        if frame_kind(keys) and self.names_ is not None and (missing := set(self.names_) - set(map(str, keys.columns))):
            raise ParameterError("keys", f"must have the columns {self.names_}: {sorted(missing)} is missing")
        parts = _keys(keys[self.names_] if frame_kind(keys) and self.names_ is not None else keys)
        if len(parts) != len(self.shape_):
            raise ParameterError("keys", f"must have {len(self.shape_)} columns as those of the fit, got {len(parts)}")
        if self.ids_ is None:
            index = np.column_stack(parts)
            if index.dtype.kind not in "iu" or (index < 0).any() or (index >= self.shape_).any():
                raise ParameterError("keys", f"must be indices of an array of shape {self.shape_}, counted from 0")
            return index
        index = np.column_stack([positions_of(part, ids) for part, ids in zip(parts, self.ids_, strict=True)])
        unknown = int((index == self.shape_).any(1).sum())
        if unknown:
            warnings.warn(f"averages are predicted for {counted(unknown, 'line')} with unknown ids", stacklevel=3)
        return index

    def predict_index(self, index: np.ndarray, coverage: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Predictions at indices, and half the widths of intervals."""
        mean, deviation = self.model_.predict(index)
        width = 0.0 if coverage is None else self._width(coverage)
        return self.mean_ + self.scale_ * mean, width * self.scale_ * deviation

    def _width(self, coverage: float) -> float:
        """Half the width of an interval in predictive standard deviations."""
        if not len(self.scores_):
            return NormalDist().inv_cdf((1 + coverage) / 2)
        at = math.ceil(coverage * (len(self.scores_) + 1)) - 1
        return float(self.scores_[min(at, len(self.scores_) - 1)])

    @property
    def rank_(self) -> tuple[int, ...]:
        check_is_fitted(self)
        return tuple(self.model_.rank)

    @property
    def method_(self) -> str:
        check_is_fitted(self)
        return str(self.model_.method)

    @property
    def mode_(self) -> int | None:
        check_is_fitted(self)
        return self.model_.mode  # type: ignore[no-any-return]

    @property
    def noise_(self) -> float:
        check_is_fitted(self)
        return self.scale_ * float(self.model_.noise_deviation)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = False
        return tags


def _array(X: Any) -> np.ndarray:
    """A copy of X in double precision."""
    if frame_kind(X):
        raise ParameterError("X", f"{NOT_AN_ARRAY}: for a data frame with columns of keys use fit_entries")
    try:
        given = np.asarray(X)
        a = np.array(given, np.float64) if given.dtype.kind in "fiubO" else None
    except (TypeError, ValueError, OverflowError):
        a = None
    if a is None:
        raise ParameterError("X", NOT_AN_ARRAY)
    if a.ndim < 3:
        raise ParameterError("X", f"{NOT_AN_ARRAY}, got shape {a.shape}: for tables use TableImputer, for keys fit_entries")
    if np.isinf(a).any():
        raise ParameterError("X", f"has an infinite value at {tuple(np.argwhere(np.isinf(a))[0].tolist())}")
    return a


def _as_array(name: str, a: Any) -> np.ndarray:
    try:
        return np.asarray(a)
    except ValueError as error:
        raise ParameterError(name, f"must be an array: {error}") from None


def _keys(keys: Any) -> list[np.ndarray]:
    """The columns of keys, as integers or text."""
    if frame_kind(keys):
        parts = [np.asarray(keys[name].to_numpy()) for name in keys.columns]
    else:
        a = _as_array("keys", keys)
        if a.ndim != 2:
            raise ParameterError("keys", f"must have a line for each entry and a column for each mode, got shape {a.shape}")
        parts = list(a.T)
    if len(parts) < 3:
        raise ParameterError("keys", f"must have three columns or more, got {len(parts)}: for pairs use MatrixCompletion")
    found = []
    for k, part in enumerate(parts):
        if part.dtype.kind == "f" and not (np.isfinite(part) & (part == np.round(part))).all():
            raise ParameterError("keys", f"column {k} holds numbers that are not whole: round them, or pass them as text")
        if part.dtype.kind == "O" and any(one is None or one != one for one in part.tolist()):
            raise ParameterError("keys", f"column {k} has missing ids: leave out these lines")
        whole_numbers = part.dtype.kind in "iuf" or (part.dtype.kind == "O" and all(isinstance(one, int) for one in part))
        found.append(part.astype(np.int64) if whole_numbers else part.astype(str))
    return found


def check_tensor(estimator: TensorImputer) -> None:
    """Predict the first and the last entry: arrays that do not fit together raise an error here, not in use."""
    shape, ids, model = estimator.shape_, estimator.ids_, estimator.model_
    if ids is not None and tuple(map(len, ids)) != shape:
        raise ValueError("its ids do not fit its shape")
    parts = [len(u[0]) for u in model.factors] if model.method == "tucker" else [len(model.factors.rows)]
    if parts != (list(shape) if model.method == "tucker" else [shape[model.mode]]):
        raise ValueError("its factors do not fit its shape")
    mean, half = estimator.predict_index(np.array([[0] * len(shape), [n - 1 for n in shape]]), 0.5)
    if not (np.isfinite(mean).all() and np.isfinite(half).all()):
        raise ValueError("its predictions are not finite")


__all__ = ["TensorCandidate", "TensorImputer"]
