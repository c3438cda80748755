"""TableImputer: the scikit-learn transformer that fills missing values of tables and time series."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from ..common.blas_threads import one_blas_thread
from ..common.checks import NOT_NEGATIVE, SHARE, ParameterError, check, check_parameters, one_of, or_word, shown, whole
from ..common.logs import LOG, verbose_fit
from ..io.archive import save_model
from ..io.figures import EITHER_BLUE, blank_figure, style_axes
from .columns import (
    LEVELS,
    Column,
    column_moments,
    describe,
    encode,
    frame_kind,
    held_out_quality,
    labelled,
    places,
    restore,
    standardize,
    with_indicators,
)
from .low_rank import fit_low_rank
from .series import find_period, on_grid, typical_step
from .series_model import SeriesModel, fit_series
from .structural import MAX_PERIOD, select_period
from .table_model import fit_table

BLOCK = 1 << 19  # cells of a block of rows that are filled together
TREE_ROWS = range(100, 1000)  # for which refine="auto" grows trees: enough to learn from, and seconds of time
TREE_WORK = 1_000_000  # largest rows times squared columns for which refine="auto" grows trees
MAX_SQUARED = 1e150  # standard deviations whose squares are finite


@one_blas_thread
class TableImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Imputation of missing values in tables and time series, with the model selected by cross-validation.

    Observed cells are held out in the patterns of the missing ones. They select a Gaussian model of the columns (regularized
    where rows are few, with a few factors where columns are many), marginal transforms for columns far from normal, a kernel
    ridge regression of its errors, and trees where rows are few; they also calibrate prediction intervals. New rows are filled
    without fitting again. Data frames keep their types: whole numbers, Booleans, categories, ordered categories and dates.

    Parameters
    ----------
    method : "auto" or "low-rank"
        ``"auto"`` (the default) selects the model as described above. ``"low-rank"`` fits one factor model with biases and a
        noise variance for each column; it has no prediction intervals.
    time : None, True, str or int
        Whether rows are a time series: None (the default) for none, True for rows in the order of time, or the column of the
        times (its name in a data frame, its index in an array), which may be irregular. With True, a pandas index of dates is
        the time. Interpolation and seasons are then weighted against the other columns; gaps of all columns have weights of
        their own.
    period : "auto" or int
        Period of the season of a time series, in rows, such as 12 for months; 0 for none. ``"auto"`` (the default) finds it.
        Rows absent from otherwise regular times count, if they are at most a quarter as many as the others.
    refine : "auto", "trees" or "none"
        Nonlinear corrections. ``"auto"`` (the default) tries kernel ridge regression and, in tables of 100 to 999 rows and not
        too many columns, randomized trees (seconds); ``"trees"`` tries both in any table; ``"none"`` omits both.
    rank : int or "auto"
        Rank of ``method="low-rank"``. ``"auto"`` (the default) selects it on held-out values among 0 (column means and row
        biases), 1, 2, 3, 4, 6, 8, ...
    regularization : float, "learned" or "auto"
        Regularization of ``method="low-rank"``, as for :class:`MatrixCompletion`. ``"auto"`` (the default) compares learned
        priors with a path of values on held-out values.
    fit_rows : int
        Largest number of rows that ``method="auto"`` is fitted to, a random sample (default 20 000). Time series are fitted as
        a whole.
    add_indicator : bool
        Append a column to the filled table for each column with missing values in ``fit``: whether a value was missing (default
        False). Its name is ``missingindicator_`` and that of the column, as in scikit-learn.
    random_state : int, RandomState or None
        Seed of the folds and samples (default 0).
    verbose : int
        1 logs fits and the selection, 2 also iterations, to standard error or the handlers of the logger ``lorank``; 0 (the
        default) logs nothing.
    device : str, optional
        Device on which PyTorch fits ``method="low-rank"``, ``"cuda"`` for example. By default it is fitted with NumPy.

    Attributes
    ----------
    means_, scales_ : (n_columns,) arrays
        Means and standard deviations of the encoded columns: one for each number, Boolean and date, one for each category.
    covariance_ : (n_columns, n_columns) array
        Covariance of the encoded columns, with ``method="auto"``.
    rank_ : int
        Number of factors; the number of columns for a full covariance.
    columns_ : list
        Name and kind of each column.
    missing_ : (n_features,) bool array
        Columns with missing values in ``fit``.
    model_ : object
        The fitted model, None where no column varies.
    period_ : int
        Period of a time series, in rows; 0 where there is none.
    quality_ : (n_features,) array
        Held-out error of each column, with ``method="auto"``: root mean square in standard deviations of the column (1 is as
        good as the mean), or share of wrong categories; nan where no cell was held out. Columns of categories that are
        predicted no better than by the most frequent category are filled by that.

    Raises
    ------
    ValueError
        Invalid table or parameter, by name. Methods other than ``fit`` raise scikit-learn's NotFittedError before it.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank import TableImputer
    >>> rng = np.random.default_rng(0)
    >>> table = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 6))
    >>> missing = rng.random(table.shape) < 0.1
    >>> observed = np.where(missing, np.nan, table)
    >>> imputer = TableImputer().fit(observed)
    >>> filled = imputer.transform(observed)
    >>> bool(np.sqrt(np.mean((filled - table)[missing] ** 2)) < 0.2 * table[missing].std())
    True
    >>> low, high = imputer.predict_interval(observed, coverage=0.9)
    >>> bool((low <= high).all())
    True
    """

    parameters: ClassVar = {  # valid values
        "method": one_of(("auto", "low-rank")),
        "period": or_word(whole(0), "auto"),
        "refine": one_of(("auto", "trees", "none")),
        "rank": or_word(whole(0), "auto"),
        "regularization": or_word(NOT_NEGATIVE, "auto", "learned"),
        "fit_rows": whole(10),
    }

    def __init__(
        self,
        *,
        method: Literal["auto", "low-rank"] = "auto",
        time: Any = None,
        period: int | Literal["auto"] = "auto",
        refine: Literal["auto", "trees", "none"] = "auto",
        rank: int | Literal["auto"] = "auto",
        regularization: float | Literal["learned", "auto"] = "auto",
        fit_rows: int = 20_000,
        add_indicator: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
        device: str | None = None,
    ) -> None:
        self.method = method
        self.time = time
        self.period = period
        self.refine = refine
        self.rank = rank
        self.regularization = regularization
        self.fit_rows = fit_rows
        self.add_indicator = add_indicator
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    @verbose_fit
    def fit(self, X: Any, y: Any = None) -> TableImputer:
        """Fit the model.

        Parameters
        ----------
        X : (n_rows, n_features) array or data frame
            With nan, None or null for missing values.
        """
        self._check_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rng = np.random.default_rng(seed)
        table, times = self._read(X, reset=True)
        self.missing_ = self._missing(table).any(axis=0)
        if self.method == "auto" and times is None:
            if len(table) > self.fit_rows:
                table = table[np.sort(rng.choice(len(table), self.fit_rows, replace=False))]
            table = _ordered_by_content(table)
        self._scale(table)
        used = self._used
        self.model_: Any = None
        self.period_ = 0
        self.quality_, self.by_mode_ = np.full(len(self.columns_), np.nan), np.zeros(len(used), bool)
        if not used.any():
            return self
        standard = standardize(table[:, used], self.means_[used], self.scales_[used])
        if self.method == "low-rank":
            self.model_ = fit_low_rank(standard, self.rank, self.regularization, seed, self.device)
        elif times is not None:
            order = np.argsort(times, kind="stable")
            zeros = -self.means_[used] / self.scales_[used]
            self.period_ = (
                int(self.period) if self.period != "auto" else self._select_period(standard[order], times[order], zeros)
            )
            self.model_, sorted_errors = fit_series(standard[order], times[order], self.period_, rng, zeros)
            errors = sorted_errors[np.argsort(order)]
        else:
            small = len(standard) in TREE_ROWS and len(standard) * standard.shape[1] ** 2 <= TREE_WORK
            trees = self.refine == "trees" or (self.refine == "auto" and small)
            self.model_, errors = fit_table(standard, rng, self._leaders(), kernel_ridge=self.refine != "none", trees=trees)
        if self.method == "auto":
            held = np.tile(self.means_, (len(table), 1))
            held[:, used] = table[:, used] - errors * self.scales_[used]
            self.quality_, self.by_mode_ = held_out_quality(self.columns_, table, held, self.means_, self.scales_)
            for column, quality in zip(self.columns_, self.quality_, strict=True):
                LOG.info("column %r: held-out error %.3g", column.name, quality)
        return self

    def transform(self, X: Any) -> Any:
        """Fill missing values; observed values are unchanged.

        In data frames, imputed values are rounded to the decimals of their column, where all its values in ``fit`` have six
        decimals or fewer.

        Parameters
        ----------
        X : (n_rows, n_features) array or data frame

        Returns
        -------
        array or data frame
            Of the type of X.
        """
        table, times = self._prepare(X)
        return self._restore(X, self._fill(table, times, spread=False)[0], table)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Any, Any]:
        """Prediction intervals of the missing values.

        Parameters
        ----------
        X : (n_rows, n_features) array or data frame
        coverage : float
            Probability with which an interval contains the missing value, between 0 and 1 (default 0.9).

        Returns
        -------
        low, high : (n_rows, n_columns) arrays or data frames
            Equal where a value is observed. For a data frame they are data frames with its index and names; a category has a
            column ``name=category`` for each of three or more categories, with the bounds of its indicator.
        """
        check("coverage", coverage, SHARE)
        table, times = self._prepare(X, "predict_interval")
        filled, deviation = self._fill(table, times)
        low, high = filled.copy(), filled.copy()
        if self.model_ is not None:
            used = self._used
            below, above = self.model_.bounds(np.isnan(table[:, used]), float(coverage))
            low[:, used] += deviation[:, used] * np.minimum(below, 0)
            high[:, used] += deviation[:, used] * np.maximum(above, 0)
            low, high = (np.clip(end, self.floor_, self.ceiling_) for end in (low, high))
        known = ~np.isnan(table)
        low[known] = high[known] = table[known]
        return (labelled(X, self.columns_, low), labelled(X, self.columns_, high)) if frame_kind(X) else (low, high)

    def category_probabilities(self, X: Any) -> dict[str, np.ndarray]:
        """Class probabilities of categories.

        Parameters
        ----------
        X : (n_rows, n_features) data frame

        Returns
        -------
        dict from column names to (n_rows, n_categories) arrays
            For each column of categories, in the order of its ``levels`` in ``columns_``; 0 and 1 where a value is observed.
        """
        table, times = self._prepare(X, "category_probabilities")
        filled = np.clip(self._fill(table, times, spread=False)[0], 0.0, 1.0)
        found = {}
        for column, place in zip(self.columns_, places(self.columns_), strict=True):
            if column.kind == LEVELS:
                numbers = filled[:, place]
                shares = numbers if column.width > 1 else np.hstack([1 - numbers, numbers])
                found[column.name] = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)
        return found

    def sample(self, X: Any, n: int = 5, random_state: Any = 0) -> list[Any]:
        """Multiple imputation: tables with missing values drawn from their predictive distribution.

        Parameters
        ----------
        X : (n_rows, n_features) array or data frame
        n : int
            Number of tables (default 5).
        random_state : int, RandomState or None
            Seed (default 0).

        Returns
        -------
        list of n arrays or data frames
        """
        check("n", n, whole(1))
        table, times = self._prepare(X, "sample")
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        model, used, found = self.model_, self._used, []
        order = np.arange(len(table)) if times is None else np.argsort(times, kind="stable")
        part, mean, scale = table[np.ix_(order, used)], self.means_[used], self.scales_[used]
        for _ in range(n):
            filled = self._mean_filled(table)
            if model is not None and len(table):
                drawn = model.draw(standardize(part, mean, scale), rng, None if times is None else times[order])
                drawn = np.clip(drawn * scale + mean, self.low_[used], self.high_[used])
                filled[np.ix_(order, used)] = np.where(np.isnan(part), drawn, part)
            found.append(self._restore(X, filled, table))
        return found

    def plot(self, figure: Any = None) -> Any:
        """Plot the held-out error of each column (``quality_``). Needs matplotlib.

        Parameters
        ----------
        figure : matplotlib figure, optional
            Where to draw; by default a new figure with a transparent ground, for light and dark pages.

        Returns
        -------
        matplotlib figure
        """
        check_is_fitted(self)
        known = np.flatnonzero(np.isfinite(self.quality_))[::-1]
        names = [self.columns_[k].name for k in known]
        figure = blank_figure(5, 1.2 + 0.26 * len(names), transparent=True) if figure is None else figure
        axes = figure.subplots()
        style_axes(axes, "held-out error (1: that of the mean)", transparent=True)
        axes.barh(names, self.quality_[known], color=EITHER_BLUE)
        return figure

    @property
    def covariance_(self) -> np.ndarray:
        """Covariance of the encoded columns."""
        check_is_fitted(self)
        found = np.zeros((len(self.means_), len(self.means_)))
        if self.model_ is not None:
            if self.model_.method == "low-rank":
                raise AttributeError("covariance_ needs method='auto'")
            used = np.flatnonzero(self._used)
            scale = self.scales_[used]
            if (large := scale.max()) > MAX_SQUARED:
                raise ValueError(
                    f"the variances of columns with standard deviations of {large:.1e} overflow: divide such columns by "
                    f"{large:.0e} and fit again"
                )
            found[np.ix_(used, used)] = self.model_.gaussian.covariance * np.outer(scale, scale)
        return found

    @property
    def rank_(self) -> int:
        """Number of factors; the number of columns for a full covariance."""
        check_is_fitted(self)
        if self.model_ is None:
            return 0
        return int(self.model_.rank if self.model_.method == "low-rank" else self.model_.gaussian.rank)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file that :func:`lorank.load` reads, without pickle and atomically."""
        check_is_fitted(self)
        return save_model(self, path)

    def _check_parameters(self) -> None:
        check_parameters(self, **self.parameters)
        if self.period != "auto" and (self.time is None or self.time is False):
            raise ParameterError("period", f"needs time=True or the column of the times, got {shown(self.period)} without")
        other, unused = (
            ("auto", {"time": None, "refine": "auto"})
            if self.method == "low-rank"
            else ("low-rank", {"rank": "auto", "regularization": "auto", "device": None})
        )
        for name, default in unused.items():
            value = getattr(self, name)
            if not isinstance(value, type(default)) or value != default:
                raise ParameterError(name, f"needs method={other!r}, got {shown(value)} with method={self.method!r}")

    def _read(self, X: Any, reset: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """The table as numbers, and its times."""
        kind = frame_kind(X)
        if not kind:
            try:
                table = validate_data(
                    self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2 if reset else 1, reset=reset
                )
            except OverflowError as error:
                raise ParameterError("X", f"has numbers beyond the range of float64: {error}") from None
            if reset:
                self.columns_ = [Column(f"x{k}") for k in range(table.shape[1])]
        else:
            validate_data(self, X, skip_check_array=True, reset=reset)
            if reset:
                if len(X) < 2:
                    raise ValueError(f"Found array with {len(X)} sample(s) while a minimum of 2 is required by TableImputer.")
                if not X.shape[1]:
                    raise ValueError("Found array with 0 feature(s) while a minimum of 1 is required by TableImputer.")
                self.columns_ = describe(X)
            table = encode(X, self.columns_)
            if np.isinf(table).any():
                raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
        return table, self._times(X, kind, table)

    def _times(self, X: Any, kind: str, table: np.ndarray) -> np.ndarray | None:
        if self.time is None or self.time is False:
            return None
        if self.time is True:
            index = getattr(X, "index", None) if kind == "pandas" else None
            if index is not None and getattr(index.dtype, "kind", "") == "M":
                if index.hasnans:
                    raise ParameterError("time", "is the index (time=True), where a date is missing: remove such rows")
                return np.asarray(index.astype("int64"), np.float64)
            return np.arange(len(table), dtype=np.float64)
        names = [column.name for column in self.columns_]
        if isinstance(self.time, str) and self.time in names:
            place = names.index(self.time)
        elif isinstance(self.time, (int, np.integer)) and not isinstance(self.time, bool) and 0 <= self.time < len(names):
            place = int(self.time)
        else:
            raise ParameterError("time", f"must be None, True, or one of the columns {names[:8]}: got {shown(self.time)}")
        at = sum(column.width for column in self.columns_[:place])
        stamps = table[:, at] if self.columns_[place].width == 1 else np.full(1, np.nan)
        if np.isnan(stamps).any():
            raise ParameterError("time", f"must be a column of numbers or dates without missing values: got {self.time!r}")
        return np.asarray(stamps)

    @staticmethod
    def _select_period(table: np.ndarray, times: np.ndarray, zeros: np.ndarray) -> int:
        """By likelihood for a single series; by autocorrelation for several and for seasons that are too long for that."""
        table, times, _ = on_grid(table, times)
        if table.shape[1] > 1:
            return find_period(table, times)
        period = select_period(table[:, 0], np.diff(times) / typical_step(times), float(zeros[0]))
        return period or max((found for found in [find_period(table, times)] if found > MAX_PERIOD), default=0)

    def _leaders(self) -> np.ndarray:
        """For each encoded column that varies, the first one of the same column that does, by their index among these."""
        column = np.repeat(np.arange(len(self.columns_)), [one.width for one in self.columns_])[self._used]
        return np.searchsorted(column, column)

    def _scale(self, table: np.ndarray) -> None:
        names = [column.name for column in self.columns_ for _ in range(column.width)]
        self.means_, self.scales_ = column_moments(table, names)
        missing = np.isnan(table)
        counts = (~missing).sum(axis=0)
        self.low_ = np.where(counts > 0, np.min(np.where(missing, np.inf, table), axis=0), 0.0)
        self.high_ = np.where(counts > 0, np.max(np.where(missing, -np.inf, table), axis=0), 0.0)
        # an extreme that several cells share is a bound; values may lie beyond one of a single cell
        self.floor_ = np.where((table == self.low_).sum(axis=0) > 1, self.low_, -np.inf)
        self.ceiling_ = np.where((table == self.high_).sum(axis=0) > 1, self.high_, np.inf)

    @property
    def _used(self) -> np.ndarray:
        return self.scales_ > 0

    def _prepare(self, X: Any, intervals_for: str = "") -> tuple[np.ndarray, np.ndarray | None]:
        check_is_fitted(self)
        if intervals_for and self.model_ is not None and self.model_.method == "low-rank":
            raise ParameterError("method", f"must be 'auto' for {intervals_for}, got 'low-rank'")
        return self._read(X, reset=False)

    def _mean_filled(self, table: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(table), self.means_, table)

    def _fill(self, table: np.ndarray, times: np.ndarray | None, spread: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The filled table, and standard deviations if ``spread``; in blocks of rows, except time series."""
        filled = self._mean_filled(table)
        deviation = np.zeros_like(filled) if spread else filled[:0]
        model, used = self.model_, self._used
        if model is None or not len(table):
            return filled, deviation
        scale, mean = self.scales_[used], self.means_[used]
        if times is None:
            incomplete = np.flatnonzero((np.isnan(table) & used).any(axis=1))
            step = max(1, BLOCK // table.shape[1])
            blocks = [incomplete[at : at + step] for at in range(0, len(incomplete), step)]
        else:
            blocks = [np.argsort(times, kind="stable")]
        for rows in blocks:
            part = table[rows][:, used]
            standard = standardize(part, mean, scale)
            found, sd = model.fill(standard, None if times is None else times[rows], spread)
            guess = found * scale + mean
            if model.method == "auto":
                guess = np.where(self.by_mode_[used], mean, np.clip(guess, self.low_[used], self.high_[used]))
            filled[np.ix_(rows, used)] = np.where(np.isnan(part), guess, part)
            if spread and sd is not None:
                deviation[np.ix_(rows, used)] = sd * scale
        return filled, deviation

    def _restore(self, X: Any, filled: np.ndarray, table: np.ndarray) -> Any:
        found = restore(X, self.columns_, filled) if frame_kind(X) else filled
        if not self.add_indicator:
            return found
        return with_indicators(X, found, self._missing(table)[:, self.missing_], self._indicator_names())

    def _missing(self, table: np.ndarray) -> np.ndarray:
        """Whether values of the columns are missing, an (n_rows, n_features) array; never in columns that are not imputed."""
        found = np.zeros((len(table), len(self.columns_)), bool)
        for k, place in enumerate(places(self.columns_)):
            found[:, k] = np.isnan(table[:, place]).any(axis=1)
        return found

    def _indicator_names(self, names: Any = None) -> list[str]:
        own = [column.name for column in self.columns_] if names is None else names
        return [f"missingindicator_{own[k]}" for k in np.flatnonzero(self.missing_)]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of a filled table, those of indicators of missing values included."""
        names = super().get_feature_names_out(input_features)
        return np.array([*names, *self._indicator_names(names)], object) if self.add_indicator else names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _ordered_by_content(table: np.ndarray) -> np.ndarray:
    """The rows ordered by a hash of their values, so that the folds do not depend on the order of rows."""
    bits = np.ascontiguousarray(np.where(np.isnan(table), np.nan, table + 0.0)).view(np.uint64)  # one nan, and no -0
    odd = np.random.default_rng(0).integers(1, 2**63, table.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return np.asarray(table[np.argsort(((bits ^ (bits >> np.uint64(29))) * odd).sum(axis=1), kind="stable")])


def check_fitted(estimator: TableImputer) -> None:
    """Fill rows of missing values and of column means: arrays that do not fit together raise an error here, not in use."""
    known = np.arange(len(estimator.means_)) % 2 == np.array([[2], [0], [1]])
    times = np.arange(3.0) if isinstance(estimator.model_, SeriesModel) else None
    filled, deviation = estimator._fill(np.where(known, estimator.means_, np.nan), times)
    if not (np.isfinite(filled).all() and np.isfinite(deviation).all()):
        raise ValueError("its predictions are not finite")
