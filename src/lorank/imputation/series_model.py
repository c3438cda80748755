"""The model of columns that follow each other in time: several guesses for a gap, weighed by how far the next known cell is.

Guesses come from the other columns of the row alone, from these and the neighbours in time in one Gaussian, from the line
between neighbours, from that line drawn through what the other columns leave over, or through what factors that are smoothed
along time leave over, and from the season. Which of them to trust is learned on known cells that are hidden in runs like the
table's own gaps, so that a line that is right remains a line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .calibration import Calibration
from .linear import Linear
from .patterns import find_patterns
from .series import Neighbours, between, block_folds, profile, runs, seasonal, typical_step
from .smoother import fit_smoother
from .table_model import FOLDS, REFIT, fit_linears

EDGES = np.array([1.5, 2.5, 4.5, 8.5, 16.5])  # of the classes of distances, in typical steps
SURE = 0.97  # of a line's squared error: where weighed guesses leave more, the line is taken
CHANCE = 2.0  # standard deviations that a gain over the line must have
PRIOR = 30.0  # cells: as much as the weights of all columns, or those of all distances, count beside a column's own


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
    """

    across: Linear
    along: Linear
    neighbours: Neighbours
    weights: np.ndarray
    spread: np.ndarray
    calibration: Calibration

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
        return np.where(missing, filled, table), np.where(missing, self.spread[classes, columns], 0.0)

    def draw(self, table: np.ndarray, rng: np.random.Generator, times: np.ndarray) -> np.ndarray:
        """Fills drawn at random: errors are correlated over columns as the rows' Gaussian has them, and along a gap."""
        filled, deviation = self.fill(table, times)
        mean, drawn = self.across.fill(table), self.across.draw(table, rng)
        error = np.where(np.isnan(table), drawn - mean, 0.0)
        scale = np.sqrt(np.maximum(np.mean(error**2, axis=0) / np.maximum(np.isnan(table).mean(axis=0), 1e-9), 1e-12))
        return filled + self.calibration.size * deviation * error / scale


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
    fold = block_folds(np.isnan(table), FOLDS, rng)
    wide = np.hstack([table, neighbours(table, times)])
    linears, plenty = fit_linears(table, fold == 0, None)
    across = linears[0]
    beside = np.zeros((n, wide.shape[1] - d), bool)
    linears, both = fit_linears(wide, np.hstack([fold == 0, beside]), None)
    along, plenty = linears[0], plenty and both
    found, classes = None, np.zeros((n, d), int)
    for k in range(FOLDS):
        at = fold == k
        if not at.any():
            continue
        hidden = np.where(at, np.nan, table)
        models = (across, along) if plenty else _refitted(hidden, times, across, along, neighbours)
        guesses, distance = _guesses(hidden, times, *models, neighbours)
        found = np.full_like(guesses, np.nan) if found is None else found
        found[:, at], classes[at] = guesses[:, at], distance[at]
    if found is None:  # too few rows to hide any
        found = _guesses(table, times, across, along, neighbours)[0]
    weights, guess = _trusted(found, classes, table, fold, _stretch(np.isnan(table)))
    left = np.where(fold >= 0, table - guess, np.nan)
    spread = _spread(left, classes, len(EDGES) + 1)
    calibration = Calibration.of(left, spread[classes, np.arange(d)], 1 + wide.shape[1] / n if plenty else 1.0)
    return SeriesModel(across, along, neighbours, weights, spread, calibration)


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
    columns, line = np.arange(table.shape[1]), found[2]
    guess = np.zeros(table.shape)
    for half in (0, 1):
        weights = _weights(found, classes, table, (fold >= 0) & (fold % 2 == half))
        said = np.einsum("gij,ijg->ij", np.nan_to_num(found), weights[classes, columns])
        guess = np.where((fold >= 0) & (fold % 2 != half), said, guess)
    there = fold >= 0
    mixed, plain = (np.where(there, (table - x) ** 2, 0.0) for x in (guess, line))
    weights = _weights(found, classes, table, there)
    straight = (mixed.sum(axis=0) > SURE * plain.sum(axis=0)) | ~_sure(plain - mixed, plain.sum(axis=0), stretch)
    weights[:, straight] = np.eye(len(found))[2]
    return weights, np.where(straight, line, guess)


def _stretch(missing: np.ndarray) -> int:
    """Rows within which errors go together: twice as many as a gap has on average."""
    lengths = np.concatenate([runs(column) for column in missing.T])
    return int(np.ceil(2 * lengths.mean())) if len(lengths) else 1


def _sure(gain: np.ndarray, size: np.ndarray, stretch: int) -> np.ndarray:
    """Whether gains of squared error are more than chance, in each column or in all together.

    Errors within a gap go together: stretches of time are counted, not cells.
    """
    stretches = np.add.reduceat(gain, np.arange(0, len(gain), stretch)) / np.maximum(size, 1e-300)
    whole = stretches.sum(axis=1)
    own = stretches.sum(axis=0) > CHANCE * np.sqrt((stretches**2).sum(axis=0))
    return np.asarray(own | (whole.sum() > CHANCE * np.sqrt(whole @ whole)))


def _weights(found: np.ndarray, classes: np.ndarray, table: np.ndarray, there: np.ndarray) -> np.ndarray:
    """By least squares in each class of distances and each column, shrunk towards those of all."""
    g, d = len(found), table.shape[1]
    line = np.zeros(g)
    line[2] = 1.0
    overall = _solve(found[:, there].T, table[there], line)
    weights = np.empty((len(EDGES) + 1, d, g))
    for c in range(len(EDGES) + 1):
        at = there & (classes == c)
        common = _solve(found[:, at].T, table[at], overall)
        for j in range(d):
            mine = at[:, j]
            weights[c, j] = _solve(found[:, mine, j].T, table[mine, j], common)
    return weights


def _solve(A: np.ndarray, y: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Least squares, with the prior's weights counting as much as PRIOR cells."""
    if len(y) < 3:
        return prior
    gram = A.T @ A
    size = np.trace(gram) / len(prior) / len(y)
    return np.asarray(prior + np.linalg.solve(gram + (PRIOR * size + 1e-12) * np.eye(len(prior)), A.T @ (y - A @ prior)))


def _spread(left: np.ndarray, classes: np.ndarray, count: int) -> np.ndarray:
    """Root mean squares of errors by class and column, shrunk towards those of the column."""
    d = left.shape[1]
    known = ~np.isnan(left)
    cell = classes * d + np.arange(d)
    number = np.bincount(cell[known], minlength=count * d).reshape(count, d)
    squares = np.bincount(cell[known], left[known] ** 2, count * d).reshape(count, d)
    column = (squares.sum(axis=0) + 1e-3) / (number.sum(axis=0) + 1e-3)
    return np.asarray(np.sqrt((squares + 10 * column) / (number + 10)))
