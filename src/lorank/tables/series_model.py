"""Model of a time series with missing values: stacked predictions, weighted by the distance to observed values.

The predictions are: a Gaussian of the columns; a Gaussian of the columns and their neighbors in time; linear interpolation;
interpolation of the residuals of the other columns, and of a dynamic factor model; structural models of single columns; and
seasons. Their weights are fitted to cells that are held out in runs like the table's own gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .block_gaps import BlockGapModel, block_gap_passes, empty_rows, find_season, fit_block_gaps, season_predictions
from .factor_analysis import FactorAnalysis
from .gaussian import Gaussian
from .linear import LinearModel
from .missingness import NO_FOLD
from .patterns import find_patterns
from .series import (
    block_folds,
    inserted,
    interpolate,
    on_grid,
    run_lengths,
    seasonal,
    seasonal_profile,
    typical_step,
    with_neighbors,
)
from .smoother import fit_smoother
from .stacking import (
    DISTANCE_EDGES,
    LINE,
    MAX_ERROR_RATIO,
    STRUCTURAL,
    Calibration,
    error_spread,
    gain_is_significant,
    stack,
    stacking_weights,
)
from .structural import Structural, fit_structural
from .table_model import FOLDS, REFIT_ITER, fit_linears

MAX_STRUCTURAL = 8  # columns of a table for which structural models are fitted


@dataclass(frozen=True)
class SeriesModel:
    """Fitted model of a series whose columns have about mean 0 and variance 1."""

    across: LinearModel  # of the columns
    along: LinearModel  # of the columns and their neighbors in time
    structural: list[list[Structural]]  # of each column; empty where columns are many or values few
    period: int  # rows; 0 where there is none
    weights: np.ndarray  # (classes, d, predictions), by distance to observed values
    spread: np.ndarray  # (classes, d): root mean square errors
    calibration: Calibration
    block_gaps: BlockGapModel | None = None  # for empty rows; None where there were no more of them than by chance

    method: ClassVar = "auto"

    @property
    def gaussian(self) -> Gaussian | FactorAnalysis:
        """The Gaussian of the columns."""
        return self.across.gaussian

    def fill(self, table: np.ndarray, times: np.ndarray | None, spread: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The filled table, and the standard deviations of its missing values."""
        assert times is not None
        table, times, at = on_grid(table, times)
        missing = np.isnan(table)
        found, classes = _predictions(table, times, self.across, self.along, self.structural, self.period)
        filled = stack(found, classes, self.weights)
        deviation = self.spread[classes, np.arange(table.shape[1])]
        empty = self._empty_rows(missing)
        if self.block_gaps is not None and empty.any():
            more = season_predictions(table, times, found[LINE], self.period, self.block_gaps.season)
            there = np.stack([*found, *more])[:, empty]
            filled[empty], deviation[empty] = self.block_gaps.fill(there, classes[empty])
        return np.where(missing, filled, table)[at], np.where(missing, deviation, 0.0)[at]

    def bounds(self, missing: np.ndarray, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of prediction intervals in standard deviations: two (n, d) arrays."""
        low, high = (np.broadcast_to(end, missing.shape) for end in self.calibration.bounds(coverage))
        if self.block_gaps is None:
            return low, high
        empty = self._empty_rows(missing)[:, None]
        own = self.block_gaps.calibration.bounds(coverage)
        return np.where(empty, own[0], low), np.where(empty, own[1], high)

    def _empty_rows(self, missing: np.ndarray) -> np.ndarray:
        return empty_rows(missing) if self.block_gaps is not None else np.zeros(len(missing), bool)

    def draw(self, table: np.ndarray, rng: np.random.Generator, times: np.ndarray | None) -> np.ndarray:
        """Random imputations: errors are correlated over columns as in the Gaussian, and along a gap."""
        filled, deviation = self.fill(table, times)
        mean, drawn = self.across.fill(table), self.across.draw(table, rng)
        error = np.where(np.isnan(table), drawn - mean, 0.0)
        scale = np.sqrt(np.maximum(np.mean(error**2, axis=0) / np.maximum(np.isnan(table).mean(axis=0), 1e-9), 1e-12))
        size = np.broadcast_to(self.calibration.size, table.shape)
        if self.block_gaps is not None:
            size = np.where(self._empty_rows(np.isnan(table))[:, None], self.block_gaps.calibration.size, size)
        return filled + size * deviation * error / scale


def fit_series(
    table: np.ndarray, times: np.ndarray, period: int, rng: np.random.Generator, zeros: np.ndarray
) -> tuple[SeriesModel, np.ndarray]:
    """Select and fit the model of a standardized table without constant columns, whose rows are at increasing times.

    ``zeros`` are the standardized values of 0. Returns the model and its held-out errors, nan at cells that were not held out.
    """
    missing = np.isnan(table)
    passes = block_gap_passes(missing, rng)
    fold = block_folds(missing, FOLDS, rng, empty_rows(missing) if passes else None)
    table, times, places = on_grid(table, times)
    fold, passes = inserted(fold, places, NO_FOLD), [inserted(hidden, places, False) for hidden in passes]
    n, d = table.shape
    wide = with_neighbors(table, times, period)
    linears, many_rows = fit_linears(table, fold == 0, None)
    across = linears[0]
    features = np.zeros((n, wide.shape[1] - d), bool)
    linears, both = fit_linears(wide, np.hstack([fold == 0, features]), None)
    along, many_rows = linears[0], many_rows and both
    structural = _fit_structural(table, times, period, zeros)

    def predict(hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By models refitted without the held-out cells, unless there are many rows."""
        models = (across, along)
        if not many_rows:
            models = across.refit(hidden, REFIT_ITER), along.refit(with_neighbors(hidden, times, period), REFIT_ITER)
        return _predictions(hidden, times, *models, structural, period)

    found, classes = None, np.zeros((n, d), int)
    for k in range(FOLDS):
        at = fold == k
        if not at.any():
            continue
        predictions, distance = predict(np.where(at, np.nan, table))
        found = np.full_like(predictions, np.nan) if found is None else found
        found[:, at], classes[at] = predictions[:, at], distance[at]
    if found is None:  # too few rows for cross-validation
        found = _predictions(table, times, across, along, structural, period)[0]
    weights, stacked = _fit_stack(found, classes, table, fold, _stretch(missing), STRUCTURAL if structural else LINE)
    errors = np.where(fold >= 0, table - stacked, np.nan)
    spread = error_spread(errors, classes)
    inflation = 1 + wide.shape[1] / n if many_rows else 1.0
    calibration = Calibration.of(errors, spread[classes, np.arange(d)], inflation)
    model = SeriesModel(across, along, structural, period, weights, spread, calibration)
    if not passes:
        return model, errors[places]
    season = find_season(table, period)

    def predict_empty(hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        predictions, distance = predict(hidden)
        more = season_predictions(hidden, times, predictions[LINE], period, season)
        return np.stack([*predictions, *more]), distance

    return replace(model, block_gaps=fit_block_gaps(table, passes, predict_empty, season, inflation)), errors[places]


def _predictions(
    table: np.ndarray,
    times: np.ndarray,
    across: LinearModel,
    along: LinearModel,
    structural: list[list[Structural]],
    period: int,
) -> tuple[np.ndarray, np.ndarray]:
    """All predictions for all cells, a (g, n, d) array, and the class of each cell's distance to observed values."""
    missing, gaussian, d = np.isnan(table), across.gaussian, table.shape[1]
    covariance = gaussian.covariance
    rows = along.fill(with_neighbors(table, times, period))
    filled = across.fill(table, find_patterns(missing))
    line, distance = interpolate(table, times)
    K = np.linalg.inv(covariance)
    residual = (filled - gaussian.mean) @ K / np.diagonal(K)  # from the conditional means given the other columns
    through = filled + interpolate(np.where(missing, np.nan, residual), times)[0]
    step = typical_step(times)
    smooth = fit_smoother(gaussian.mean, covariance, filled)(table, np.diff(times) / step)
    smooth_through = smooth + interpolate(np.where(missing, np.nan, table - smooth), times)[0]
    found = [rows[:, :d], filled, line, through, smooth_through]
    if structural:
        steps = np.diff(times) / step
        pairs = [[model(column, steps) for model in models] for models, column in zip(structural, table.T, strict=True)]
        found += [np.column_stack(columns) for columns in zip(*pairs, strict=True)]
    if period:
        profile = seasonal_profile(table, period)
        found += [seasonal(table, period, line), profile + interpolate(table - profile, times)[0]]
    return np.stack(found), np.searchsorted(DISTANCE_EDGES, distance / step)


def _fit_structural(table: np.ndarray, times: np.ndarray, period: int, zeros: np.ndarray) -> list[list[Structural]]:
    """Two structural models of each column; none where columns are many, or one has too few values."""
    if table.shape[1] > MAX_STRUCTURAL:
        return []
    steps = np.diff(times) / typical_step(times)
    models = [fit_structural(column, steps, period, float(zero)) for column, zero in zip(table.T, zeros, strict=True)]
    return models if all(models) else []


def _fit_stack(
    found: np.ndarray, classes: np.ndarray, table: np.ndarray, fold: np.ndarray, stretch: int, usual: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the predictions, and the stack that was fitted to the other half of the folds.

    A column takes the prediction ``usual`` unless another one or the stack is significantly better.
    """
    there, columns = fold >= 0, np.arange(table.shape[1])
    squares = np.where(there, (found - table) ** 2, 0.0)
    total = squares.sum(axis=1)

    def better(errors: np.ndarray, than: np.ndarray) -> np.ndarray:
        """Columns whose squared errors are smaller than others, and significantly smaller than the usual ones."""
        significant = gain_is_significant(squares[usual] - errors, squares[usual].sum(axis=0), stretch)
        return np.asarray((errors.sum(axis=0) < MAX_ERROR_RATIO * than.sum(axis=0)) & significant)

    best = total.argmin(axis=0)
    best = np.where(better(squares[best, :, columns].T, squares[usual]), best, usual)
    first = int(total.sum(axis=1).argmin())
    stacked = np.zeros(table.shape)
    for half in (0, 1):
        weights = stacking_weights(found, classes, table, there & (fold % 2 == half), first)
        stacked = np.where(there & (fold % 2 != half), stack(np.nan_to_num(found), classes, weights), stacked)
    weights = stacking_weights(found, classes, table, there, first)
    alone = ~better(np.where(there, (table - stacked) ** 2, 0.0), squares[best, :, columns].T)
    weights[:, alone] = np.eye(len(found))[best[alone]]
    return weights, np.where(alone, found[best, :, columns].T, stacked)


def _stretch(missing: np.ndarray) -> int:
    """Rows within which errors are correlated: twice the mean length of a gap."""
    lengths = np.concatenate([run_lengths(column) for column in missing.T])
    return int(np.ceil(2 * lengths.mean())) if len(lengths) else 1
