"""Where gaps are: how much likelier a cell is missing than known, given the rest of its row.

Errors are known at known cells, and wanted at missing ones. Where what is missing depends on what is known, cells that look
like gaps must count more: by their odds of being missing.
"""

from __future__ import annotations

import numpy as np

STEPS = 12  # of the regressions
MOST = 12.0  # an odd over that of the average gap's
CLEAR = 4.0  # standard deviations of what chance would explain
SCREEN = 0.7  # of that: columns whose slopes at the start promise less are not regressed


def odds_of_gaps(missing: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Weights of the cells of a table, 1 in columns whose gaps are here and there by chance: an (n, d) array.

    One logistic regression for each column, on the others; all together, with one bound on their second derivatives
    (X^T X / 4), so that every step is two products of matrices.

    Parameters
    ----------
    missing : (n, d) Boolean array
    rows : (n, d) array
        Filled, of about mean 0 and variance 1.
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
    own = np.diagonal(inverse)
    enough = d + CLEAR * np.sqrt(2 * d)
    at_most = _score_test(X.T @ (missing - share), inverse, share)
    some &= at_most > SCREEN * enough
    if not some.any():
        return weights
    X, off_column = X.astype(np.float32), np.flatnonzero(some)  # single precision: odds are rough
    lack, part = missing[:, some], share[some]
    base = np.log(part / (1 - part))
    alone = (inverse / own)[:, some]
    shift, B = base.copy(), np.zeros((d, len(off_column)))
    for _ in range(STEPS):
        off = lack - _logistic(X @ B.astype(np.float32) + shift.astype(np.float32))
        shift = shift + 4 * off.mean(axis=0)
        step = inverse @ (X.T @ off - B)
        B = B + step - alone * step[off_column, np.arange(len(off_column))]  # a column says nothing about itself
    score = X @ B
    before, after = (-np.logaddexp(0, np.where(lack, -s, s)).sum(axis=0) for s in (base, score + shift))
    sure = 2 * (after - before) > enough
    score, lack, clear = score[:, sure], lack[:, sure], off_column[sure]
    odds = np.exp(np.clip(score - score.mean(axis=0), -20, 20))
    odds /= np.maximum((odds * lack).sum(axis=0) / lack.sum(axis=0), 1e-300)
    weights[:, clear] = np.minimum(odds, MOST)
    return weights


def _score_test(slopes: np.ndarray, inverse: np.ndarray, share: np.ndarray) -> np.ndarray:
    """What the regressions will explain, about, from the slopes of their likelihoods where nothing is explained yet.

    ``inverse`` is that of a fourth of the sums of squares, of which ``share (1 - share)`` counts for a column. A column's own
    slope is left in: it only adds to what is promised.
    """
    return np.asarray((slopes * (inverse @ slopes)).sum(axis=0) / np.maximum(4 * share * (1 - share), 1e-300))


def _logistic(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))
