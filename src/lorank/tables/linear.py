"""Linear models of a table: one Gaussian, of the columns as they are or through monotone margins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .factor_analysis import FactorAnalysis, fit_factor_analysis
from .gaussian import Gaussian, fit_gaussian
from .margins import Margin, normal_scores
from .patterns import Patterns, find_patterns

STRENGTHS = (64.0, 16.0, 4.0, 1.0)
LOOSE = 2.0  # where rows are plenty
LOOSER = (LOOSE, 0.5, 0.1)  # tried where rows are plenty but not many: columns may follow from each other nearly exactly


@dataclass(frozen=True)
class Linear:
    """A Gaussian of the columns, or of their normal scores.

    Attributes
    ----------
    gaussian : Gaussian
    strength : float
        How much its correlations were shrunk.
    margins : list of Margin, or None
    """

    gaussian: Gaussian | FactorAnalysis
    strength: float
    margins: list[Margin] | None = None

    def fill(self, table: np.ndarray, patterns: Patterns | None = None) -> np.ndarray:
        """Conditional means in the gaps; what is known stays."""
        return self.conditional(table, patterns, spread=False)[0]

    def conditional(
        self,
        table: np.ndarray,
        patterns: Patterns | None = None,
        spread: bool = True,
        scores: np.ndarray | None = None,
        wanted: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The filled table, and the standard deviations of the gaps.

        The table's scores may be given where they are known. With margins, other gaps than those that are ``wanted`` (a
        Boolean array) stay: the way back from scores costs more than all else.
        """
        if self.margins is None:
            return self.gaussian.conditional(table, patterns, spread)
        scores = to_scores(self.margins, table) if scores is None else scores
        filled, deviation = self.gaussian.conditional(scores, patterns)
        assert deviation is not None
        wanted = np.isnan(table) if wanted is None else wanted
        out = table.copy()
        sd = np.zeros_like(table) if spread else None
        for j, margin in enumerate(self.margins):
            at = np.flatnonzero(wanted[:, j])
            z, s = filled[at, j], deviation[at, j]
            out[at, j] = margin.expected(z, s)
            if sd is not None:
                sd[at, j] = (margin.backward(z + s) - margin.backward(z - s)) / 2
        return out, sd

    def draw(self, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws from the conditional distribution of the gaps."""
        if self.margins is None:
            return self.gaussian.draw(table, rng)
        drawn = self.gaussian.draw(to_scores(self.margins, table), rng)
        out = np.column_stack([margin.backward(z) for margin, z in zip(self.margins, drawn.T, strict=True)])
        return np.where(np.isnan(table), out, table)

    def refit(
        self, table: np.ndarray, max_iter: int, patterns: Patterns | None = None, scores: np.ndarray | None = None
    ) -> Linear:
        """The same on another table, from here."""
        if self.margins is None:
            scores = table
        elif scores is None:
            scores = to_scores(self.margins, table)
        assert scores is not None
        if isinstance(self.gaussian, FactorAnalysis):
            rank = self.gaussian.loadings.shape[1]
            return Linear(
                fit_factor_analysis(scores, rank, start=self.gaussian, max_iter=max_iter), self.strength, self.margins
            )
        found = fit_gaussian(scores, self.strength, start=self.gaussian, patterns=patterns, max_iter=max_iter)
        return Linear(found, self.strength, self.margins)


def margins_of(table: np.ndarray) -> list[Margin]:
    """Normal scores of each column."""
    return [normal_scores(column[~np.isnan(column)]) for column in table.T]


def to_scores(margins: list[Margin], table: np.ndarray) -> np.ndarray:
    """The columns through their margins; nan stays."""
    return np.column_stack([margin.forward(column) for margin, column in zip(margins, table.T, strict=True)])


def scores_filled(margins: list[Margin], scores: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """The scores of a filled table whose known cells' scores are there: those of the gaps are added."""
    out, gaps = scores.copy(), np.isnan(scores)
    for j, margin in enumerate(margins):
        at = np.flatnonzero(gaps[:, j])
        out[at, j] = margin.forward(filled[at, j])
    return out


def fit_linear(
    table: np.ndarray,
    margins: list[Margin] | None,
    patterns: Patterns | None = None,
    scores: np.ndarray | None = None,
    strength: float = LOOSE,
) -> Linear:
    """A linear model of a table with many rows, where the strength hardly matters.

    Parameters
    ----------
    table : (n, d) array
        With nan in the gaps; columns of about unit variance.
    margins : list of Margin, optional
    patterns : Patterns, optional
        The rows' gaps, where they are known already.
    scores : (n, d) array, optional
        The table's scores, where they are known already.
    strength : float
        By how much correlations are shrunk.
    """
    if margins is None:
        scores = table
    elif scores is None:
        scores = to_scores(margins, table)
    return Linear(fit_gaussian(scores, strength, patterns=patterns), strength, margins)


def choose_linear(
    table: np.ndarray,
    held: np.ndarray,
    margins: list[Margin] | None,
    strengths: tuple[float, ...] = STRENGTHS,
    gain: float = -1e-4,
) -> Linear:
    """The strength that fills held-out cells best: a model that was fitted without them.

    Parameters
    ----------
    table : (n, d) array
        With nan in the gaps; columns of about unit variance.
    held : (n, d) Boolean array
        Known cells to be hidden.
    margins : list of Margin, optional
    strengths : tuple of float
        From stiff to loose.
    gain : float
        The share of squared error that each must take away from the one before, for the next to be tried.
    """
    hidden = np.where(held, np.nan, table)
    scores = hidden if margins is None else to_scores(margins, hidden)
    patterns = find_patterns(np.isnan(hidden))
    truth, best, gaussian = table[held], None, None
    for strength in strengths:  # each from the one before
        gaussian = fit_gaussian(scores, strength, start=gaussian, patterns=patterns, max_iter=30)
        model = Linear(gaussian, strength, margins)
        guess = model.fill(hidden, patterns)[held]
        error = float(np.mean((guess - truth) ** 2)) if len(truth) else 0.0
        if best is not None and error > best[0] * (1 - gain):
            break
        best = error, model
    assert best is not None
    return best[1]
