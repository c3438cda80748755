"""A table as draws from one Gaussian: its mean and covariance by expectation-maximisation, and what they say about gaps.

With precision ``K = inv(S)``, a row with missing cells m and known cells o has the conditional mean ``mu_m - inv(K_mm) K_mo
(x_o - mu_o)`` and covariance ``inv(K_mm)``: small matrices of the gaps alone, and one product of the table with K for all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .patterns import Batch, batches

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

    def fill(self, table: np.ndarray, groups: list[Batch] | None = None) -> np.ndarray:
        """Conditional means in the gaps (nan) of an (n, d) table; what is known stays."""
        return self.conditional(table, groups, spread=False)[0]

    def conditional(
        self, table: np.ndarray, groups: list[Batch] | None = None, spread: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The filled table, and the standard deviations in its gaps (0 elsewhere)."""
        missing = np.isnan(table)
        groups = batches(missing) if groups is None else groups
        Z = np.where(missing, 0.0, table - self.mean)
        K = _inverse(self.covariance)
        deviation = np.zeros_like(Z) if spread else None
        G = Z @ K
        for batch in groups:
            inverse = _conditional(K, G, Z, batch)
            if deviation is not None:
                variance = np.sqrt(np.maximum(np.diagonal(inverse, axis1=1, axis2=2), 0))
                deviation[batch.rows[:, None], batch.gaps[batch.pattern]] = variance[batch.pattern]
        filled = Z + self.mean
        filled[~missing] = table[~missing]
        return filled, deviation

    def draw(self, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws from the conditional distribution of the gaps."""
        missing = np.isnan(table)
        Z = np.where(missing, 0.0, table - self.mean)
        K = _inverse(self.covariance)
        G = Z @ K
        for batch in batches(missing):
            inverse = _conditional(K, G, Z, batch)
            root = np.linalg.cholesky(inverse)
            where = batch.rows[:, None], batch.gaps[batch.pattern]
            noise = rng.standard_normal((len(batch.rows), batch.gaps.shape[1], 1))
            Z[where] += (batch.each(root) @ noise)[:, :, 0]
        filled = Z + self.mean
        filled[~missing] = table[~missing]
        return filled


def fit_gaussian(
    table: np.ndarray,
    strength: float = 1.0,
    *,
    start: Gaussian | None = None,
    groups: list[Batch] | None = None,
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
    groups : list of Batch, optional
        The rows' patterns, where they are known already.
    max_iter : int
    tol : float
        Stop once no correlation changes by more than this.
    """
    missing = np.isnan(table)
    groups = batches(missing) if groups is None else groups
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
        Z = np.where(missing, 0.0, table - mean)
        G = Z @ K
        extra = np.zeros(d * d)
        for batch in groups:
            inverse = _conditional(K, G, Z, batch)
            flat = batch.gaps[:, :, None] * d + batch.gaps[:, None, :]
            weighted = inverse if len(batch.rows) == len(batch.gaps) else inverse * batch.counts[:, None, None]
            extra += np.bincount(flat.ravel(), weighted.ravel(), d * d)
        shift = Z.mean(axis=0)
        moments = (Z.T @ Z + extra.reshape(d, d)) / n - np.outer(shift, shift)
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


def _conditional(K: np.ndarray, G: np.ndarray, Z: np.ndarray, batch: Batch) -> np.ndarray:
    """Put the conditional means of a batch into Z; returns the covariances of its patterns."""
    gaps = batch.gaps
    inverse = np.linalg.inv(K[gaps[:, :, None], gaps[:, None, :]])
    where = batch.rows[:, None], gaps[batch.pattern]
    Z[where] = -(batch.each(inverse) @ G[where][:, :, None])[:, :, 0]
    return inverse


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
