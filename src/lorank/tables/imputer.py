"""The transformer that fills tables and series: the model chooses itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from ..common.checks import SHARE, ParameterError, check, one_of, shown, whole
from ..io.archive import save_model
from .columns import Column, describe, encode, frame_kind, restore
from .factor_analysis import FactorAnalysis
from .forest import Forest
from .series import Neighbours, find_period
from .series_model import SeriesModel, fit_series
from .standard import column_moments, standardised
from .table_model import TableModel, fit_table

BLOCK = 1 << 19  # cells of a block of rows that are filled together
TREE_ROWS = range(100, 1000)  # where trees take seconds, and have something to learn from
TREE_WORK = 1_000_000  # rows times columns squared: the most, for trees that nobody asked for
LARGEST_SQUARED = 1e150  # deviations whose squares are numbers
SPLITS = 20  # features that a tree tries at a node, at the most


class TableImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill the gaps of a table, or of series, by whatever model fills hidden cells of it best.

    Known cells are hidden in turn, in the shape of the gaps that there are. On these are chosen a Gaussian of the columns
    (with few rows its correlations are shrunk, with many columns it has a few factors), monotone margins where columns are
    far from normal, a kernel regression of what these leave over, and trees where rows are few; the same cells calibrate
    intervals. Rows that were not there in ``fit`` are filled without fitting again. Frames come back as frames, with their
    types: whole numbers, Booleans, categories, ordered levels and dates.

    Parameters
    ----------
    time : None, True, str or int
        Rows are in the order of time (True), or at the times in this column (its name in a frame, its number in an array),
        which may be irregular: neighbours in time, lines between them and seasons are then weighed against the other columns.
        Blackouts, in which nearly all columns are missing for a while, are judged apart.
        With True, a pandas frame's index of dates is its time.
    refine : "auto", "trees" or "none"
        What to do about what linear models leave over: a kernel regression where it helps and, in tables of 100 to 999 rows
        and not too many columns, randomised trees of scikit-learn where they help (seconds); these in any table; or nothing.
    fit_rows : int
        Of larger tables, a random sample of that many rows is fitted. Series are fitted as a whole.
    random_state : int, RandomState or None

    Attributes
    ----------
    means_, scales_ : (n_columns,) arrays
        Of the columns as numbers: one for each number, Boolean and date, one for each level of a category.
    covariance_ : (n_columns, n_columns) array
        Of the columns, in their own units.
    rank_ : int
        Factors of that covariance; all columns where it is full.
    columns_ : list
        Name and kind of each column.
    model_ : object
        What was chosen: linear models, weights, margins, bumps.
    period_ : int
        The season of series, in rows; 0 where none was found.

    Raises
    ------
    ValueError
        By ``fit`` and its kin, where the table or a parameter is not what it should be, by name; before ``fit`` (scikit-learn's
        NotFittedError) by all others.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank import TableImputer
    >>> rng = np.random.default_rng(0)
    >>> table = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 6))
    >>> gaps = rng.random(table.shape) < 0.1
    >>> imputer = TableImputer().fit(np.where(gaps, np.nan, table))
    >>> filled = imputer.transform(np.where(gaps, np.nan, table))
    >>> bool(np.sqrt(np.mean((filled - table)[gaps] ** 2)) < 0.2 * table[gaps].std())
    True
    >>> low, high = imputer.interval(np.where(gaps, np.nan, table), 0.9)
    >>> bool((low <= high).all())
    True
    """

    def __init__(self, *, time: Any = None, refine: str = "auto", fit_rows: int = 20_000, random_state: Any = 0) -> None:
        self.time = time
        self.refine = refine
        self.fit_rows = fit_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> TableImputer:
        """Learn how columns, and neighbours in time, hang together.

        Parameters
        ----------
        X : (n_rows, n_features) array or frame
            With gaps: nan, None or null.
        """
        check("refine", self.refine, one_of(("auto", "trees", "none")))
        check("fit_rows", self.fit_rows, whole(10))
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        table, times = self._read(X, reset=True)
        if times is None and len(table) > self.fit_rows:
            table = table[np.sort(rng.choice(len(table), self.fit_rows, replace=False))]
        if times is None:
            table = _in_order(table)
        self._scale(table)
        used = self._used
        self.model_: TableModel | SeriesModel | None = None
        self.period_ = 0
        if used.any():
            standard = standardised(table[:, used], self.means_[used], self.scales_[used])
            if times is not None:
                order = np.argsort(times, kind="stable")
                self.period_ = find_period(standard[order], times[order])
                self.model_ = fit_series(standard[order], times[order], Neighbours(self.period_), rng)
            else:
                few = len(standard) in TREE_ROWS and len(standard) * standard.shape[1] ** 2 <= TREE_WORK
                grow = _grown if self.refine == "trees" or (self.refine == "auto" and few) else None
                self.model_ = fit_table(standard, rng, bumps=self.refine != "none", grow=grow)
        return self

    def transform(self, X: Any) -> Any:
        """The table with its gaps filled; what is there stays as it is.

        Parameters
        ----------
        X : (n_rows, n_features) array or frame

        Returns
        -------
        array or frame
            As X is.
        """
        table, times = self._prepare(X)
        return self._give(X, self._fill(table, times, spread=False)[0])

    def interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals that hold what is missing with a chance of about ``level``.

        Parameters
        ----------
        X : (n_rows, n_features) array or frame
        level : float
            Between 0 and 1.

        Returns
        -------
        low, high : (n_rows, n_columns) arrays
            Equal where a cell is known. Of frames with categories, columns are those of ``means_``.
        """
        check("level", level, SHARE)
        table, times = self._prepare(X)
        filled, deviation = self._fill(table, times)
        low, high = filled.copy(), filled.copy()
        if self.model_ is not None:
            used = self._used
            below, above = self.model_.ends(np.isnan(table[:, used]), float(level))
            low[:, used] += deviation[:, used] * np.minimum(below, 0)
            high[:, used] += deviation[:, used] * np.maximum(above, 0)
            low, high = (np.clip(end, self.floor_, self.ceiling_) for end in (low, high))
        known = ~np.isnan(table)
        low[known] = high[known] = table[known]
        return low, high

    def sample(self, X: Any, n: int = 5, random_state: Any = 0) -> list[Any]:
        """Tables filled at random, as likely as the model has it: multiple imputations for analyses that pool them.

        Parameters
        ----------
        X : (n_rows, n_features) array or frame
        n : int
        random_state : int, RandomState or None

        Returns
        -------
        list of n arrays or frames
        """
        check("n", n, whole(1))
        table, times = self._prepare(X)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        found = []
        for _ in range(n):
            filled = self._mean_filled(table)
            if self.model_ is not None and len(table):
                used = self._used
                standard = standardised(table[:, used], self.means_[used], self.scales_[used])
                drawn = self._draw(standard, times, rng) * self.scales_[used] + self.means_[used]
                filled[:, used] = np.where(
                    np.isnan(table[:, used]), np.clip(drawn, self.low_[used], self.high_[used]), table[:, used]
                )
            found.append(self._give(X, filled))
        return found

    @property
    def covariance_(self) -> np.ndarray:
        """Of the columns, in their own units."""
        check_is_fitted(self)
        found = np.zeros((len(self.means_), len(self.means_)))
        if self.model_ is not None:
            used = np.flatnonzero(self._used)
            scale = self.scales_[used]
            if (large := scale.max()) > LARGEST_SQUARED:
                raise ValueError(
                    f"the squares of columns with deviations of {large:.1e} are no numbers in float64: divide such columns by "
                    f"{large:.0e} and fit again"
                )
            found[np.ix_(used, used)] = self.model_.linears[0].gaussian.covariance * np.outer(scale, scale)
        return found

    @property
    def rank_(self) -> int:
        """Factors of the covariance; all columns where it is full."""
        check_is_fitted(self)
        if self.model_ is None:
            return 0
        gaussian = self.model_.linears[0].gaussian
        return gaussian.loadings.shape[1] if isinstance(gaussian, FactorAnalysis) else len(gaussian.mean)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file that :func:`lorank.load` reads. No pickle; written in one go."""
        check_is_fitted(self)
        return save_model(self, path)

    def _read(self, X: Any, reset: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """The table as numbers, and its times."""
        kind = frame_kind(X)
        if not kind:
            try:
                table = validate_data(
                    self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2 if reset else 1, reset=reset
                )
            except OverflowError as error:
                raise ParameterError("X", f"holds numbers beyond the range of float64: {error}") from None
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
                    raise ValueError("time=True reads the times in the index, and one of them is missing: leave such rows out")
                return np.asarray(index.astype("int64"), np.float64)
            return np.arange(len(table), dtype=np.float64)
        names = [column.name for column in self.columns_]
        if isinstance(self.time, str) and self.time in names:
            place = names.index(self.time)
        elif isinstance(self.time, (int, np.integer)) and not isinstance(self.time, bool) and 0 <= self.time < len(names):
            place = int(self.time)
        else:
            raise ValueError(f"time must be None, True, or one of the columns {names[:8]}: got {shown(self.time)}")
        at = sum(column.width for column in self.columns_[:place])
        stamps = table[:, at] if self.columns_[place].width == 1 else np.full(1, np.nan)
        if np.isnan(stamps).any():
            raise ValueError(f"the column of times {self.time!r} must hold numbers or dates, and have no gaps")
        return np.asarray(stamps)

    def _scale(self, table: np.ndarray) -> None:
        names = [column.name for column in self.columns_ for _ in range(column.width)]
        self.means_, self.scales_ = column_moments(table, names)
        gaps = np.isnan(table)
        counts = (~gaps).sum(axis=0)
        self.low_ = np.where(counts > 0, np.min(np.where(gaps, np.inf, table), axis=0), 0.0)
        self.high_ = np.where(counts > 0, np.max(np.where(gaps, -np.inf, table), axis=0), 0.0)
        # an end that several cells share is a bound; beyond one that a single cell has, there may be more
        self.floor_ = np.where((table == self.low_).sum(axis=0) > 1, self.low_, -np.inf)
        self.ceiling_ = np.where((table == self.high_).sum(axis=0) > 1, self.high_, np.inf)

    @property
    def _used(self) -> np.ndarray:
        return self.scales_ > 0

    def _prepare(self, X: Any) -> tuple[np.ndarray, np.ndarray | None]:
        check_is_fitted(self)
        return self._read(X, reset=False)

    def _mean_filled(self, table: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(table), self.means_, table)

    def _fill(self, table: np.ndarray, times: np.ndarray | None, spread: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The filled table and deviations (none where they are not asked for), block by block where rows stand alone."""
        filled = self._mean_filled(table)
        deviation = np.zeros_like(filled) if spread else filled[:0]
        model, used = self.model_, self._used
        if model is None or not len(table):
            return filled, deviation
        scale, mean = self.scales_[used], self.means_[used]
        if isinstance(model, SeriesModel):
            assert times is not None
            order = np.argsort(times, kind="stable")
            blocks = [order]
        else:
            with_gaps = np.flatnonzero((np.isnan(table) & used).any(axis=1))
            step = max(1, BLOCK // table.shape[1])
            blocks = [with_gaps[at : at + step] for at in range(0, len(with_gaps), step)]
        for rows in blocks:
            part = table[rows][:, used]
            standard = standardised(part, mean, scale)
            found, sd = model.fill(standard, times[rows]) if isinstance(model, SeriesModel) else model.fill(standard, spread)  # type: ignore[index]
            guess = np.clip(found * scale + mean, self.low_[used], self.high_[used])
            filled[np.ix_(rows, used)] = np.where(np.isnan(part), guess, part)
            if spread and sd is not None:
                deviation[np.ix_(rows, used)] = sd * scale
        return filled, deviation

    def _draw(self, standard: np.ndarray, times: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
        if isinstance(self.model_, SeriesModel):
            assert times is not None
            order = np.argsort(times, kind="stable")
            drawn = np.empty_like(standard)
            drawn[order] = self.model_.draw(standard[order], rng, times[order])
            return drawn
        assert self.model_ is not None
        return self.model_.draw(standard, rng)

    def _give(self, X: Any, filled: np.ndarray) -> Any:
        return restore(X, self.columns_, filled) if frame_kind(X) else filled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _in_order(table: np.ndarray) -> np.ndarray:
    """The rows in an order that depends on what they hold alone, so that the same cells are hidden however they came."""
    bits = np.ascontiguousarray(np.where(np.isnan(table), np.nan, table + 0.0)).view(np.uint64)  # one nan, and no -0
    odd = np.random.default_rng(0).integers(1, 2**63, table.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return np.asarray(table[np.argsort(((bits ^ (bits >> np.uint64(29))) * odd).sum(axis=1), kind="stable")])


def _grown(X: np.ndarray, y: np.ndarray, trees: int, leaf: int, seed: int) -> Forest:
    """Extremely randomised trees of scikit-learn, as arrays."""
    from sklearn.ensemble import ExtraTreesRegressor

    share = min(1.0, SPLITS / X.shape[1]) if X.shape[1] else 1.0
    found = ExtraTreesRegressor(trees, min_samples_leaf=leaf, max_features=share, random_state=seed % (2**31)).fit(X, y)
    grown = []
    for tree in (each.tree_ for each in found.estimators_):
        at, leaves = np.arange(tree.node_count), tree.children_left < 0
        left, right = (np.where(leaves, at, child).astype(np.int32) for child in (tree.children_left, tree.children_right))
        feature = np.where(leaves, -1, tree.feature).astype(np.int32)
        threshold, value = (x.astype(np.float32) for x in (tree.threshold, tree.value[:, 0, 0]))
        grown.append(Forest(np.zeros(1, np.int32), feature, threshold, left, right, value))
    return Forest.together(grown)
