"""A table as draws from one Gaussian: its mean and covariance by expectation-maximisation, and what they say about gaps.

With precision ``K = inv(S)``, a row with missing cells m and known cells o has the conditional mean ``mu_m - inv(K_mm) K_mo
(x_o - mu_o)`` and covariance ``inv(K_mm)``: small matrices of the gaps alone, and one product of the table with K for all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .anderson import Anderson
from .patterns import Patterns, fill_gaps, find_patterns

FLOOR = 1e-6  # of the variances, relative: the least that a column keeps to itself
LEAST = 0.02  # eigenvalue of the correlations that a fit starts from
CAREFUL = 0.1  # of what a column keeps to itself: a round is not gone beyond to where less of it would be left


class Cells:
    """A table's known cells, as products instead of choices: those cost several times as much.

    Parameters
    ----------
    table : (n, d) array
        With nan in the gaps.
    missing : (n, d) Boolean array
    """

    def __init__(self, table: np.ndarray, missing: np.ndarray) -> None:
        self.missing = missing
        self.known = (~missing).astype(np.float64, order="C")
        self.values = np.ascontiguousarray(np.where(missing, 0.0, table))

    def less(self, mean: np.ndarray) -> np.ndarray:
        """The known cells without the mean, 0 in the gaps."""
        Z = self.known * mean
        return np.subtract(self.values, Z, out=Z)

    def with_gaps(self, Z: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The known cells as they are, and in the gaps Z and the mean."""
        return np.asarray(self.values + self.missing * (Z + mean))


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
        cells = Cells(table, missing)
        Z = cells.less(self.mean)
        K = _inverse(self.covariance)
        deviations = np.zeros_like(Z) if spread else None
        fill_gaps(K, Z @ K, Z, find_patterns(missing) if patterns is None else patterns, deviations=deviations)
        return cells.with_gaps(Z, self.mean), deviations

    def draw(self, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws from the conditional distribution of the gaps."""
        missing = np.isnan(table)
        cells = Cells(table, missing)
        Z = cells.less(self.mean)
        K = _inverse(self.covariance)
        patterns = find_patterns(missing)
        fill_gaps(K, Z @ K, Z, patterns)
        for batch in patterns.batches:
            root = np.linalg.cholesky(K[batch.gaps[:, :, None], batch.gaps[:, None, :]])
            noise = rng.standard_normal((len(batch.rows), batch.gaps.shape[1], 1))
            half = np.linalg.solve(batch.each(np.swapaxes(root, 1, 2)), noise)  # of covariance inv(root root^T)
            Z[batch.rows[:, None], batch.gaps[batch.pattern]] += half[:, :, 0]
        return cells.with_gaps(Z, self.mean)


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
    cells = Cells(table, missing)
    start = _pairwise(cells, strength) if start is None else start
    mean, S = start.mean, start.covariance
    scale = np.sqrt(np.maximum(np.diagonal(S), FLOOR))
    ahead = Anderson()
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        after = _round(cells, patterns, mean, S, strength)
        if _change(after[1], S) < tol or n_iter == max_iter:
            mean, S = after
            break
        further = _unpacked(ahead(_packed(mean, S, scale), _packed(*after, scale)), scale)
        if _least_share(further[1]) < CAREFUL * _least_share(after[1]):
            ahead.forget()
            further = after
        mean, S = further
    return Gaussian(mean, S, n_iter)


def _round(cells: Cells, patterns: Patterns, mean: np.ndarray, S: np.ndarray, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """One round of expectation and maximisation."""
    K = _inverse(S)
    Z = cells.less(mean)
    extra = np.zeros(S.shape)
    fill_gaps(K, Z @ K, Z, patterns, moments=extra)
    shift = Z.mean(axis=0)
    moments = (Z.T @ Z + extra) / len(Z) - np.outer(shift, shift)
    return mean + shift, shrunk(moments, strength, len(Z))


def _pairwise(cells: Cells, strength: float) -> Gaussian:
    """A start: each covariance from the rows that have both columns, made positive definite."""
    known = cells.known
    counts = np.maximum(known.sum(axis=0), 1)
    mean = cells.values.sum(axis=0) / counts
    Z = cells.less(mean)
    scale = np.sqrt(np.maximum((Z**2).sum(axis=0) / counts, FLOOR))
    R = (Z.T @ Z) / (np.maximum(known.T @ known + strength, 1) * np.outer(scale, scale))
    R[np.diag_indices(len(R))] = 1.0
    w, V = np.linalg.eigh(R)
    if w[0] < LEAST:
        R = (V * np.maximum(w, LEAST)) @ V.T
        root = np.sqrt(np.diagonal(R))
        R = R / np.outer(root, root)
    return Gaussian(mean, R * np.outer(scale, scale))


def shrunk(moments: np.ndarray, strength: float, n: int) -> np.ndarray:
    """A covariance whose correlations are made smaller, and whose variances stay."""
    variance = np.maximum(np.diagonal(moments), FLOOR)
    S = moments * (n / (n + strength))
    S[np.diag_indices(len(S))] = variance * (1 + FLOOR)
    return (S + S.T) / 2


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


def _least_share(S: np.ndarray) -> float:
    """The least share of a column's variance that those before it leave over; 0 where S is not positive definite."""
    diagonal = np.diagonal(S)
    if not (diagonal > 0).all():
        return 0.0
    try:
        return float(np.min(np.diagonal(np.linalg.cholesky(S)) ** 2 / diagonal))
    except np.linalg.LinAlgError:
        return 0.0


def _packed(mean: np.ndarray, S: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Both as one vector, in units of ``scale``."""
    return np.concatenate([mean / scale, (S / np.outer(scale, scale))[np.triu_indices(len(S))]])


def _unpacked(vector: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    d = len(scale)
    S = np.zeros((d, d))
    S[np.triu_indices(d)] = vector[d:]
    S = S + np.triu(S, 1).T
    return vector[:d] * scale, S * np.outer(scale, scale)
