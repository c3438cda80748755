"""Monotone margins: each column through a function of its own that makes it about normal (a Gaussian copula)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

KNOTS = 500  # of the function, at most
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@dataclass(frozen=True)
class Margin:
    """An increasing function of one column, linear between knots.

    Attributes
    ----------
    values, scores : (k,) arrays
        Increasing: a value of the column, and its place in a standard normal distribution.
    """

    values: np.ndarray
    scores: np.ndarray

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Scores; beyond the outer knots on with the slope there, nan stays."""
        out = np.interp(x, self.values, self.scores)  # nan where x is
        if len(self.values) > 1:
            slope = (self.scores[-1] - self.scores[0]) / (self.values[-1] - self.values[0])
            for end, beyond in ((0, x < self.values[0]), (-1, x > self.values[-1])):
                if beyond.any():
                    out[beyond] = self.scores[end] + slope * (x[beyond] - self.values[end])
        return np.asarray(out)

    def backward(self, z: np.ndarray) -> np.ndarray:
        """Values, within those that were seen."""
        return np.interp(z, self.scores, self.values)

    def expected(self, z: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """The mean of ``backward`` over a normal distribution of these means and deviations."""
        return self.backward(z[:, None] + deviation[:, None] * NODES) @ WEIGHTS


def normal_scores(x: np.ndarray) -> Margin:
    """The margin that makes a column normal: a value's score is that of its average rank.

    Parameters
    ----------
    x : (n,) array
        Without nan.
    """
    values, counts = np.unique(x, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0
    scores = ndtri(ranks / (len(x) + 1))
    if len(values) > KNOTS:
        keep = np.unique(np.linspace(0, len(values) - 1, KNOTS).round().astype(int))
        values, scores = values[keep], scores[keep]
    return Margin(values, scores)
