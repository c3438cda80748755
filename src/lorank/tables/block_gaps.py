"""Block gaps: consecutive rows of a time series in which all columns are missing, or nearly all.

The other columns have no information there, and the best weights for single gaps may be poor. Where a series has more such rows
than by chance, weights and prediction intervals for them are fitted to artificial block gaps: copies of its own ones, elsewhere
in time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .series import interpolate, run_bounds, run_lengths, seasonal
from .stacking import (
    LINE,
    MAX_ERROR_RATIO,
    PRIOR_CELLS,
    Calibration,
    error_spread,
    gain_is_significant,
    stack,
    stacking_weights,
)

EMPTY_SHARE = 0.9  # share of missing columns from which on a row is empty
CHANCE_RATIO = 3.0  # number of empty rows, relative to that by chance, above which there are block gaps
MIN_MEAN_LENGTH = 2  # rows: empty rows in shorter runs, on average, are no block gaps
HIDDEN = (0.05, 0.15)  # least and largest share of the rows held out in one pass
PASSES = (12, 20)  # at least, and where artificial gaps are few
ENOUGH_GAPS = 40  # artificial ones
PLACES = 4  # tried for each artificial gap
MAX_SEASON = 8  # periods: the days of a week, quarters of a year
SEASON_MAX_RATIO = 0.9  # of the squared error of one period, below which a season of several periods is used
FEW_STRETCHES = 4  # of two gaps' length, up to which no gain is significant
FEW_MAX_RATIO = 0.65  # of interpolation's squared error, below which another prediction is used then
PARTS = 4  # of the time: weights are validated on one, fitted to the others
MAX_DISAGREEMENT = 4.0  # of predictions, relative to the usual one

Predict = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class BlockGapModel:
    """Weights and calibration of predictions for empty rows."""

    season: int  # rows: several periods that predict better than one; 0 where there are none
    weights: np.ndarray  # (classes, d, predictions), by distance to observed values
    spread: np.ndarray  # (classes, d): root mean square errors
    disagreement: np.ndarray  # (classes, d): mean square deviations of predictions from the stack
    share: float  # of the squared error that is proportional to the disagreement
    calibration: Calibration

    def fill(self, found: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The stack of (g, n, d) predictions, and its standard deviations."""
        columns = np.arange(classes.shape[1])
        filled = stack(found, classes, self.weights)
        ratio = _relative(_disagreement(found, filled), self.disagreement[classes, columns])
        return filled, self.spread[classes, columns] * np.sqrt(1 - self.share + self.share * ratio)


def empty_rows(missing: np.ndarray) -> np.ndarray:
    """Rows in which all columns are missing, or nearly all."""
    return np.asarray(missing.mean(axis=1) >= EMPTY_SHARE)


def has_block_gaps(missing: np.ndarray) -> bool:
    """Whether there are more empty rows than if columns were missing independently, and they are consecutive."""
    n, d = missing.shape
    count = np.ones(1)  # distribution of the number of missing columns of a row
    for share in missing.mean(axis=0):
        count = np.convolve(count, [1 - share, share])
    chance = n * count[np.arange(d + 1) / d >= EMPTY_SHARE].sum()
    lengths = run_lengths(empty_rows(missing))
    return bool(lengths.sum() > max(CHANCE_RATIO * (chance + 1), MIN_MEAN_LENGTH * len(lengths)))


def block_gap_passes(missing: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Cells to hold out in each pass: copies of the table's block gaps at places that have none.

    (n, d) Boolean arrays; none where the table has no block gaps, or no place for another.
    """
    if not has_block_gaps(missing):
        return []
    n, empty = len(missing), empty_rows(missing)
    longest = min(n // 4 + 1, max(int(run_lengths(~empty).max(initial=0)) // 2 - 1, 1))  # that fits with its margins
    shapes = [missing[a:b][:longest] for a, b in zip(*run_bounds(empty), strict=True)]
    share = float(np.clip(empty.mean(), *HIDDEN))  # with more, seasons would be observed less often
    passes: list[np.ndarray] = []
    made, used = 0, np.zeros(n, int)
    while len(passes) < PASSES[0] or (made < ENOUGH_GAPS and len(passes) < PASSES[1]):
        hidden, taken, rows = np.zeros_like(missing), empty.copy(), 0
        for _ in range(n):
            shape = shapes[int(rng.integers(len(shapes)))]
            length = len(shape)
            margin = length // 2 + 1  # adjacent ones would be a longer gap
            drawn = rng.integers(1, max(n - length, 2), PLACES).tolist()
            places = [at for at in drawn if not taken[max(at - margin, 0) : at + length + margin].any()]
            if places:
                at = min(places, key=lambda at: used[at : at + length].sum())
                hidden[at : at + length] = shape
                taken[at : at + length] = True
                used[at : at + length] += 1
                made, rows = made + 1, rows + length
            if rows >= share * n:
                break
        passes.append(hidden & ~missing)
    return [hidden for hidden in passes if hidden.any()]


def find_season(table: np.ndarray, period: int) -> int:
    """Multiple of the period that predicts block gaps best, if clearly better than one period; else 0.

    Observed cells are compared with those so many periods away, after interpolation of the differences a gap's length before
    and after, since levels may drift.
    """
    length = int(np.ceil(run_lengths(empty_rows(np.isnan(table))).mean()))
    nothing = np.full(table.shape, np.nan)
    errors = []
    for multiple in range(1, MAX_SEASON + 1):
        if not period or 2 * multiple * period > len(table) or 2 * length >= len(table):
            break
        difference = table - seasonal(table, multiple * period, nothing)
        squares = (difference[length:-length] - (difference[: -2 * length] + difference[2 * length :]) / 2) ** 2
        errors.append(float(np.nanmean(squares)) if not np.isnan(squares).all() else np.inf)
    return (int(np.argmin(errors)) + 1) * period if errors and min(errors) < SEASON_MAX_RATIO * errors[0] else 0


def season_predictions(table: np.ndarray, times: np.ndarray, line: np.ndarray, period: int, season: int) -> list[np.ndarray]:
    """Predictions for block gaps: seasons, and seasons plus interpolated differences from them."""
    found = []
    for lag in (period, season):
        if lag:
            same = seasonal(table, lag, line)
            found += [same, same + interpolate(table - same, times)[0]]
    return found[1:]  # the first is a prediction for all gaps


def fit_block_gaps(
    table: np.ndarray, passes: list[np.ndarray], predict: Predict, season: int, inflation: float
) -> BlockGapModel:
    """Fit weights and calibration to artificial block gaps, the cells to hold out in each of ``passes``.

    ``predict`` returns (g, n, d) predictions for a table, and (n, d) classes of distances; ``inflation`` is a factor on the
    errors, for models that were fitted to the held-out cells too.
    """
    truth, found, classes, where, lengths = [], [], [], [], []
    for hidden in passes:
        rows = np.flatnonzero(hidden.any(axis=1))
        predictions, distance = predict(np.where(hidden, np.nan, table))
        truth.append(np.where(hidden, table, np.nan)[rows])
        found.append(predictions[:, rows])
        classes.append(distance[rows])
        where.append(rows)
        lengths.append(len(rows) / (1 + np.count_nonzero(np.diff(rows) > 1)))
    cells, stacked, distances = np.concatenate(truth), np.concatenate(found, axis=1), np.concatenate(classes)
    places, length, columns = np.concatenate(where), float(np.mean(lengths)), np.arange(cells.shape[1])
    weights, mean = _fit_stack(stacked, distances, cells, places, length)
    errors = cells - mean
    disagreement = _disagreement(stacked, mean)
    spread = error_spread(errors, distances)
    usual = error_spread(np.where(np.isnan(errors), np.nan, np.sqrt(disagreement)), distances) ** 2
    ratio = _relative(disagreement, usual[distances, columns])
    share = _slope((errors / spread[distances, columns]) ** 2, ratio)
    deviation = spread[distances, columns] * np.sqrt(1 - share + share * ratio)
    stretches = len(np.unique(places)) / length
    inflation *= float(np.sqrt(1 + 1 / stretches))  # few stretches of time may all be easy
    return BlockGapModel(season, weights, spread, usual, share, Calibration.of(errors, deviation, inflation))


def _fit_stack(
    found: np.ndarray, classes: np.ndarray, truth: np.ndarray, where: np.ndarray, length: float
) -> tuple[np.ndarray, np.ndarray]:
    """Weights, and the stack that was fitted to the other parts of the time.

    Columns whose stack does not beat the best single prediction take that, or interpolation where nothing is significantly
    better. Where few gaps fit into the series, no gain is significant: there the best prediction must have a much smaller
    error.
    """
    there, columns = ~np.isnan(truth), np.arange(truth.shape[1])
    prior = PRIOR_CELLS * length  # errors within a gap are correlated
    squares = np.where(there, (found - truth) ** 2, 0.0).sum(axis=1)
    number = there.sum(axis=0)
    overall = squares.sum(axis=1) / max(number.sum(), 1)
    own = (squares + prior * overall[:, None]) / (number + prior)
    best, first = own.argmin(axis=0), int(overall.argmin())
    stretch = int(np.ceil(2 * length))
    part = (where // stretch % PARTS)[:, None]
    mean = np.zeros(truth.shape)
    for k in range(PARTS):
        weights = stacking_weights(found, classes, truth, there & (part != k), first, prior)
        mean = np.where(part == k, stack(found, classes, weights), mean)
    line = found[LINE]
    chosen = _is_better(found[best, :, columns].T, line, truth, where, stretch)
    if len(np.unique(where)) <= FEW_STRETCHES * stretch:
        chosen |= own[best, columns] < FEW_MAX_RATIO * own[LINE]
    best = np.where(chosen, best, LINE)
    single = found[best, :, columns].T
    mixed, plain = (np.where(there, (truth - x) ** 2, 0.0).sum(axis=0) for x in (mean, single))
    alone = (mixed > MAX_ERROR_RATIO * plain) | ~_is_better(mean, line, truth, where, stretch)
    weights = stacking_weights(found, classes, truth, there, first, prior)
    weights[:, alone] = np.eye(len(found))[best[alone]]
    return weights, np.where(alone, single, mean)


def _is_better(one: np.ndarray, other: np.ndarray, truth: np.ndarray, where: np.ndarray, stretch: int) -> np.ndarray:
    """Columns in which one prediction is significantly better than another; rows held out several times count once."""
    rows, again, times = np.unique(where, return_inverse=True, return_counts=True)
    errors = []
    for guess in (one, other):
        squares = np.zeros((len(rows), truth.shape[1]))
        np.add.at(squares, again, np.nan_to_num((truth - guess) ** 2))
        errors.append(squares / times[:, None])
    mine, its = errors
    significant = gain_is_significant(its - mine, its.sum(axis=0), stretch)
    return np.asarray((mine.sum(axis=0) < MAX_ERROR_RATIO * its.sum(axis=0)) & significant)


def _disagreement(found: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Mean square deviations of predictions from their stack."""
    return np.asarray(((found - mean) ** 2).mean(axis=0))


def _relative(disagreement: np.ndarray, usual: np.ndarray) -> np.ndarray:
    return np.minimum(disagreement / np.maximum(usual, 1e-12), MAX_DISAGREEMENT)


def _slope(squares: np.ndarray, ratio: np.ndarray) -> float:
    """Slope of squared errors (nan where unknown) on the disagreement of predictions, between 0 and 0.9."""
    known = ~np.isnan(squares)
    x, y = ratio[known], np.minimum(squares[known], MAX_DISAGREEMENT**2)
    x = x - x.mean()
    return float(np.clip(x @ y / max(x @ x, 1e-300), 0.0, 0.9))
