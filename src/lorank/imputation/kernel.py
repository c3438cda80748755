"""What linear models leave over: a kernel regression of their errors on the filled rows.

Every known cell was hidden in some fold, so that the error of its guess, and the row as it was filled without it, are known:
pairs to learn from that look like true gaps. Gaussian bumps around a few rows (landmarks) are the features; each column has
its own ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

LANDMARKS = 200
WIDTHS = (0.3, 0.8)  # of the bumps, in units of the root of the number of columns
RIDGES = (0.5, 5.0)
STIFF = 1e-2  # added to the bumps' own matrix, so that single precision will do
GAIN = 0.005  # the least share of a column's squared error that bumps must take away
FEWEST = 30  # cells of a column that is learned at all
CELLS = 2500  # of a column, at most, to learn from
TRIED = 3  # columns that choose the width


@dataclass(frozen=True)
class Bumps:
    """Errors of a linear model as sums of Gaussian bumps.

    Attributes
    ----------
    landmarks : (m, d) array
    width : float
    weights : (m, d) array
        Zero for columns that bumps do not help.
    """

    landmarks: np.ndarray
    width: float
    weights: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        """Which columns they help."""
        return np.asarray(self.weights.any(axis=0))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The expected errors in filled rows: an (n, d) array."""
        return np.asarray(features(rows, self.landmarks, self.width) @ self.weights)


def features(rows: np.ndarray, landmarks: np.ndarray, width: float) -> np.ndarray:
    """Heights of the bumps at each row: an (n, m) array, in single precision: what is learned from them is rough."""
    rows, landmarks = rows.astype(np.float32), landmarks.astype(np.float32)
    scale = np.float32(2 * width**2 * landmarks.shape[1])
    exponent = rows @ (landmarks * (2 / scale)).T
    exponent -= ((rows * rows).sum(axis=1) / scale)[:, None]
    exponent -= (landmarks * landmarks).sum(axis=1) / scale
    return np.exp(np.minimum(exponent, 0, out=exponent), out=exponent)


def fit_bumps(
    fills: list[np.ndarray], fold: np.ndarray, errors: np.ndarray, rng: np.random.Generator
) -> tuple[Bumps | None, np.ndarray]:
    """Bumps for the errors of hidden cells.

    Cells of the first fold choose the width and the ridge of each column, and whether it is helped at all.

    Parameters
    ----------
    fills : list of (n, d) arrays
        The rows as they were filled in each fold.
    fold : (n, d) integer array
        The fold of each cell, -1 where it was in none.
    errors : (n, d) array
        Of the guesses.
    rng : numpy.random.Generator

    Returns
    -------
    Bumps or None, (n, d) array
        And what bumps that were learned without the second fold say at its cells: nan elsewhere.
    """
    n, d = fold.shape
    m = min(LANDMARKS, n // 3)
    said = np.full((n, d), np.nan)
    if m < 5:
        return None, said
    fills = [rows.astype(np.float32) for rows in fills]
    landmarks = fills[0][rng.choice(n, m, replace=False)]
    cells = [_cells(fold[:, j], rng) for j in range(d)]
    some = range(0, d, -(-d // TRIED))
    width = min(WIDTHS, key=lambda width: _columns(fills, landmarks, width, cells, fold, errors, some)[2])
    weights, guesses, _ = _columns(fills, landmarks, width, cells, fold, errors, range(d))
    for j, (at, guess) in guesses.items():
        said[at, j] = guess
    return (Bumps(landmarks.astype(np.float64), width, weights), said) if weights.any() else (None, said)


def _cells(fold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows of a column's hidden cells, fold after fold."""
    at = np.flatnonzero(fold >= 0)
    if len(at) > CELLS:
        at = rng.choice(at, CELLS, replace=False)
    return np.asarray(at[np.argsort(fold[at], kind="stable")])


def _columns(
    fills: list[np.ndarray],
    landmarks: np.ndarray,
    width: float,
    cells: list[np.ndarray],
    fold: np.ndarray,
    errors: np.ndarray,
    columns: range,
) -> tuple[np.ndarray, dict[int, tuple[np.ndarray, np.ndarray]], float]:
    """Weights of each column, what is said at cells of the second fold, and the share of squared error that is left."""
    heights = np.stack([features(rows, landmarks, width) for rows in fills])
    m = len(landmarks)
    among = features(landmarks, landmarks, width).astype(np.float64) + STIFF * np.eye(m)
    weights, guesses, left = np.zeros((m, fold.shape[1])), {}, 0.0
    for j in columns:
        at = cells[j]
        if len(at) < FEWEST:
            continue
        one, two = np.searchsorted(fold[at, j], (1, 2))
        P, r = heights[fold[at, j], at], errors[at, j].astype(np.float32)
        grams = [A.T @ A for A in (P[:one], P[one:two], P[two:])]
        rights = [A.T @ b for A, b in ((P[:one], r[:one]), (P[one:two], r[one:two]), (P[two:], r[two:]))]
        before = float(r[:one] @ r[:one])
        best, ridge = before * (1 - GAIN), 0.0
        for tried in RIDGES:
            off = r[:one] - P[:one] @ _solve(grams[1] + grams[2] + tried * among, rights[1] + rights[2])
            if off @ off < best:
                best, ridge = float(off @ off), tried
        guess = np.zeros(two - one)
        if ridge:
            weights[:, j] = _solve(sum(grams) + ridge * among, sum(rights))
            guess = P[one:two] @ _solve(grams[0] + grams[2] + ridge * among, rights[0] + rights[2])
        guesses[j] = at[one:two], guess
        left += best / before if before else 1.0
    return weights, guesses, left


def _solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(cho_solve(cho_factor(A, check_finite=False), b, check_finite=False))
