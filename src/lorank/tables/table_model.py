"""Model of a table of standardized numbers: linear models, their weights in each column, and nonlinear corrections.

All choices are made by cross-validation on observed cells (:func:`lorank.tables.missingness.cell_folds`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .factor_analysis import FactorAnalysis, choose_rank, fit_factor_analysis
from .forest import ForestEnsemble, TrainingSets, fit_forest_ensemble, leave_out_shift
from .gaussian import Gaussian
from .kernel_ridge import KernelRidge, fit_kernel_ridge
from .linear import (
    MANY_ROWS_REGULARIZATION,
    MANY_ROWS_REGULARIZATIONS,
    LinearModel,
    Marginal,
    choose_linear,
    complete_scores,
    fit_linear,
    fit_marginals,
    to_scores,
)
from .missingness import NO_FOLD, cell_folds, missing_odds
from .patterns import find_patterns
from .stacking import Calibration

FOLDS = 6
REFIT_ITER = 5  # EM iterations without a fold's cells
MANY_ROWS_PER_COLUMN = 20  # from which on models are not refitted without a fold's cells
MANY_ROWS = 1000  # from which on regularization is not selected
FEW_ROWS_PER_COLUMN = 4  # below which factor analysis competes with a full covariance
WIDE = 120  # columns, above which factor analysis is used
MIN_GAIN = 0.02  # relative reduction of the squared error by factor analysis, or by less regularization
MARGINALS_MIN_GAIN = 0.005  # relative reduction of the squared error by marginal transforms
PRIOR_CELLS = 20  # cells that the weight of all columns counts as


@dataclass(frozen=True)
class TableModel:
    """Fitted model of a table whose columns have about mean 0 and variance 1."""

    linears: list[LinearModel]  # one, or two: the columns as they are, and with marginal transforms
    mixture: np.ndarray  # (len(linears), d): their weights in each column
    marginals: list[Marginal]  # applied to the rows before kernel ridge regression
    kernel_ridge: KernelRidge | None
    calibration: Calibration  # of errors, in units of the first linear model's standard deviations
    trees: ForestEnsemble | None

    method: ClassVar = "auto"

    @property
    def gaussian(self) -> Gaussian | FactorAnalysis:
        """The Gaussian of the columns as they are."""
        return self.linears[0].gaussian

    def fill(
        self, table: np.ndarray, times: np.ndarray | None = None, spread: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The filled table, and the first linear model's standard deviations if ``spread``."""
        missing = np.isnan(table)
        patterns = None if isinstance(self.gaussian, FactorAnalysis) else find_patterns(missing)
        first, deviation = self.linears[0].conditional(table, patterns, spread)
        guesses = [first, *(linear.fill(table, patterns) for linear in self.linears[1:])]
        filled = np.sum([w * guess for w, guess in zip(self.mixture, guesses, strict=True)], axis=0)
        if self.kernel_ridge is not None:
            some = np.flatnonzero(missing[:, self.kernel_ridge.columns].any(axis=1))
            filled[some] += self.kernel_ridge(to_scores(self.marginals, first[some]))
        filled = np.where(missing, filled, table)
        return filled if self.trees is None else self.trees.refine(filled, missing), deviation

    def draw(self, table: np.ndarray, rng: np.random.Generator, times: np.ndarray | None = None) -> np.ndarray:
        """Random imputations: predictions plus errors, correlated as in the linear model and of calibrated size."""
        first = self.linears[0]
        drawn, mean = first.draw(table, rng), first.fill(table)
        return np.where(np.isnan(table), self.fill(table)[0] + self.calibration.size * (drawn - mean), table)

    def bounds(self, missing: np.ndarray, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of prediction intervals in standard deviations, one pair per column."""
        return self.calibration.bounds(coverage)


def fit_table(
    table: np.ndarray,
    rng: np.random.Generator,
    leaders: np.ndarray | None = None,
    *,
    kernel_ridge: bool = True,
    trees: bool = False,
) -> tuple[TableModel, np.ndarray]:
    """Select and fit the model of a standardized table without constant columns.

    ``kernel_ridge`` and ``trees`` are corrections to try; they are kept where they reduce the held-out error. ``leaders`` are
    those of :func:`~lorank.tables.missingness.cell_folds`.

    Returns
    -------
    TableModel, (n, d) array
        The model, and its held-out errors, nan at cells that were not held out.
    """
    missing = np.isnan(table)
    n, d = table.shape
    fold = cell_folds(missing, FOLDS, rng, leaders)
    marginals = fit_marginals(table)
    scores = to_scores(marginals, table)
    linears, many_rows = fit_linears(table, fold == 0, marginals, scores)
    held = _cross_validate(table, scores, fold, linears, many_rows, marginals)
    rows, cols = np.nonzero(fold >= 0)
    mixture = _mixture(held.predictions[:, rows, cols], table[rows, cols], cols, d)
    linears = linears[: len(mixture)]
    errors = table - (mixture[:, None, :] * held.predictions[: len(mixture)]).sum(axis=0)
    correction, predicted = None, np.where(fold >= 0, 0.0, np.nan)
    if kernel_ridge:
        correction, predicted = fit_kernel_ridge(held.scores, held.place, fold, errors, rng)
    residuals = errors - predicted
    first = linears[0].fill(table)
    weights = missing_odds(missing, first)
    inflation = 1 + d / n if many_rows else 1.0
    model = TableModel(
        linears, mixture, marginals, correction, Calibration.of(residuals, held.spread, inflation, weights), None
    )
    if not trees:
        return model, residuals
    gaussian = linears[0].gaussian
    shift = leave_out_shift(gaussian.mean, gaussian.covariance, first, missing)
    sets = TrainingSets(table, model.fill(table, spread=False)[0], shift, residuals, held.rows, held.place)
    ensemble, added = fit_forest_ensemble(sets, int(rng.integers(2**31 - 10)))
    residuals = residuals - added
    return replace(model, trees=ensemble, calibration=Calibration.of(residuals, held.spread, inflation, weights)), residuals


def fit_linears(
    table: np.ndarray, held: np.ndarray, marginals: list[Marginal] | None, scores: np.ndarray | None = None
) -> tuple[list[LinearModel], bool]:
    """Linear models of the columns and, with marginals, of their scores; and whether there are many rows per column.

    Factor analysis replaces the full covariance where columns are many, and where rows are few if it predicts the held-out
    cells better. With more rows the full, regularized covariance was never worse by more than chance.
    """
    n, d = table.shape
    if d > WIDE:
        return [_refit_factors(table, choose_rank(table, held))], False
    patterns = find_patterns(np.isnan(table))
    if n >= MANY_ROWS_PER_COLUMN * d:
        regularization = MANY_ROWS_REGULARIZATION
        if n < MANY_ROWS and held.any():
            regularization = choose_linear(table, held, None, MANY_ROWS_REGULARIZATIONS, MIN_GAIN).regularization
        plain = fit_linear(table, None, patterns, regularization=regularization)
        return [plain] if marginals is None else [plain, fit_linear(table, marginals, patterns, scores, regularization)], True
    chosen = choose_linear(table, held, None)
    if n < FEW_ROWS_PER_COLUMN * d and d > 1 and held.any():
        hidden = np.where(held, np.nan, table)
        factors = choose_rank(table, held)
        full, few = (np.mean((model.fill(hidden) - table)[held] ** 2) for model in (chosen, factors))
        if few < (1 - MIN_GAIN) * full:
            return [_refit_factors(table, factors)], False
    models = [chosen] if marginals is None else [chosen, choose_linear(table, held, marginals)]
    return [model.refit(table, 40, patterns) for model in models], False


def _refit_factors(table: np.ndarray, model: FactorAnalysis) -> LinearModel:
    """A model that was fitted without the held-out cells, refitted with them."""
    return LinearModel(fit_factor_analysis(table, model.rank, start=model), 0.0)


@dataclass(frozen=True)
class HeldOut:
    """Held-out predictions of linear models."""

    rows: np.ndarray  # (p, d): rows filled by the first model, one for each fold with cells of the row
    scores: np.ndarray  # (p, d): the same as normal scores
    place: np.ndarray  # (n, d): the row in which a cell was held out, -1 where in none
    predictions: np.ndarray  # (models, n, d), nan where a cell was not held out
    spread: np.ndarray  # (n, d): the first model's standard deviations


def _cross_validate(
    table: np.ndarray,
    scores: np.ndarray,
    fold: np.ndarray,
    linears: list[LinearModel],
    many_rows: bool,
    marginals: list[Marginal],
) -> HeldOut:
    """Hold out each fold in turn, in the rows that have cells of it."""
    none = np.empty((0, table.shape[1]))
    filled, scored, place, count = [none], [none], np.full(table.shape, NO_FOLD), 0
    predictions, spread = np.full((len(linears), *table.shape), np.nan), np.full(table.shape, np.nan)
    for k in range(FOLDS):
        rows = np.flatnonzero((fold == k).any(axis=1))
        if not len(rows):
            continue
        at = fold[rows] == k
        cells = rows[np.nonzero(at)[0]], np.nonzero(at)[1]
        models = linears if many_rows else _refit(linears, table, scores, fold == k)
        hidden, hidden_scores = np.where(at, np.nan, table[rows]), np.where(at, np.nan, scores[rows])
        patterns = find_patterns(np.isnan(hidden))
        for b, model in enumerate(models):
            guess, deviation = model.conditional(hidden, patterns, b == 0, hidden_scores, at)
            predictions[b][cells] = guess[at]
            if deviation is not None:
                spread[cells] = deviation[at]
                filled.append(guess)
                scored.append(complete_scores(marginals, hidden_scores, guess))
        place[cells] = count + np.nonzero(at)[0]
        count += len(rows)
    return HeldOut(np.concatenate(filled), np.concatenate(scored), place, predictions, spread)


def _refit(linears: list[LinearModel], table: np.ndarray, scores: np.ndarray, at: np.ndarray) -> list[LinearModel]:
    """The models refitted without the cells of a fold."""
    hidden = np.where(at, np.nan, table)
    patterns = find_patterns(np.isnan(hidden))
    return [linear.refit(hidden, REFIT_ITER, patterns, np.where(at, np.nan, scores)) for linear in linears]


def _mixture(predictions: np.ndarray, truth: np.ndarray, cols: np.ndarray, d: int) -> np.ndarray:
    """Weights of the linear models in each column, or of the first alone where the second improves little."""
    if len(predictions) > 1:
        first = _first_weight(predictions[0], predictions[1], truth, cols, d)
        both = first[cols] * predictions[0] + (1 - first[cols]) * predictions[1]
        if np.sum((both - truth) ** 2) < (1 - MARGINALS_MIN_GAIN) * np.sum((predictions[0] - truth) ** 2):
            return np.stack([first, 1 - first])
    return np.ones((1, d))


def _first_weight(one: np.ndarray, two: np.ndarray, truth: np.ndarray, cols: np.ndarray, d: int) -> np.ndarray:
    """Least-squares weight of the first of two predictions in each column, shrunk towards that of all columns."""
    apart, off = one - two, truth - two
    top, bottom = np.bincount(cols, apart * off, d), np.bincount(cols, apart**2, d)
    overall = np.clip(top.sum() / max(bottom.sum(), 1e-300), 0, 1)
    prior = bottom.sum() / max(len(truth), 1) * PRIOR_CELLS
    return np.clip((top + prior * overall) / np.maximum(bottom + prior, 1e-300), 0, 1)
