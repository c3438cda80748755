"""Guesses for gaps in series, weighed by how well they filled known cells that were hidden, and how large their errors were."""

from __future__ import annotations

import numpy as np

EDGES = np.array([1.5, 2.5, 4.5, 8.5, 16.5])  # of the classes of distances, in typical steps
LINE = 2  # the place of the line among the guesses
SURE = 0.97  # of a line's squared error: where weighed guesses leave more, the line is taken
CHANCE = 2.0  # standard deviations that a gain over the line must have
PRIOR = 30.0  # cells: as much as the weights of all columns, or those of all distances, count beside a column's own


def sure(gain: np.ndarray, size: np.ndarray, stretch: int) -> np.ndarray:
    """Whether gains of squared error are more than chance, in each column or in all together.

    Errors within a gap go together: stretches of time are counted, not cells.
    """
    stretches = np.add.reduceat(gain, np.arange(0, len(gain), stretch)) / np.maximum(size, 1e-100)  # squares fit
    whole = stretches.sum(axis=1)
    own = stretches.sum(axis=0) > CHANCE * np.sqrt((stretches**2).sum(axis=0))
    return np.asarray(own | (whole.sum() > CHANCE * np.sqrt(whole @ whole)))


def least_squares_weights(
    found: np.ndarray, classes: np.ndarray, table: np.ndarray, there: np.ndarray, first: int = LINE, prior: float = PRIOR
) -> np.ndarray:
    """By least squares in each class of distances and each column, shrunk towards those of all, and these to one guess."""
    g, d = len(found), table.shape[1]
    overall = _solve(found[:, there].T, table[there], np.eye(g)[first], prior)
    weights = np.empty((len(EDGES) + 1, d, g))
    for c in range(len(EDGES) + 1):
        at = there & (classes == c)
        common = _solve(found[:, at].T, table[at], overall, prior)
        for j in range(d):
            mine = at[:, j]
            weights[c, j] = _solve(found[:, mine, j].T, table[mine, j], common, prior)
    return weights


def _solve(A: np.ndarray, y: np.ndarray, towards: np.ndarray, prior: float) -> np.ndarray:
    """Least squares, with the weights that they are shrunk towards counting as much as ``prior`` cells."""
    if len(y) < 3:
        return towards
    gram = A.T @ A
    size = np.trace(gram) / len(towards) / len(y)
    ridge = (prior * size + 1e-12) * np.eye(len(towards))
    return np.asarray(towards + np.linalg.solve(gram + ridge, A.T @ (y - A @ towards)))


def spread_of(left: np.ndarray, classes: np.ndarray, count: int) -> np.ndarray:
    """Root mean squares of errors by class and column, shrunk towards those of the column."""
    d = left.shape[1]
    known = ~np.isnan(left)
    cell = classes * d + np.arange(d)
    number = np.bincount(cell[known], minlength=count * d).reshape(count, d)
    squares = np.bincount(cell[known], left[known] ** 2, count * d).reshape(count, d)
    column = (squares.sum(axis=0) + 1e-3) / (number.sum(axis=0) + 1e-3)
    return np.asarray(np.sqrt((squares + 10 * column) / (number + 10)))
