"""Linear models of a table: a Gaussian of the columns, or of their normal scores (a Gaussian copula)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from .factor_analysis import FactorAnalysis, fit_factor_analysis
from .gaussian import Gaussian, fit_gaussian
from .patterns import Patterns, find_patterns

MAX_KNOTS = 500  # of a marginal transform
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(5)  # Gauss-Hermite quadrature
WEIGHTS = WEIGHTS / WEIGHTS.sum()
REGULARIZATIONS = (64.0, 16.0, 4.0, 1.0)  # tried where rows are few
MANY_ROWS_REGULARIZATION = 2.0
MANY_ROWS_REGULARIZATIONS = (MANY_ROWS_REGULARIZATION, 0.5, 0.1)  # tried for columns that are nearly functions of each other


@dataclass(frozen=True)
class Marginal:
    """Increasing, piecewise linear transform of a column to normal scores."""

    values: np.ndarray  # (k,), increasing
    scores: np.ndarray  # (k,), increasing

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Scores, extrapolated linearly; nan stays nan."""
        out = np.interp(x, self.values, self.scores)
        if len(self.values) > 1:
            slope = (self.scores[-1] - self.scores[0]) / (self.values[-1] - self.values[0])
            for end, beyond in ((0, x < self.values[0]), (-1, x > self.values[-1])):
                if beyond.any():
                    out[beyond] = self.scores[end] + slope * (x[beyond] - self.values[end])
        return np.asarray(out)

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Values, within the range of the fitted ones."""
        return np.interp(z, self.scores, self.values)

    def expected(self, z: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """Mean of :meth:`inverse` under normal distributions with these means and deviations, by quadrature."""
        return self.inverse(z[:, None] + deviation[:, None] * NODES) @ WEIGHTS


def fit_marginal(x: np.ndarray) -> Marginal:
    """Normal scores of the average ranks of a column without missing values."""
    values, counts = np.unique(x, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0
    scores = ndtri(ranks / (len(x) + 1))
    if len(values) > MAX_KNOTS:
        keep = np.unique(np.linspace(0, len(values) - 1, MAX_KNOTS).round().astype(int))
        values, scores = values[keep], scores[keep]
    return Marginal(values, scores)


def fit_marginals(table: np.ndarray) -> list[Marginal]:
    """Marginal transforms of all columns."""
    return [fit_marginal(column[~np.isnan(column)]) for column in table.T]


def to_scores(marginals: list[Marginal] | None, table: np.ndarray) -> np.ndarray:
    """The columns transformed to scores; the table itself without marginals."""
    if marginals is None:
        return table
    return np.column_stack([marginal.forward(column) for marginal, column in zip(marginals, table.T, strict=True)])


def complete_scores(marginals: list[Marginal], scores: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """The scores with those of the filled table where they are missing."""
    out, missing = scores.copy(), np.isnan(scores)
    for j, marginal in enumerate(marginals):
        at = np.flatnonzero(missing[:, j])
        out[at, j] = marginal.forward(filled[at, j])
    return out


@dataclass(frozen=True)
class LinearModel:
    """A Gaussian of the columns, or of their normal scores."""

    gaussian: Gaussian | FactorAnalysis
    regularization: float  # of its correlations
    marginals: list[Marginal] | None = None

    def fill(self, table: np.ndarray, patterns: Patterns | None = None) -> np.ndarray:
        """The table with conditional means for its missing values."""
        return self.conditional(table, patterns, spread=False)[0]

    def conditional(
        self,
        table: np.ndarray,
        patterns: Patterns | None = None,
        spread: bool = True,
        scores: np.ndarray | None = None,
        wanted: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The filled table, and the conditional standard deviations.

        Scores of the table may be passed where they are known. With marginals only the cells ``wanted`` (a Boolean array) are
        filled: transforming scores back is the most expensive part.
        """
        if self.marginals is None:
            return self.gaussian.conditional(table, patterns, spread)
        scores = to_scores(self.marginals, table) if scores is None else scores
        filled, deviation = self.gaussian.conditional(scores, patterns)
        assert deviation is not None
        wanted = np.isnan(table) if wanted is None else wanted
        out = table.copy()
        sd = np.zeros_like(table) if spread else None
        for j, marginal in enumerate(self.marginals):
            at = np.flatnonzero(wanted[:, j])
            z, s = filled[at, j], deviation[at, j]
            out[at, j] = marginal.expected(z, s)
            if sd is not None:
                sd[at, j] = (marginal.inverse(z + s) - marginal.inverse(z - s)) / 2
        return out, sd

    def draw(self, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The table with missing values drawn from their conditional distribution."""
        if self.marginals is None:
            return self.gaussian.draw(table, rng)
        drawn = self.gaussian.draw(to_scores(self.marginals, table), rng)
        out = np.column_stack([marginal.inverse(z) for marginal, z in zip(self.marginals, drawn.T, strict=True)])
        return np.where(np.isnan(table), out, table)

    def refit(
        self, table: np.ndarray, max_iter: int, patterns: Patterns | None = None, scores: np.ndarray | None = None
    ) -> LinearModel:
        """The same model fitted to another table, started here."""
        if self.marginals is None or scores is None:
            scores = to_scores(self.marginals, table)
        model: Gaussian | FactorAnalysis
        if isinstance(self.gaussian, FactorAnalysis):
            model = fit_factor_analysis(scores, self.gaussian.rank, start=self.gaussian, max_iter=max_iter)
        else:
            model = fit_gaussian(scores, self.regularization, start=self.gaussian, patterns=patterns, max_iter=max_iter)
        return LinearModel(model, self.regularization, self.marginals)


def fit_linear(
    table: np.ndarray,
    marginals: list[Marginal] | None,
    patterns: Patterns | None = None,
    scores: np.ndarray | None = None,
    regularization: float = MANY_ROWS_REGULARIZATION,
) -> LinearModel:
    """Fit a linear model to a table of standardized columns; patterns and scores may be passed where they are known."""
    if marginals is None or scores is None:
        scores = to_scores(marginals, table)
    return LinearModel(fit_gaussian(scores, regularization, patterns=patterns), regularization, marginals)


def choose_linear(
    table: np.ndarray,
    held: np.ndarray,
    marginals: list[Marginal] | None,
    regularizations: tuple[float, ...] = REGULARIZATIONS,
    min_gain: float = -1e-4,
) -> LinearModel:
    """The model, fitted without the cells ``held`` (a Boolean array), whose regularization predicts them best.

    Candidates are tried from strong to weak, until one does not reduce the squared error of the one before by ``min_gain``,
    relatively.
    """
    hidden = np.where(held, np.nan, table)
    scores = to_scores(marginals, hidden)
    patterns = find_patterns(np.isnan(hidden))
    truth, best, gaussian = table[held], None, None
    for regularization in regularizations:  # each starts from the one before
        gaussian = fit_gaussian(scores, regularization, start=gaussian, patterns=patterns, max_iter=30)
        model = LinearModel(gaussian, regularization, marginals)
        guess = model.fill(hidden, patterns)[held]
        error = float(np.mean((guess - truth) ** 2)) if len(truth) else 0.0
        if best is not None and error > best[0] * (1 - min_gain):
            break
        best = error, model
    assert best is not None
    return best[1]
