"""Kernel ridge regression of a linear model's errors on the filled rows, with Gaussian kernels around landmark rows.

Training pairs come from cross-validation: the error of each held-out cell, and its row as it was filled without it. Each column
has its own regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.linalg.blas import strmm
from scipy.linalg.lapack import dtrtri

LANDMARKS = 200
FEW_LANDMARKS = 80  # tried first in every column
FEW_MIN_GAIN = 0.04  # relative reduction of the squared error by these, above which all landmarks are tried
MIN_GAIN = 0.005  # relative reduction of a column's squared error below which the column has no regression
MIN_CELLS = 30  # of a column that has a regression
MAX_ROWS = 3000  # of the training pairs
WIDTHS = (0.3, 0.8)  # of the kernels, in units of the square root of the number of columns
RIDGES = (0.5, 5.0)
JITTER = 1e-2  # on the kernel matrix of the landmarks, so that single precision suffices
ROUNDING = 3e-7  # of single precision, in sums over rows
CHOLESKY_TRIES = 8  # each with ten times the diagonal shift of the one before
SELECTION_COLUMNS = 3  # by which width and ridge are selected
SELECTION_CELLS = 600  # of these columns, about
SELECTION_LANDMARKS = 64


@dataclass(frozen=True)
class KernelRidge:
    """Errors of a linear model as sums of Gaussian kernels."""

    landmarks: np.ndarray  # (m, d)
    width: float
    weights: np.ndarray  # (m, d); zero for columns without a regression

    @property
    def columns(self) -> np.ndarray:
        """Boolean array of the columns with a regression."""
        return np.asarray(self.weights.any(axis=0))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Expected errors of filled rows: an (n, d) array."""
        return np.asarray(kernel(rows, self.landmarks, self.width) @ self.weights)


def kernel(rows: np.ndarray, landmarks: np.ndarray, width: float) -> np.ndarray:
    """Gaussian kernel between rows and landmarks: an (n, m) array, in single precision."""
    scale = 2 * width**2 * landmarks.shape[1]
    rows, landmarks = rows.astype(np.float32), landmarks.astype(np.float32)
    left = np.column_stack([rows, np.einsum("ij,ij->i", rows, rows), np.ones(len(rows), np.float32)])
    ones = np.ones(len(landmarks), np.float32)
    right = np.column_stack([landmarks * 2, -ones, -np.einsum("ij,ij->i", landmarks, landmarks)]) / np.float32(scale)
    exponent = left @ right.T
    return np.exp(exponent, out=exponent)


def fit_kernel_ridge(
    filled: np.ndarray, place: np.ndarray, fold: np.ndarray, errors: np.ndarray, rng: np.random.Generator
) -> tuple[KernelRidge | None, np.ndarray]:
    """Fit the errors of held-out cells.

    A few columns select width and ridge on the first fold; a column has a regression where its leave-one-out errors are
    smaller.

    Parameters
    ----------
    filled : (p, d) array
        Rows as they were filled while some of their cells were held out.
    place : (n, d) integer array
        Index of the row of ``filled`` in which a cell was held out, -1 where in none.
    fold : (n, d) integer array
        The fold of each cell, -1 where it was in none.
    errors : (n, d) array
        Of the held-out predictions.
    rng : numpy.random.Generator

    Returns
    -------
    KernelRidge or None, (n, d) array
        The model and its leave-one-out predictions: 0 in columns without a regression, nan at cells that were not used.
    """
    n, d = fold.shape
    predicted = np.where(fold >= 0, 0.0, np.nan)
    some = np.sort(rng.choice(n, MAX_ROWS, replace=False)) if n > MAX_ROWS else np.arange(n)
    place, fold, errors = place[some], fold[some], errors[some].astype(np.float32)
    if n > MAX_ROWS:
        kept, place = _renumber(place)
        filled = filled[kept]
    filled = filled.astype(np.float32)
    candidates = place.max(axis=1, initial=-1)
    candidates = candidates[candidates >= 0]  # one a row
    m = min(LANDMARKS, len(candidates) // 3)
    if m < 5:
        return None, predicted
    landmarks = filled[rng.choice(candidates, m, replace=False)]
    width, ridge = _select(filled, place, fold, errors, landmarks[:SELECTION_LANDMARKS])
    penalty = ridge * _kernel_matrix(landmarks, width)
    few = min(FEW_LANDMARKS, m)
    of_few, of_all = kernel(filled, landmarks[:few], width), None
    weights = np.zeros((m, d))
    for j in range(d):
        rows = np.flatnonzero(place[:, j] >= 0)
        if len(rows) < MIN_CELLS:
            continue
        r = errors[rows, j]
        used, (found, held_out) = few, _leave_one_out(of_few[place[rows, j]], r, penalty[:few, :few])
        if few < m and held_out @ held_out < (1 - FEW_MIN_GAIN) * (r @ r):
            of_all = kernel(filled, landmarks, width) if of_all is None else of_all
            used, (found, held_out) = m, _leave_one_out(of_all[place[rows, j]], r, penalty)
        if held_out @ held_out < (1 - MIN_GAIN) * (r @ r):
            weights[:used, j] = found
            predicted[some[rows], j] = r - held_out
            others = np.ones(n, bool)
            others[some] = False
            predicted[others, j] = np.nan
    return (KernelRidge(landmarks.astype(np.float64), width, weights), predicted) if weights.any() else (None, predicted)


def _renumber(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The indices that occur, and each replaced by its position among them; -1 stays."""
    kept, inverse = np.unique(place, return_inverse=True)
    less = int(len(kept) > 0 and kept[0] < 0)
    return kept[less:], inverse.reshape(place.shape) - less


def _select(
    filled: np.ndarray, place: np.ndarray, fold: np.ndarray, errors: np.ndarray, landmarks: np.ndarray
) -> tuple[float, float]:
    """Width and ridge with the least squared error on the first fold of a few columns."""
    losses = {(width, ridge): 0.0 for width in WIDTHS for ridge in RIDGES}
    among = {width: _kernel_matrix(landmarks, width) for width in WIDTHS}
    d = fold.shape[1]
    for j in range(0, d, -(-d // SELECTION_COLUMNS)):
        rows = np.flatnonzero(place[:, j] >= 0)
        if len(rows) < MIN_CELLS:
            continue
        rows = rows[:: max(1, len(rows) // SELECTION_CELLS)]
        cells, r, held = filled[place[rows, j]], errors[rows, j], fold[rows, j] == 0
        before = max(float(r[held] @ r[held]), 1e-30)
        for width in WIDTHS:
            P = kernel(cells, landmarks, width)
            gram, right = _gram(P[~held]), P[~held].T @ r[~held]
            for ridge in RIDGES:
                factor = _cholesky(gram + ridge * among[width]), True
                off = r[held] - P[held] @ cho_solve(factor, right, check_finite=False)
                losses[width, ridge] += float(off @ off) / before
    return min(losses, key=lambda pair: losses[pair])


def _kernel_matrix(landmarks: np.ndarray, width: float) -> np.ndarray:
    return kernel(landmarks, landmarks, width).astype(np.float64) + JITTER * np.eye(len(landmarks))


def _gram(P: np.ndarray) -> np.ndarray:
    """``P^T P`` in single precision, its diagonal enlarged by the rounding error so that it stays positive definite."""
    gram = (P.T @ P).astype(np.float64)
    gram[np.diag_indices(len(gram))] += ROUNDING * np.trace(gram)
    return gram


def _cholesky(A: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor, with increasing diagonal shifts where A is numerically singular."""
    shift = ROUNDING * float(np.trace(A))
    for _ in range(CHOLESKY_TRIES):
        try:
            return np.asarray(cholesky(A, lower=True, check_finite=False))
        except np.linalg.LinAlgError:
            A = A + shift * np.eye(len(A))
            shift *= 10
    return np.asarray(cholesky(A, lower=True, check_finite=False))


def _leave_one_out(P: np.ndarray, r: np.ndarray, penalty: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a ridge regression, and its leave-one-out errors."""
    L = _cholesky(_gram(P) + penalty)
    inverse = dtrtri(L, lower=1)[0]
    half = strmm(1.0, inverse.astype(np.float32), P.T, lower=1)  # the hat matrix is half^T half
    leverage = np.einsum("ij,ij->j", half, half)
    along = half @ r
    return inverse.T @ along, (r - along @ half) / np.maximum(1 - leverage, 1e-3)
