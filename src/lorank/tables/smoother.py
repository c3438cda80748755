"""Dynamic factor model: columns are a few factors plus noise, and each factor is a first-order autoregression in time.

A factor has unit variance, ``z(t) = phi^dt z(t - dt) + sqrt(1 - phi^(2 dt)) e``. The posterior means of all factors given all
observed values solve one block-tridiagonal linear system, by a banded Cholesky factorization: the result of a Kalman filter and
a Rauch-Tung-Striebel smoother. Rows without any observed value need no special treatment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded

MAX_FACTORS = 6
EXPLAINED_VARIANCE = 0.9  # share of the columns' variance that determines the number of factors
MAX_AUTOCORRELATION = 0.999


@dataclass(frozen=True)
class Smoother:
    """Parameters of a dynamic factor model."""

    mean: np.ndarray  # (d,)
    loadings: np.ndarray  # (d, r)
    noise: np.ndarray  # (d,) variances
    autocorrelation: np.ndarray  # (r,): phi of each factor over one typical step

    def factors(self, table: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Posterior means of the factors, an (n, r) array, given the n - 1 times between rows in typical steps."""
        n, r = len(table), len(self.autocorrelation)
        known = ~np.isnan(table)
        weighted = self.loadings / self.noise[:, None]
        outer = (weighted[:, :, None] * self.loadings[:, None, :]).reshape(len(self.noise), r * r)
        own = (known.astype(np.float64) @ outer).reshape(n, r, r)
        right = np.where(known, table - self.mean, 0.0) @ weighted
        phi = self.autocorrelation ** np.maximum(steps, 1e-6)[:, None]
        precision = 1 / (1 - phi**2)  # of the innovations
        diagonal = np.ones((n, r))  # of the prior's precision: the first row, and each transition
        diagonal[1:] += precision - 1
        diagonal[:-1] += phi**2 * precision
        at = np.arange(r)
        own[:, at, at] += diagonal
        if n == 1:  # no band
            return np.asarray(np.linalg.solve(own[0], right[0])[None])
        band = np.zeros((r + 1, n * r))  # upper form: band[r - (j - i), j] = A[i, j]
        for i in range(r):
            for j in range(i, r):
                band[r - (j - i), j::r] = own[:, i, j]
        band[0, r:] = -(phi * precision).ravel()
        return np.asarray(solveh_banded(band, right.ravel(), check_finite=False).reshape(n, r))

    def __call__(self, table: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Posterior means of all cells without noise: an (n, d) array."""
        return np.asarray(self.mean + self.factors(table, steps) @ self.loadings.T)


def fit_smoother(mean: np.ndarray, covariance: np.ndarray, filled: np.ndarray) -> Smoother:
    """Loadings from the leading eigenvectors of a covariance, and autocorrelations of their scores in a filled (n, d) table."""
    w, V = np.linalg.eigh(covariance)
    w, V = w[::-1], V[:, ::-1]
    d = len(w)
    enough = int(np.searchsorted(np.cumsum(w) / w.sum(), EXPLAINED_VARIANCE)) + 1
    rank = max(1, min(enough, MAX_FACTORS, d - 1))
    rest = max(float(w[rank:].mean()) if rank < d else 0.0, 1e-3 * float(w[0]))
    loadings = V[:, :rank] * np.sqrt(np.maximum(w[:rank] - rest, 1e-6 * w[0]))
    noise = np.maximum(np.diagonal(covariance) - (loadings**2).sum(axis=1), 1e-2 * np.diagonal(covariance))
    score = (filled - mean) @ V[:, :rank]
    score = score - score.mean(axis=0)
    size = np.maximum((score**2).mean(axis=0), 1e-300)
    lagged = (score[1:] * score[:-1]).sum(axis=0) / max(len(score) - 1, 1)  # 0 for a single row
    return Smoother(mean, loadings, noise, np.clip(lagged / size, 1e-3, MAX_AUTOCORRELATION))
