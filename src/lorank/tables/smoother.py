"""Factors that follow each other in time: columns are a few factors and noise, and each factor keeps a share of itself from row
to row.

A factor is an autoregression of unit variance, ``z(t) = phi^dt z(t - dt) + sqrt(1 - phi^(2 dt)) e``. Given the known cells of
all rows, the means of all factors solve one linear system whose matrix is block tridiagonal: what a Kalman filter and a
Rauch-Tung-Striebel smoother find row by row, by one banded Cholesky factorisation. Rows without any known cell need no care.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded

MOST = 6  # factors
SHARE = 0.9  # of the columns' common variance that they hold, at the least, unless there are so many
STILL = 0.999  # the largest share that a factor keeps


@dataclass(frozen=True)
class Smoother:
    """Factors along time.

    Attributes
    ----------
    mean : (d,) array
    loadings : (d, r) array
    noise : (d,) array
        Variances that columns keep to themselves.
    kept : (r,) array
        The share phi of itself that a factor keeps over one typical step.
    """

    mean: np.ndarray
    loadings: np.ndarray
    noise: np.ndarray
    kept: np.ndarray

    def factors(self, table: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Their means given all known cells: an (n, r) array.

        Parameters
        ----------
        table : (n, d) array
            With nan in the gaps, in the order of time.
        steps : (n - 1,) array
            From row to row, in typical steps.
        """
        n, r = len(table), len(self.kept)
        known = ~np.isnan(table)
        weighted = self.loadings / self.noise[:, None]
        outer = (weighted[:, :, None] * self.loadings[:, None, :]).reshape(len(self.noise), r * r)
        own = (known.astype(np.float64) @ outer).reshape(n, r, r)
        right = np.where(known, table - self.mean, 0.0) @ weighted
        phi = self.kept ** np.maximum(steps, 1e-6)[:, None]
        fresh = 1 / (1 - phi**2)
        diagonal = np.ones((n, r))  # of the prior's precision: the first row, and what each transition adds
        diagonal[1:] += fresh - 1
        diagonal[:-1] += phi**2 * fresh
        at = np.arange(r)
        own[:, at, at] += diagonal
        if n == 1:  # no band
            return np.asarray(np.linalg.solve(own[0], right[0])[None])
        band = np.zeros((r + 1, n * r))  # upper form: band[r - (j - i), j] = A[i, j]
        for i in range(r):
            for j in range(i, r):
                band[r - (j - i), j::r] = own[:, i, j]
        band[0, r:] = -(phi * fresh).ravel()
        return np.asarray(solveh_banded(band, right.ravel(), check_finite=False).reshape(n, r))

    def __call__(self, table: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """What the factors say about every cell: an (n, d) array."""
        return np.asarray(self.mean + self.factors(table, steps) @ self.loadings.T)


def fit_smoother(mean: np.ndarray, covariance: np.ndarray, filled: np.ndarray) -> Smoother:
    """Loadings from the leading directions of a covariance, and how much factors keep from a table that was filled with it.

    Parameters
    ----------
    mean : (d,) array
    covariance : (d, d) array
    filled : (n, d) array
        In the order of time.
    """
    w, V = np.linalg.eigh(covariance)
    w, V = w[::-1], V[:, ::-1]
    d = len(w)
    rank = int(np.clip(np.searchsorted(np.cumsum(w) / w.sum(), SHARE) + 1, 1, min(MOST, max(d - 1, 1))))
    rest = max(float(w[rank:].mean()) if rank < d else 0.0, 1e-3 * float(w[0]))
    loadings = V[:, :rank] * np.sqrt(np.maximum(w[:rank] - rest, 1e-6 * w[0]))
    noise = np.maximum(np.diagonal(covariance) - (loadings**2).sum(axis=1), 1e-2 * np.diagonal(covariance))
    score = (filled - mean) @ V[:, :rank]
    score = score - score.mean(axis=0)
    size = np.maximum((score**2).mean(axis=0), 1e-300)
    together = (score[1:] * score[:-1]).sum(axis=0) / max(len(score) - 1, 1)  # 0 of a single row
    kept = np.clip(together / size, 1e-3, STILL)
    return Smoother(mean, loadings, noise, kept)
