"""Blackouts: stretches of time in which all columns are missing, or nearly all.

There the other columns say nothing, and what is best for single gaps may be bad. Where a table has more such rows than chance
would give it, the guesses are weighed for them apart, and intervals are calibrated apart, on blackouts that are made for the
purpose: copies of the table's own, of their lengths, elsewhere in time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .series import between, ends_of_runs, runs, seasonal
from .stacking import Calibration
from .weighing import EDGES, LINE, PRIOR, SURE, least_squares_weights, spread_of, sure

NEARLY = 0.9  # of the columns: rows that lack so many are dark
CHANCE = 3.0  # times as many dark rows, and as many more, as chance would make are blackouts
TOGETHER = 2  # rows: dark ones that come in shorter runs, on average, are here and there by chance
HIDDEN = (0.05, 0.15)  # of the rows in one pass, at the least and at the most: as many as are dark, if they can
PASSES = (12, 20)  # at the least, and where blackouts are few
ENOUGH = 40  # made blackouts
PLACES = 4  # that are looked at for one
LONGEST = 8  # periods that may be a season of their own: the days of a week, quarters of a year
CLEARLY = 0.9  # of the squared error of one period: what several must fall below
SURE_OF = 4  # stretches, each of two blackouts' length: of so few, no gain is more than chance
BY_FAR = 0.65  # of the line's squared error: what another guess must fall below then
PARTS = 4  # of the time, for weights that have not seen a cell
FAR = 4.0  # times the usual disagreement of guesses, from which on more of it does not count

Guesser = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Blackouts:
    """How to fill dark rows.

    Attributes
    ----------
    season : int
        Several periods after which the series resembles itself more than after one; 0 where there is none.
    weights : (classes, d, guesses) array
        By distance to the next known cell.
    spread : (classes, d) array
        Root mean square errors.
    apart : (classes, d) array
        Mean squares of what guesses are apart from their weighed mean.
    share : float
        Of the squared error that is in proportion to that, between 0 and 1.
    calibration : Calibration
    """

    season: int
    weights: np.ndarray
    spread: np.ndarray
    apart: np.ndarray
    share: float
    calibration: Calibration

    def fill(self, found: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What guesses (a (g, n, d) array) say together, and standard deviations."""
        columns = np.arange(classes.shape[1])
        filled = np.einsum("gij,ijg->ij", found, self.weights[classes, columns])
        ratio = _ratio(_apart(found, filled), self.apart[classes, columns])
        return filled, self.spread[classes, columns] * np.sqrt(1 - self.share + self.share * ratio)


def dark_rows(missing: np.ndarray) -> np.ndarray:
    """Rows in which all columns are missing, or nearly all."""
    return np.asarray(missing.mean(axis=1) >= NEARLY)


def has_blackouts(missing: np.ndarray) -> bool:
    """Whether there are more dark rows than gaps of the single columns, each by itself, would make, and they come in runs."""
    n, d = missing.shape
    count = np.ones(1)  # the distribution of how many columns a row lacks
    for share in missing.mean(axis=0):
        count = np.convolve(count, [1 - share, share])
    chance = n * count[np.arange(d + 1) / d >= NEARLY].sum()
    lengths = runs(dark_rows(missing))
    return bool(lengths.sum() > max(CHANCE * (chance + 1), TOGETHER * len(lengths)))


def blackout_passes(missing: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Cells to be hidden, pass by pass: copies of the table's blackouts at places that have none.

    (n, d) Boolean arrays; none where the table has no blackouts, or no place for another.
    """
    if not has_blackouts(missing):
        return []
    n, dark = len(missing), dark_rows(missing)
    longest = min(n // 4 + 1, max(int(runs(~dark).max(initial=0)) // 2 - 1, 1))  # which has a place, with its margins
    shapes = [missing[a:b][:longest] for a, b in zip(*ends_of_runs(dark), strict=True)]
    share = float(np.clip(dark.mean(), *HIDDEN))  # with more of them, the same hour of other days would be known less often
    passes: list[np.ndarray] = []
    made, seen = 0, np.zeros(n, int)
    while len(passes) < PASSES[0] or (made < ENOUGH and len(passes) < PASSES[1]):
        hidden, taken, rows = np.zeros_like(missing), dark.copy(), 0
        for _ in range(n):
            shape = shapes[int(rng.integers(len(shapes)))]
            length = len(shape)
            margin = length // 2 + 1  # two that touch would be a longer one
            drawn = rng.integers(1, max(n - length, 2), PLACES).tolist()
            places = [at for at in drawn if not taken[max(at - margin, 0) : at + length + margin].any()]
            if places:
                at = min(places, key=lambda at: seen[at : at + length].sum())  # another one than in earlier passes
                hidden[at : at + length] = shape
                taken[at : at + length] = True
                seen[at : at + length] += 1
                made, rows = made + 1, rows + length
            if rows >= share * n:
                break
        passes.append(hidden & ~missing)
    return [hidden for hidden in passes if hidden.any()]


def find_season(table: np.ndarray, period: int) -> int:
    """The multiple of the period that would fill the table's blackouts best, if clearly better than one period; else 0.

    Known cells are compared with those so many periods away, up to a line through what is known a blackout's length before and
    after: levels may drift in the meantime.
    """
    length = int(np.ceil(runs(dark_rows(np.isnan(table))).mean()))
    nothing = np.full(table.shape, np.nan)
    errors = []
    for multiple in range(1, LONGEST + 1):
        if not period or 2 * multiple * period > len(table) or 2 * length >= len(table):
            break
        left = table - seasonal(table, multiple * period, nothing)
        squares = (left[length:-length] - (left[: -2 * length] + left[2 * length :]) / 2) ** 2
        errors.append(float(np.nanmean(squares)) if not np.isnan(squares).all() else np.inf)
    return (int(np.argmin(errors)) + 1) * period if errors and min(errors) < CLEARLY * errors[0] else 0


def further_guesses(table: np.ndarray, times: np.ndarray, line: np.ndarray, period: int, season: int) -> list[np.ndarray]:
    """Seasons that are drawn through the known cells on both sides, and those of several periods."""
    found = []
    for lag in (period, season):
        if lag:
            same = seasonal(table, lag, line)
            found += [same, same + between(table - same, times)[0]]
    return found[1:]  # the first is among the others


def fit_blackouts(table: np.ndarray, passes: list[np.ndarray], guess: Guesser, season: int, inflation: float) -> Blackouts:
    """Weigh the guesses and calibrate, on blackouts that are made.

    Parameters
    ----------
    table : (n, d) array
    passes : list of (n, d) Boolean arrays
        Known cells to be hidden (:func:`blackout_passes`), at least one.
    guess : callable
        Of a table: (g, n, d) guesses, and (n, d) classes of distances.
    season : int
    inflation : float
        Of errors, for models that had seen the hidden cells.
    """
    truth, found, classes, where, length = [], [], [], [], []
    for hidden in passes:
        rows = np.flatnonzero(hidden.any(axis=1))
        said, distance = guess(np.where(hidden, np.nan, table))
        truth.append(np.where(hidden, table, np.nan)[rows])
        found.append(said[:, rows])
        classes.append(distance[rows])
        where.append(rows)
        length.append(len(rows) / (1 + np.count_nonzero(np.diff(rows) > 1)))
    cells, guesses, distances = np.concatenate(truth), np.concatenate(found, axis=1), np.concatenate(classes)
    weights, mean = _weighed(guesses, distances, cells, np.concatenate(where), float(np.mean(length)))
    left, columns = cells - mean, np.arange(cells.shape[1])
    apart = _apart(guesses, mean)
    spread = spread_of(left, distances, len(EDGES) + 1)
    usual = spread_of(np.where(np.isnan(left), np.nan, np.sqrt(apart)), distances, len(EDGES) + 1) ** 2
    ratio = _ratio(apart, usual[distances, columns])
    share = _proportion((left / spread[distances, columns]) ** 2, ratio)
    deviation = spread[distances, columns] * np.sqrt(1 - share + share * ratio)
    stretches = len(np.unique(np.concatenate(where))) / float(np.mean(length))
    inflation *= float(np.sqrt(1 + 1 / stretches))  # few of them may all have been easy
    return Blackouts(season, weights, spread, usual, share, Calibration.of(left, deviation, inflation))


def _weighed(
    found: np.ndarray, classes: np.ndarray, truth: np.ndarray, where: np.ndarray, length: float
) -> tuple[np.ndarray, np.ndarray]:
    """Weights, and what those from the other parts of the time say in each.

    In columns where these do not beat the best single guess, that is taken alone; and the line, where nothing beats it by
    more than chance. Where there is time for a few blackouts only, nothing could: there it must be beaten by far.
    """
    there, columns = ~np.isnan(truth), np.arange(truth.shape[1])
    prior = PRIOR * length  # errors within a blackout go together
    squares = np.where(there, (found - truth) ** 2, 0.0).sum(axis=1)
    number = there.sum(axis=0)
    overall = squares.sum(axis=1) / max(number.sum(), 1)
    own = (squares + prior * overall[:, None]) / (number + prior)
    best, first = own.argmin(axis=0), int(overall.argmin())
    part = where // int(np.ceil(2 * length)) % PARTS
    mean = np.zeros(truth.shape)
    for k in range(PARTS):
        learned = least_squares_weights(found, classes, truth, there & (part != k)[:, None], first, prior)
        said = np.einsum("gij,ijg->ij", found, learned[classes, columns])
        mean = np.where((part == k)[:, None], said, mean)
    line = found[LINE]
    chosen = _better(found[best, :, columns].T, line, truth, where, length)
    if len(np.unique(where)) <= SURE_OF * np.ceil(2 * length):
        chosen |= own[best, columns] < BY_FAR * own[LINE]
    best = np.where(chosen, best, LINE)
    single = found[best, :, columns].T
    mixed, plain = (np.where(there, (truth - x) ** 2, 0.0).sum(axis=0) for x in (mean, single))
    alone = (mixed > SURE * plain) | ~_better(mean, line, truth, where, length)
    weights = least_squares_weights(found, classes, truth, there, first, prior)
    weights[:, alone] = np.eye(len(found))[best[alone]]
    return weights, np.where(alone, single, mean)


def _better(one: np.ndarray, other: np.ndarray, truth: np.ndarray, where: np.ndarray, length: float) -> np.ndarray:
    """In which columns one guess is clearly better than another; rows that were hidden several times count once."""
    rows, again, times = np.unique(where, return_inverse=True, return_counts=True)
    errors = []
    for guess in (one, other):
        squares = np.zeros((len(rows), truth.shape[1]))
        np.add.at(squares, again, np.nan_to_num((truth - guess) ** 2))
        errors.append(squares / times[:, None])
    mine, its = errors
    clearly = sure(its - mine, its.sum(axis=0), int(np.ceil(2 * length)))
    return np.asarray((mine.sum(axis=0) < SURE * its.sum(axis=0)) & clearly)


def _apart(found: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Mean squares of what guesses are apart from their weighed mean."""
    return np.asarray(((found - mean) ** 2).mean(axis=0))


def _ratio(apart: np.ndarray, usual: np.ndarray) -> np.ndarray:
    return np.minimum(apart / np.maximum(usual, 1e-12), FAR)


def _proportion(squares: np.ndarray, ratio: np.ndarray) -> float:
    """The slope of squared errors, nan where none is known, on the disagreement of guesses."""
    known = ~np.isnan(squares)
    x, y = ratio[known], np.minimum(squares[known], FAR**2)
    x = x - x.mean()
    return float(np.clip(x @ y / max(x @ x, 1e-300), 0.0, 0.9))
