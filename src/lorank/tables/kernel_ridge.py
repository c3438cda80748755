"""What linear models leave over: a kernel regression of their errors on the filled rows.

Every known cell was hidden in some fold, so that the error of its guess, and the row as it was filled without it, are known:
pairs to learn from that look like true gaps. Gaussian bumps around a few rows (landmarks) are the features; each column has
its own ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.linalg.blas import strmm
from scipy.linalg.lapack import dtrtri

LANDMARKS = 200
WIDTHS = (0.3, 0.8)  # of the bumps, in units of the root of the number of columns
RIDGES = (0.5, 5.0)
STIFF = 1e-2  # added to the bumps' own matrix, so that single precision will do
ROUNDING = 3e-7  # of single precision, in sums over rows
AGAIN = 8  # times that a matrix is made larger on its diagonal, each time ten times as much
GAIN = 0.005  # the least share of a column's squared error that bumps must take away
FEW = 80  # landmarks that every column is tried with first
MUCH = 0.04  # the share that these must take away, for all landmarks to be tried
FEWEST = 30  # cells of a column that is learned at all
ROWS = 3000  # at most, whose cells are learned from
TRIED = 3  # columns that choose the width and the ridge
JUDGED = 600  # of their cells, about
JUDGES = 64  # landmarks then


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
    scale = 2 * width**2 * landmarks.shape[1]
    rows, landmarks = rows.astype(np.float32), landmarks.astype(np.float32)
    left = np.column_stack([rows, np.einsum("ij,ij->i", rows, rows), np.ones(len(rows), np.float32)])
    ones = np.ones(len(landmarks), np.float32)
    right = np.column_stack([landmarks * 2, -ones, -np.einsum("ij,ij->i", landmarks, landmarks)]) / np.float32(scale)
    exponent = left @ right.T
    return np.exp(exponent, out=exponent)


def fit_bumps(
    filled: np.ndarray, place: np.ndarray, fold: np.ndarray, errors: np.ndarray, rng: np.random.Generator
) -> tuple[Bumps | None, np.ndarray]:
    """Bumps for the errors of hidden cells.

    A few columns choose the width and the ridge on cells of the first fold; each column is helped where its cells, each left
    out in turn, are guessed better.

    Parameters
    ----------
    filled : (p, d) array
        Rows as they were filled while cells of them were hidden.
    place : (n, d) integer array
        Which of these a cell was hidden in, -1 where in none.
    fold : (n, d) integer array
        The fold of each cell, -1 where it was in none.
    errors : (n, d) array
        Of the guesses.
    rng : numpy.random.Generator

    Returns
    -------
    Bumps or None, (n, d) array
        And what bumps that were learned without a cell say about it: 0 in columns that they do not help, nan at cells that
        were not looked at.
    """
    n, d = fold.shape
    said = np.where(fold >= 0, 0.0, np.nan)
    some = np.sort(rng.choice(n, ROWS, replace=False)) if n > ROWS else np.arange(n)
    place, fold, errors = place[some], fold[some], errors[some].astype(np.float32)
    if n > ROWS:
        kept, place = _renumbered(place)
        filled = filled[kept]
    filled = filled.astype(np.float32)
    of_rows = place.max(axis=1, initial=-1)
    of_rows = of_rows[of_rows >= 0]  # one a row
    m = min(LANDMARKS, len(of_rows) // 3)
    if m < 5:
        return None, said
    landmarks = filled[rng.choice(of_rows, m, replace=False)]
    width, ridge = _choose(filled, place, fold, errors, landmarks[:JUDGES])
    penalty = ridge * _among(landmarks, width)
    few = min(FEW, m)
    of_few, of_all = features(filled, landmarks[:few], width), None
    weights = np.zeros((m, d))
    for j in range(d):
        rows = np.flatnonzero(place[:, j] >= 0)
        if len(rows) < FEWEST:
            continue
        r = errors[rows, j]
        used, (found, left) = few, _leave_one_out(of_few[place[rows, j]], r, penalty[:few, :few])
        if few < m and left @ left < (1 - MUCH) * (r @ r):  # more of them may pay
            of_all = features(filled, landmarks, width) if of_all is None else of_all
            used, (found, left) = m, _leave_one_out(of_all[place[rows, j]], r, penalty)
        if left @ left < (1 - GAIN) * (r @ r):
            weights[:used, j] = found
            said[some[rows], j] = r - left
            others = np.ones(n, bool)
            others[some] = False
            said[others, j] = np.nan
    return (Bumps(landmarks.astype(np.float64), width, weights), said) if weights.any() else (None, said)


def _renumbered(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that occur, and each replaced by its place among them; -1 stays."""
    kept, inverse = np.unique(place, return_inverse=True)
    less = int(len(kept) > 0 and kept[0] < 0)
    return kept[less:], inverse.reshape(place.shape) - less


def _choose(
    filled: np.ndarray, place: np.ndarray, fold: np.ndarray, errors: np.ndarray, landmarks: np.ndarray
) -> tuple[float, float]:
    """The width and the ridge that leave least of the errors in cells of the first fold, tried on part of the cells."""
    left = {(width, ridge): 0.0 for width in WIDTHS for ridge in RIDGES}
    among = {width: _among(landmarks, width) for width in WIDTHS}
    d = fold.shape[1]
    for j in range(0, d, -(-d // TRIED)):
        rows = np.flatnonzero(place[:, j] >= 0)
        if len(rows) < FEWEST:
            continue
        rows = rows[:: max(1, len(rows) // JUDGED)]
        cells, r, judge = filled[place[rows, j]], errors[rows, j], fold[rows, j] == 0
        before = max(float(r[judge] @ r[judge]), 1e-30)
        for width in WIDTHS:
            P = features(cells, landmarks, width)
            gram, right = _gram(P[~judge]), P[~judge].T @ r[~judge]
            for ridge in RIDGES:
                factor = _cholesky(gram + ridge * among[width]), True
                off = r[judge] - P[judge] @ cho_solve(factor, right, check_finite=False)
                left[width, ridge] += float(off @ off) / before
    return min(left, key=lambda pair: left[pair])


def _among(landmarks: np.ndarray, width: float) -> np.ndarray:
    """The bumps' own matrix."""
    return features(landmarks, landmarks, width).astype(np.float64) + STIFF * np.eye(len(landmarks))


def _gram(P: np.ndarray) -> np.ndarray:
    """``P^T P``, made in single precision, and so much larger on the diagonal as rounding may have made it indefinite."""
    gram = (P.T @ P).astype(np.float64)
    gram[np.diag_indices(len(gram))] += ROUNDING * np.trace(gram)
    return gram


def _cholesky(A: np.ndarray) -> np.ndarray:
    """The lower factor; with more and more on the diagonal where bumps are so much alike that rounding hides the rest."""
    more = ROUNDING * float(np.trace(A))
    for _ in range(AGAIN):
        try:
            return np.asarray(cholesky(A, lower=True, check_finite=False))
        except np.linalg.LinAlgError:
            A = A + more * np.eye(len(A))
            more *= 10
    return np.asarray(cholesky(A, lower=True, check_finite=False))


def _leave_one_out(P: np.ndarray, r: np.ndarray, penalty: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a ridge regression, and the error at each cell of the one that was learned without it."""
    L = _cholesky(_gram(P) + penalty)
    inverse = dtrtri(L, lower=1)[0]
    half = strmm(1.0, inverse.astype(np.float32), P.T, lower=1)  # the hat matrix is half^T half
    own = np.einsum("ij,ij->j", half, half)
    along = half @ r
    left = (r - along @ half) / np.maximum(1 - own, 1e-3)
    return inverse.T @ along, left
