"""The model of a table of numbers: linear models, their mixture in each column, and what they leave over.

Every choice is made on known cells that are hidden in turn (:mod:`lorank.tables.folds`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .factor_analysis import FactorAnalysis, choose_rank, fit_factor_analysis
from .folds import NEVER, cell_folds
from .forest import Grower, Lessons, Woods, fit_woods, unknowing
from .kernel_ridge import Bumps, fit_bumps
from .linear import LOOSE, LOOSER, Linear, choose_linear, fit_linear, margins_of, scores_filled, to_scores
from .margins import Margin
from .missingness import odds_of_gaps
from .patterns import find_patterns
from .stacking import Calibration

FOLDS = 6
PLENTY = 20  # rows a column, from which on a fit hardly depends on whether a sixth of the cells was seen
REFIT = 5  # rounds of expectation and maximisation without a fold's cells
BETTER = 0.005  # the share of squared error that margins must take away
MANY = 1000  # rows, from which on it does not matter how little a covariance is shrunk
FEW_ROWS = 4  # a column, below which a few factors compete with a full covariance
CLEARLY = 0.02  # the share of squared error that they, or less shrinkage, must take away
WIDE = 120  # columns, from which on a covariance is a few factors and noise


@dataclass(frozen=True)
class TableModel:
    """How to fill a table whose columns have about mean 0 and variance 1.

    Attributes
    ----------
    linears : list of Linear
        One or two.
    mixture : (len(linears), d) array
        Their weights in each column.
    margins : list of Margin
        That the rows go through before bumps see them.
    bumps : Bumps or None
    calibration : Calibration
        How large errors are, in units of what the first linear model expects.
    trees : Woods or None
    """

    linears: list[Linear]
    mixture: np.ndarray
    margins: list[Margin]
    bumps: Bumps | None
    calibration: Calibration
    trees: Woods | None

    def fill(self, table: np.ndarray, spread: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """The filled table, and standard deviations in its gaps as the first linear model has them, if asked for."""
        missing = np.isnan(table)
        patterns = find_patterns(missing) if self._needs_patterns else None
        first, deviation = self.linears[0].conditional(table, patterns, spread)
        guesses = [first, *(linear.fill(table, patterns) for linear in self.linears[1:])]
        filled = np.sum([w * guess for w, guess in zip(self.mixture, guesses, strict=True)], axis=0)
        if self.bumps is not None:
            some = np.flatnonzero(missing[:, self.bumps.columns].any(axis=1))
            filled[some] += self.bumps(to_scores(self.margins, first[some]))
        filled = np.where(missing, filled, table)
        return filled if self.trees is None else self.trees.add(filled, missing), deviation

    def draw(self, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Fills drawn at random: guesses, with errors as correlated as the linear model has them, and as large as they were
        found.
        """
        first = self.linears[0]
        drawn, mean = first.draw(table, rng), first.fill(table)
        return np.where(np.isnan(table), self.fill(table)[0] + self.calibration.size * (drawn - mean), table)

    def ends(self, missing: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Below and above: the multiples of the deviations between which that share of errors lies, one for each column."""
        return self.calibration.at(level)

    @property
    def _needs_patterns(self) -> bool:
        return not isinstance(self.linears[0].gaussian, FactorAnalysis)


def fit_table(table: np.ndarray, rng: np.random.Generator, *, bumps: bool = True, grow: Grower | None = None) -> TableModel:
    """Choose and fit.

    Parameters
    ----------
    table : (n, d) array
        With nan in the gaps; columns of about mean 0 and variance 1, none constant.
    rng : numpy.random.Generator
    bumps : bool
        Whether to learn what linear models leave over.
    grow : callable, optional
        Grows trees (:mod:`lorank.tables.forest`), which then refine the guesses where they help.
    """
    missing = np.isnan(table)
    n, d = table.shape
    fold = cell_folds(missing, FOLDS, rng)
    margins = margins_of(table)
    scores = to_scores(margins, table)
    linears, plenty = fit_linears(table, fold == 0, margins, scores)
    tried = _cross(table, scores, fold, linears, plenty, margins)
    rows, cols = np.nonzero(fold >= 0)
    mixture = _mixture(tried.guesses[:, rows, cols], table[rows, cols], cols, d)
    linears = linears[: len(mixture)]
    errors = table - (mixture[:, None, :] * tried.guesses[: len(mixture)]).sum(axis=0)
    learned, said = (
        fit_bumps(tried.filled, tried.place, fold, errors, rng) if bumps else (None, np.where(fold >= 0, 0.0, np.nan))
    )
    first = linears[0].fill(table)
    weights = odds_of_gaps(missing, first)
    inflation = 1 + d / n if plenty else 1.0
    model = TableModel(
        linears, mixture, margins, learned, Calibration.of(errors - said, tried.spread, inflation, weights), None
    )
    if grow is None:
        return model
    gaussian, left = linears[0].gaussian, errors - said
    back = unknowing(gaussian.mean, gaussian.covariance, first, missing)
    filled = model.fill(table, spread=False)[0]
    lessons = Lessons(table, filled, back, left, tried.rows, tried.place)
    trees, added = fit_woods(lessons, grow, int(rng.integers(2**31 - 10)))
    return replace(model, trees=trees, calibration=Calibration.of(left - added, tried.spread, inflation, weights))


def fit_linears(
    wide: np.ndarray, held: np.ndarray, margins: list[Margin] | None, scores: np.ndarray | None = None
) -> tuple[list[Linear], bool]:
    """Linear models of the columns as they are and, with margins, of their scores, and whether rows are plenty.

    A few factors and noise instead of a full covariance where columns are many; where rows are few, whichever of the two fills
    the held-out cells better. With more rows the full, shrunk covariance was never behind by more than chance.
    """
    n, d = wide.shape
    if d > WIDE:
        return [_factors(wide, choose_rank(wide, held))], False
    patterns = find_patterns(np.isnan(wide))
    if n >= PLENTY * d:
        strength = choose_linear(wide, held, None, LOOSER, CLEARLY).strength if n < MANY and held.any() else LOOSE
        plain = fit_linear(wide, None, patterns, strength=strength)
        return [plain] if margins is None else [plain, fit_linear(wide, margins, patterns, scores, strength)], True
    chosen = choose_linear(wide, held, None)
    if n < FEW_ROWS * d and d > 1 and held.any():
        hidden = np.where(held, np.nan, wide)
        factors = choose_rank(wide, held)
        full, few = (np.mean((model.fill(hidden) - wide)[held] ** 2) for model in (chosen, factors))
        if few < (1 - CLEARLY) * full:
            return [_factors(wide, factors)], False
    models = [chosen] if margins is None else [chosen, choose_linear(wide, held, margins)]
    return [model.refit(wide, 40, patterns) for model in models], False


def _factors(wide: np.ndarray, model: FactorAnalysis) -> Linear:
    """A model that was fitted without some cells, now with them."""
    return Linear(fit_factor_analysis(wide, model.loadings.shape[1], start=model), 0.0)


@dataclass(frozen=True)
class Tried:
    """What linear models say about cells that were hidden.

    Attributes
    ----------
    rows : (p, d) array
        As the first model filled them, each once for every fold in which cells of it were hidden.
    filled : (p, d) array
        The same as scores.
    place : (n, d) integer array
        Which of these a cell was hidden in, -1 where in none.
    guesses : (models, n, d) array
        For hidden cells; nan elsewhere.
    spread : (n, d) array
        The deviations that the first model expected.
    """

    rows: np.ndarray
    filled: np.ndarray
    place: np.ndarray
    guesses: np.ndarray
    spread: np.ndarray


def _cross(
    table: np.ndarray, scores: np.ndarray, fold: np.ndarray, linears: list[Linear], plenty: bool, margins: list[Margin]
) -> Tried:
    """Hide the folds in turn, in the rows that have cells of them."""
    filled, scored, place, count = (
        [np.empty((0, table.shape[1]))],
        [np.empty((0, table.shape[1]))],
        np.full(table.shape, NEVER),
        0,
    )
    guesses, spread = np.full((len(linears), *table.shape), np.nan), np.full(table.shape, np.nan)
    for k in range(FOLDS):
        rows = np.flatnonzero((fold == k).any(axis=1))
        if not len(rows):
            continue
        at = fold[rows] == k
        cells = rows[np.nonzero(at)[0]], np.nonzero(at)[1]
        models = linears if plenty else _refitted(linears, table, scores, fold == k)
        hidden, hidden_scores = np.where(at, np.nan, table[rows]), np.where(at, np.nan, scores[rows])
        inside = find_patterns(np.isnan(hidden))
        for b, model in enumerate(models):
            guess, deviation = model.conditional(hidden, inside, b == 0, hidden_scores, at)
            guesses[b][cells] = guess[at]
            if deviation is not None:
                spread[cells] = deviation[at]
                filled.append(guess)
                scored.append(scores_filled(margins, hidden_scores, guess))
        place[cells] = count + np.nonzero(at)[0]
        count += len(rows)
    return Tried(np.concatenate(filled), np.concatenate(scored), place, guesses, spread)


def _refitted(linears: list[Linear], table: np.ndarray, scores: np.ndarray, at: np.ndarray) -> list[Linear]:
    """Models that have not seen the cells of a fold."""
    hidden = np.where(at, np.nan, table)
    patterns = find_patterns(np.isnan(hidden))
    return [linear.refit(hidden, REFIT, patterns, np.where(at, np.nan, scores)) for linear in linears]


def _mixture(found: np.ndarray, truth: np.ndarray, cols: np.ndarray, d: int) -> np.ndarray:
    """Weights of the linear models, or of the first alone where the second adds little."""
    if len(found) > 1:
        first = _weight(found[0], found[1], truth, cols, d)
        both = first[cols] * found[0] + (1 - first[cols]) * found[1]
        if np.sum((both - truth) ** 2) < (1 - BETTER) * np.sum((found[0] - truth) ** 2):
            return np.stack([first, 1 - first])
    return np.ones((1, d))


def _weight(one: np.ndarray, two: np.ndarray, truth: np.ndarray, cols: np.ndarray, d: int) -> np.ndarray:
    """The weight of the first of two guesses in each column, shrunk towards that in all columns."""
    apart, off = one - two, truth - two
    top, bottom = np.bincount(cols, apart * off, d), np.bincount(cols, apart**2, d)
    overall = np.clip(top.sum() / max(bottom.sum(), 1e-300), 0, 1)
    prior = bottom.sum() / max(len(truth), 1) * 20  # as much as twenty cells say
    return np.clip((top + prior * overall) / np.maximum(bottom + prior, 1e-300), 0, 1)
