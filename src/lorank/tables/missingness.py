"""Missing-data mechanism: held-out cells with the table's missingness patterns, and each cell's odds of being missing."""

from __future__ import annotations

import numpy as np

NO_FOLD = -1
MAX_ITER = 12  # of the logistic regressions
MAX_ODDS = 12.0  # relative to the average missing value's
SIGNIFICANCE = 4.0  # standard deviations of the likelihood ratio under missingness at random
SCREENING = 0.7  # share of the significant likelihood ratio below which the score test excludes a column


def cell_folds(missing: np.ndarray, folds: int, rng: np.random.Generator, leaders: np.ndarray | None = None) -> np.ndarray:
    """Cross-validation fold of each observed cell: an (n, d) integer array, -1 where in none.

    Columns take the folds of their ``leaders`` (by default their own): those of one category are missing together, and any of
    them would reveal the others.

    Cells are assigned independently. Where few missingness patterns are repeated (an optional form, a sensor that was not
    installed), complete rows take the pattern of an incomplete row, all in one fold.
    """
    n, d = missing.shape
    fold = np.where(missing, NO_FOLD, rng.integers(0, folds, (n, d)))
    incomplete, complete = np.flatnonzero(missing.any(axis=1)), np.flatnonzero(~missing.any(axis=1))
    if len(incomplete) and len(complete) >= 0.1 * n and _patterns_repeat(missing[incomplete]):
        pattern = missing[rng.choice(incomplete, len(complete))]
        fold[complete] = np.where(pattern, rng.integers(0, folds, len(complete))[:, None], NO_FOLD)
    return fold if leaders is None else fold[:, leaders]


def _patterns_repeat(missing: np.ndarray) -> bool:
    """Whether patterns of several missing values are much fewer than the rows that have them."""
    missing = missing[missing.sum(axis=1) > 1]
    if len(missing) < 10:
        return False
    packed = np.packbits(missing, axis=1)
    return len(np.unique(packed, axis=0)) < 0.1 * len(missing)


def missing_odds(missing: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Odds of each cell being missing, given its standardized and filled row; 1 in columns missing completely at random.

    Errors are known for observed cells and wanted for missing ones: under missingness at random (MAR), errors weighted by these
    odds are representative. One logistic regression a column on the others, all at once, with the bound X^T X / 4 on the
    Hessians, so that an iteration is two matrix products.
    """
    n, d = missing.shape
    share = missing.mean(axis=0)
    weights = np.ones((n, d))
    some = (share > 0) & (share < 1)
    if not some.any() or n < 10 * d:
        return weights
    X = np.clip(rows - rows.mean(axis=0), -4, 4)
    gram = X.T @ X / 4
    inverse = np.linalg.inv(gram + (1e-3 * np.trace(gram) / d + 1.0) * np.eye(d))
    threshold = d + SIGNIFICANCE * np.sqrt(2 * d)
    slopes = X.T @ (missing - share)
    score_test = (slopes * (inverse @ slopes)).sum(axis=0) / np.maximum(4 * share * (1 - share), 1e-300)
    some &= score_test > SCREENING * threshold  # an approximation of the likelihood ratio, from above
    if not some.any():
        return weights
    X, columns = X.astype(np.float32), np.flatnonzero(some)  # single precision suffices
    lack, part = missing[:, some], share[some]
    base = np.log(part / (1 - part))
    own = (inverse / np.diagonal(inverse))[:, some]
    shift, B = base.copy(), np.zeros((d, len(columns)))
    for _ in range(MAX_ITER):
        off = lack - _logistic(X @ B.astype(np.float32) + shift.astype(np.float32))
        shift = shift + 4 * off.mean(axis=0)
        step = inverse @ (X.T @ off - B)
        B = B + step - own * step[columns, np.arange(len(columns))]  # a column does not predict itself
    score = X @ B
    before, after = (-np.logaddexp(0, np.where(lack, -s, s)).sum(axis=0) for s in (base, score + shift))
    significant = 2 * (after - before) > threshold
    score, lack = score[:, significant], lack[:, significant]
    odds = np.exp(np.clip(score - score.mean(axis=0), -20, 20))
    odds /= np.maximum((odds * lack).sum(axis=0) / lack.sum(axis=0), 1e-300)
    weights[:, columns[significant]] = np.minimum(odds, MAX_ODDS)
    return weights


def _logistic(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))
