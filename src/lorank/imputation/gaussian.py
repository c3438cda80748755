"""A table as draws from one Gaussian: its mean and covariance by expectation-maximisation, and what they say about gaps.

With precision ``K = inv(S)``, a row with missing cells m and known cells o has the conditional mean ``mu_m - inv(K_mm) K_mo
(x_o - mu_o)`` and covariance ``inv(K_mm)``: small matrices of the gaps alone, and one product of the table with K for all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .patterns import Patterns, fill_gaps, find_patterns

FLOOR = 1e-6  # of the variances, relative: the least that a column keeps to itself


@dataclass(frozen=True)
class Gaussian:
    """A mean and a covariance.

    Attributes
    ----------
    mean : (d,) array
    covariance : (d, d) array
    n_iter : int
        Rounds of expectation and maximisation.
    """

    mean: np.ndarray
    covariance: np.ndarray
    n_iter: int = 0

    def fill(self, table: np.ndarray, patterns: Patterns | None = None) -> np.ndarray:
        """Conditional means in the gaps (nan) of an (n, d) table; what is known stays."""
        return self.conditional(table, patterns, spread=False)[0]

    def conditional(
        self, table: np.ndarray, patterns: Patterns | None = None, spread: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The filled table, and the standard deviations in its gaps (0 elsewhere)."""
        missing = np.isnan(table)
        Z = _centred(table, missing, self.mean)
        K = _inverse(self.covariance)
        deviations = np.zeros_like(Z) if spread else None
        fill_gaps(K, Z @ K, Z, find_patterns(missing) if patterns is None else patterns, deviations=deviations)
        return np.where(missing, Z + self.mean, table), deviations

    def draw(self, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws from the conditional distribution of the gaps."""
        missing = np.isnan(table)
        Z = _centred(table, missing, self.mean)
        K = _inverse(self.covariance)
        patterns = find_patterns(missing)
        fill_gaps(K, Z @ K, Z, patterns)
        for batch in patterns.batches:
            root = np.linalg.cholesky(K[batch.gaps[:, :, None], batch.gaps[:, None, :]])
            noise = rng.standard_normal((len(batch.rows), batch.gaps.shape[1], 1))
            half = np.linalg.solve(batch.each(np.swapaxes(root, 1, 2)), noise)  # of covariance inv(root root^T)
            Z[batch.rows[:, None], batch.gaps[batch.pattern]] += half[:, :, 0]
        return np.where(missing, Z + self.mean, table)


def fit_gaussian(
    table: np.ndarray,
    strength: float = 1.0,
    *,
    start: Gaussian | None = None,
    patterns: Patterns | None = None,
    max_iter: int = 60,
    tol: float = 2e-3,
) -> Gaussian:
    """Mean and covariance of a table with gaps.

    Parameters
    ----------
    table : (n, d) array
        With nan in the gaps; columns of about unit variance.
    strength : float
        Correlations are shrunk towards none as by that many rows whose columns have nothing in common.
    start : Gaussian, optional
    patterns : Patterns, optional
        The rows' gaps, where they are known already.
    max_iter : int
    tol : float
        Stop once no correlation changes by more than this.
    """
    missing = np.isnan(table)
    patterns = find_patterns(missing) if patterns is None else patterns
    n, d = table.shape
    known = np.maximum((~missing).sum(axis=0), 1)
    if start is None:
        mean = np.where(missing, 0.0, table).sum(axis=0) / known
        variance = (np.where(missing, 0.0, table - mean) ** 2).sum(axis=0) / known
        start = Gaussian(mean, np.diag(np.maximum(variance, FLOOR)))
    mean, S = start.mean, start.covariance
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        K = _inverse(S)
        Z = _centred(table, missing, mean)
        extra = np.zeros((d, d))
        fill_gaps(K, Z @ K, Z, patterns, moments=extra)
        shift = Z.mean(axis=0)
        moments = (Z.T @ Z + extra) / n - np.outer(shift, shift)
        new = shrunk(moments, strength, n)
        change = _change(new, S)
        mean, S = mean + shift, new
        if change < tol and n_iter > 1:
            break
    return Gaussian(mean, S, n_iter)


def shrunk(moments: np.ndarray, strength: float, n: int) -> np.ndarray:
    """A covariance whose correlations are made smaller, and whose variances stay."""
    variance = np.maximum(np.diagonal(moments), FLOOR)
    S = moments * (n / (n + strength))
    S[np.diag_indices(len(S))] = variance * (1 + FLOOR)
    return (S + S.T) / 2


def _centred(table: np.ndarray, missing: np.ndarray, mean: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.where(missing, 0.0, table - mean))


def _inverse(S: np.ndarray) -> np.ndarray:
    """Of a covariance; made a little larger on the diagonal where rounding has made it singular."""
    try:
        L = np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        w, V = np.linalg.eigh(S)
        floor = 1e-8 * max(float(w[-1]), FLOOR)
        return np.asarray((V / np.maximum(w, floor)) @ V.T)
    half = np.linalg.inv(L)
    return np.asarray(half.T @ half)


def _change(new: np.ndarray, old: np.ndarray) -> float:
    scale = np.sqrt(np.diagonal(new))
    return float(np.abs((new - old) / np.outer(scale, scale)).max())
