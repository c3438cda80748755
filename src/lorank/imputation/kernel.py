"""What linear models leave over: a kernel regression of their errors on the filled rows.

Every known cell was hidden in some fold, so that the error of its guess, and the row as it was filled without it, are known:
pairs to learn from that look like true gaps. Gaussian bumps around a few rows (landmarks) are the features; each column has
its own ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

LANDMARKS = 200
WIDTHS = (0.2, 0.4, 0.8)  # of the bumps, in units of the root of the number of columns
RIDGES = (0.5, 5.0)
STIFF = 1e-2  # added to the bumps' own matrix, so that single precision will do
GAIN = 0.005  # the least share of a column's squared error that bumps must take away
CHECK = 5  # every fifth cell judges, where the first fold cannot
CELLS = 4000  # of a column, at most, to learn from
TRIED = 5  # columns that choose the width


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
        return features(rows, self.landmarks, self.width) @ self.weights


def features(rows: np.ndarray, landmarks: np.ndarray, width: float) -> np.ndarray:
    """Heights of the bumps at each row: an (n, m) array."""
    return _heights(rows, (rows**2).sum(axis=1), landmarks, 2 * width**2 * landmarks.shape[1]).astype(np.float64)


def _heights(rows: np.ndarray, squares: np.ndarray, landmarks: np.ndarray, scale: float) -> np.ndarray:
    """In single precision: there are many of them, and what is learned from them is rough."""
    exponent = (rows @ (landmarks * (2 / scale)).T).astype(np.float32)
    exponent -= (squares / scale).astype(np.float32)[:, None]
    exponent -= ((landmarks**2).sum(axis=1) / scale).astype(np.float32)
    return np.exp(np.minimum(exponent, 0, out=exponent), out=exponent)


def fit_bumps(
    fills: list[np.ndarray], fold: np.ndarray, errors: np.ndarray, rng: np.random.Generator
) -> tuple[Bumps | None, np.ndarray]:
    """Bumps for the errors of hidden cells.

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
        And what they say at the cells that judged them, which they had not seen: nan elsewhere.
    """
    n, d = fold.shape
    m = min(LANDMARKS, n // 3)
    said = np.full((n, d), np.nan)
    if m < 5:
        return None, said
    picked = rng.choice(n, m, replace=False)
    landmarks = fills[0][picked]
    cells = [np.flatnonzero(fold[:, j] >= 0) for j in range(d)]
    cells = [at if len(at) <= CELLS else np.sort(rng.choice(at, CELLS, replace=False)) for at in cells]
    some: list[Any] = [[] if j % -(-d // TRIED) else at for j, at in enumerate(cells)]
    squares = [(rows**2).sum(axis=1) for rows in fills]

    def columns(width: float, cells: list) -> Any:
        scale = 2 * width**2 * d
        heights = [_heights(rows, square, landmarks, scale) for rows, square in zip(fills, squares, strict=True)]
        among = features(landmarks, landmarks, width) + STIFF * np.eye(m)
        return _columns(np.stack(heights), among, cells, fold, errors)

    width = min(WIDTHS, key=lambda width: columns(width, some)[2])
    weights, guesses, _ = columns(width, cells)
    for j, (at, guess) in guesses.items():
        said[at, j] = guess
    return (Bumps(landmarks, width, weights), said) if weights.any() else (None, said)


def _columns(
    heights: np.ndarray, among: np.ndarray, cells: list[np.ndarray], fold: np.ndarray, errors: np.ndarray
) -> tuple[np.ndarray, dict[int, tuple[np.ndarray, np.ndarray]], float]:
    """Weights of each column, what they say at its judging cells, and the share of squared error that is left."""
    m, d = heights.shape[2], len(cells)
    weights, guesses, left = np.zeros((m, d)), {}, 0.0
    for j, at in enumerate(cells):
        if len(at) < 25:
            continue
        P, r = heights[fold[at, j], at], errors[at, j].astype(np.float32)
        judge = fold[at, j] == 0
        if not 0.05 < judge.mean() < 0.5:
            judge = np.arange(len(at)) % CHECK == 0
        part, whole = P[~judge].T @ P[~judge], P[judge].T @ P[judge]
        whole += part
        right = P[~judge].T @ r[~judge]
        before = float(np.mean(r[judge] ** 2))
        best = before * (1 - GAIN), 0.0, np.zeros(int(judge.sum()))
        for ridge in RIDGES:
            guess = P[judge] @ np.linalg.solve(part + ridge * among, right)
            error = float(np.mean((r[judge] - guess) ** 2))
            if error < best[0]:
                best = error, ridge, guess
        if best[1]:
            weights[:, j] = np.linalg.solve(whole + best[1] * among, P.T @ r)
        guesses[j] = at[judge], best[2]
        left += min(best[0] / before, 1.0) if before else 1.0
    return weights, guesses, left
