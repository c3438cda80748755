"""The model of columns that follow each other in time: several guesses for a gap, weighed by how far the next known cell is.

Guesses come from the other columns of the row alone, from these and the neighbours in time in one Gaussian, from the line
between neighbours, from that line drawn through what the other columns leave over, or through what factors that are smoothed
along time leave over, and from the season. Which of them to trust is learned on known cells that are hidden in runs like the
table's own gaps, so that a line that is right remains a line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .block_gaps import Blackouts, blackout_passes, dark_rows, find_season, fit_blackouts, further_guesses
from .linear import Linear
from .patterns import find_patterns
from .series import Neighbours, between, block_folds, profile, runs, seasonal, typical_step
from .smoother import fit_smoother
from .stacking import Calibration
from .table_model import FOLDS, REFIT, fit_linears
from .weighing import EDGES, LINE, SURE, least_squares_weights, spread_of, sure


@dataclass(frozen=True)
class SeriesModel:
    """How to fill a series whose columns have about mean 0 and variance 1.

    Attributes
    ----------
    across : Linear
        Of the columns.
    along : Linear
        Of the columns and what neighbours in time say.
    neighbours : Neighbours
    weights : (classes, d, guesses) array
        By distance to the next known cell.
    spread : (classes, d) array
        Root mean square errors.
    calibration : Calibration
    blackouts : Blackouts or None
        For rows in which all columns are missing; None where there were no more of them than chance makes.
    """

    across: Linear
    along: Linear
    neighbours: Neighbours
    weights: np.ndarray
    spread: np.ndarray
    calibration: Calibration
    blackouts: Blackouts | None = None

    @property
    def linears(self) -> list[Linear]:
        """The two linear models."""
        return [self.across, self.along]

    def fill(self, table: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The filled table, and standard deviations in its gaps."""
        missing = np.isnan(table)
        found, classes = _guesses(table, times, self.across, self.along, self.neighbours)
        columns = np.arange(table.shape[1])
        filled = np.einsum("gij,ijg->ij", found, self.weights[classes, columns])
        deviation = self.spread[classes, columns]
        dark = self._dark(missing)
        if self.blackouts is not None and dark.any():
            more = further_guesses(table, times, found[LINE], self.neighbours.period, self.blackouts.season)
            there = np.stack([*found, *more])[:, dark]
            filled[dark], deviation[dark] = self.blackouts.fill(there, classes[dark])
        return np.where(missing, filled, table), np.where(missing, deviation, 0.0)

    def ends(self, missing: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Below and above: the multiples of the deviations between which that share of errors lies, two (n, d) arrays."""
        dark = self._dark(missing)[:, None]
        found = [np.broadcast_to(end, missing.shape) for end in self.calibration.at(level)]
        if self.blackouts is not None:
            found = [np.where(dark, own, end) for own, end in zip(self.blackouts.calibration.at(level), found, strict=True)]
        return found[0], found[1]

    def _dark(self, missing: np.ndarray) -> np.ndarray:
        return dark_rows(missing) if self.blackouts is not None else np.zeros(len(missing), bool)

    def draw(self, table: np.ndarray, rng: np.random.Generator, times: np.ndarray) -> np.ndarray:
        """Fills drawn at random: errors are correlated over columns as the rows' Gaussian has them, and along a gap."""
        filled, deviation = self.fill(table, times)
        mean, drawn = self.across.fill(table), self.across.draw(table, rng)
        error = np.where(np.isnan(table), drawn - mean, 0.0)
        scale = np.sqrt(np.maximum(np.mean(error**2, axis=0) / np.maximum(np.isnan(table).mean(axis=0), 1e-9), 1e-12))
        size = np.broadcast_to(self.calibration.size, table.shape)
        if self.blackouts is not None:
            size = np.where(self._dark(np.isnan(table))[:, None], self.blackouts.calibration.size, size)
        return filled + size * deviation * error / scale


def fit_series(table: np.ndarray, times: np.ndarray, neighbours: Neighbours, rng: np.random.Generator) -> SeriesModel:
    """Choose and fit.

    Parameters
    ----------
    table : (n, d) array
        With nan in the gaps; columns of about mean 0 and variance 1, none constant.
    times : (n,) array
        Of the rows, increasing.
    neighbours : Neighbours
    rng : numpy.random.Generator
    """
    n, d = table.shape
    missing = np.isnan(table)
    passes = blackout_passes(missing, rng)
    fold = block_folds(missing, FOLDS, rng, dark_rows(missing) if passes else None)
    wide = np.hstack([table, neighbours(table, times)])
    linears, plenty = fit_linears(table, fold == 0, None)
    across = linears[0]
    beside = np.zeros((n, wide.shape[1] - d), bool)
    linears, both = fit_linears(wide, np.hstack([fold == 0, beside]), None)
    along, plenty = linears[0], plenty and both

    def guess(hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By models that have not seen what is hidden, unless rows are so many that it does not matter."""
        models = (across, along) if plenty else _refitted(hidden, times, across, along, neighbours)
        return _guesses(hidden, times, *models, neighbours)

    found, classes = None, np.zeros((n, d), int)
    for k in range(FOLDS):
        at = fold == k
        if not at.any():
            continue
        guesses, distance = guess(np.where(at, np.nan, table))
        found = np.full_like(guesses, np.nan) if found is None else found
        found[:, at], classes[at] = guesses[:, at], distance[at]
    if found is None:  # too few rows to hide any
        found = _guesses(table, times, across, along, neighbours)[0]
    weights, trusted = _trusted(found, classes, table, fold, _stretch(missing))
    left = np.where(fold >= 0, table - trusted, np.nan)
    spread = spread_of(left, classes, len(EDGES) + 1)
    inflation = 1 + wide.shape[1] / n if plenty else 1.0
    calibration = Calibration.of(left, spread[classes, np.arange(d)], inflation)
    model = SeriesModel(across, along, neighbours, weights, spread, calibration)
    if not passes:
        return model
    season = find_season(table, neighbours.period)

    def in_the_dark(hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        said, distance = guess(hidden)
        return np.stack([*said, *further_guesses(hidden, times, said[LINE], neighbours.period, season)]), distance

    return replace(model, blackouts=fit_blackouts(table, passes, in_the_dark, season, inflation))


def _refitted(
    hidden: np.ndarray, times: np.ndarray, across: Linear, along: Linear, neighbours: Neighbours
) -> tuple[Linear, Linear]:
    """Both without the hidden cells."""
    wide = np.hstack([hidden, neighbours(hidden, times)])
    return across.refit(hidden, REFIT), along.refit(wide, REFIT)


def _guesses(
    table: np.ndarray, times: np.ndarray, across: Linear, along: Linear, neighbours: Neighbours
) -> tuple[np.ndarray, np.ndarray]:
    """All guesses for all cells, a (g, n, d) array, and the class of each cell's distance."""
    d = table.shape[1]
    missing = np.isnan(table)
    wide = np.hstack([table, neighbours(table, times)])
    patterns = find_patterns(missing)
    rows = along.fill(wide)
    filled = across.fill(table, patterns)
    line, distance = between(table, times)
    K = np.linalg.inv(across.gaussian.covariance)
    left = (filled - across.gaussian.mean) @ K / np.diagonal(K)  # what the other columns do not say
    through = filled + between(np.where(missing, np.nan, left), times)[0]
    found = [rows[:, :d], filled, line, through]
    gaussian = across.gaussian
    smooth = fit_smoother(gaussian.mean, gaussian.covariance, filled)(table, np.diff(times) / typical_step(times))
    found.append(smooth + between(np.where(missing, np.nan, table - smooth), times)[0])
    if neighbours.period:
        shape = profile(table, neighbours.period)
        found += [seasonal(table, neighbours.period, line), shape + between(table - shape, times)[0]]
    classes = np.searchsorted(EDGES, distance / typical_step(times))
    return np.stack(found), classes


def _trusted(
    found: np.ndarray, classes: np.ndarray, table: np.ndarray, fold: np.ndarray, stretch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the guesses, and what weights from half of the folds say in the other half.

    The line alone counts in columns where these do not beat it.
    """
    columns, line = np.arange(table.shape[1]), found[LINE]
    guess = np.zeros(table.shape)
    for half in (0, 1):
        weights = least_squares_weights(found, classes, table, (fold >= 0) & (fold % 2 == half))
        said = np.einsum("gij,ijg->ij", np.nan_to_num(found), weights[classes, columns])
        guess = np.where((fold >= 0) & (fold % 2 != half), said, guess)
    there = fold >= 0
    mixed, plain = (np.where(there, (table - x) ** 2, 0.0) for x in (guess, line))
    weights = least_squares_weights(found, classes, table, there)
    straight = (mixed.sum(axis=0) > SURE * plain.sum(axis=0)) | ~sure(plain - mixed, plain.sum(axis=0), stretch)
    weights[:, straight] = np.eye(len(found))[LINE]
    return weights, np.where(straight, line, guess)


def _stretch(missing: np.ndarray) -> int:
    """Rows within which errors go together: twice as many as a gap has on average."""
    lengths = np.concatenate([runs(column) for column in missing.T])
    return int(np.ceil(2 * lengths.mean())) if len(lengths) else 1
