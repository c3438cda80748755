"""Multivariate normal model of a table: EM over the observed values, and conditional distributions of the missing ones.

With precision ``K = inv(S)``, the missing values m of a row given its observed ones o have mean ``mu_m - inv(K_mm) K_mo (x_o -
mu_o)`` and covariance ``inv(K_mm)``: small matrices, and one product of the table with K for all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .patterns import Patterns, fill_missing, find_patterns

MIN_VARIANCE = 1e-6  # relative: the least conditional variance of a column
MIN_EIGENVALUE = 0.02  # of the initial correlation matrix
MAX_SHRINKAGE = 0.1  # of the least conditional variance by one extrapolation; else the plain EM step is taken
ANDERSON_MEMORY = 5  # iterations that are combined
ANDERSON_RIDGE = 1e-8  # relative: bounds the coefficients where iterations are nearly collinear


class ObservedValues:
    """Observed values of an (n, d) table and their mask, as arrays for products: indexing costs several times as much."""

    def __init__(self, table: np.ndarray, missing: np.ndarray) -> None:
        self.missing = missing
        self.known = (~missing).astype(np.float64, order="C")
        self.values = np.ascontiguousarray(np.where(missing, 0.0, table))

    def centered(self, mean: np.ndarray) -> np.ndarray:
        """Observed values minus the mean, 0 where missing."""
        Z = self.known * mean
        return np.subtract(self.values, Z, out=Z)

    def filled(self, Z: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Observed values, and ``Z + mean`` where missing."""
        return np.asarray(self.values + self.missing * (Z + mean))


class Anderson:
    """Anderson acceleration of a fixed-point iteration, by least squares over the last few iterations.

    EM converges slowly where many values are missing: its error shrinks by nearly the same factor in each iteration.
    """

    def __init__(self, memory: int = ANDERSON_MEMORY) -> None:
        self.memory = memory
        self.outputs: list[np.ndarray] = []
        self.steps: list[np.ndarray] = []

    def __call__(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """The next iterate, given the last one and its image; the image itself in the first iteration."""
        self.outputs = [*self.outputs, after][-self.memory :]
        self.steps = [*self.steps, after - before][-self.memory :]
        if len(self.outputs) == 1:
            return after
        moves, changes = np.diff(self.outputs, axis=0), np.diff(self.steps, axis=0)
        gram = changes @ changes.T
        gram[np.diag_indices(len(gram))] += ANDERSON_RIDGE * np.trace(gram) + np.finfo(float).tiny
        return np.asarray(after - np.linalg.solve(gram, changes @ self.steps[-1]) @ moves)

    def restart(self) -> None:
        """Drop all iterations but the last."""
        self.outputs, self.steps = self.outputs[-1:], self.steps[-1:]


@dataclass(frozen=True)
class Gaussian:
    """Mean, covariance, and the number of EM iterations that fitted them."""

    mean: np.ndarray  # (d,)
    covariance: np.ndarray  # (d, d)
    n_iter: int = 0

    @property
    def rank(self) -> int:
        """Rank of the covariance: the number of columns."""
        return len(self.mean)

    def fill(self, table: np.ndarray, patterns: Patterns | None = None) -> np.ndarray:
        """The table with conditional means for its missing values (nan)."""
        return self.conditional(table, patterns, spread=False)[0]

    def conditional(
        self, table: np.ndarray, patterns: Patterns | None = None, spread: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The filled table, and the conditional standard deviations (0 where observed)."""
        missing = np.isnan(table)
        cells = ObservedValues(table, missing)
        Z = cells.centered(self.mean)
        K = inverse(self.covariance)
        deviations = np.zeros_like(Z) if spread else None
        fill_missing(K, Z @ K, Z, find_patterns(missing) if patterns is None else patterns, deviations=deviations)
        return cells.filled(Z, self.mean), deviations

    def draw(self, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The table with missing values drawn from their conditional distribution."""
        missing = np.isnan(table)
        cells = ObservedValues(table, missing)
        Z = cells.centered(self.mean)
        K = inverse(self.covariance)
        patterns = find_patterns(missing)
        fill_missing(K, Z @ K, Z, patterns)
        for batch in patterns.batches:
            root = np.linalg.cholesky(K[batch.columns[:, :, None], batch.columns[:, None, :]])
            noise = rng.standard_normal((len(batch.rows), batch.columns.shape[1], 1))
            errors = np.linalg.solve(batch.each(np.swapaxes(root, 1, 2)), noise)  # covariance inv(root root^T)
            Z[batch.rows[:, None], batch.columns[batch.pattern]] += errors[:, :, 0]
        return cells.filled(Z, self.mean)


def fit_gaussian(
    table: np.ndarray,
    regularization: float = 1.0,
    *,
    start: Gaussian | None = None,
    patterns: Patterns | None = None,
    max_iter: int = 60,
    tol: float = 2e-3,
) -> Gaussian:
    """Mean and covariance of a table with missing values, by accelerated EM.

    Parameters
    ----------
    table : (n, d) array
        With nan for missing values; columns of about unit variance.
    regularization : float
        Number of pseudo-rows with uncorrelated columns that shrink the correlations.
    start : Gaussian, optional
        Initial estimate; pairwise covariances by default.
    patterns : Patterns, optional
        Missingness patterns of the table, where they are known already.
    max_iter : int
    tol : float
        Stop once no correlation changes by more than this.
    """
    missing = np.isnan(table)
    patterns = find_patterns(missing) if patterns is None else patterns
    cells = ObservedValues(table, missing)
    start = pairwise_start(cells, regularization) if start is None else start
    mean, S = start.mean, start.covariance
    scale = np.sqrt(np.maximum(np.diagonal(S), MIN_VARIANCE))
    accelerate = Anderson()
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        after = em_step(cells, patterns, mean, S, regularization)
        if _largest_change(after[1], S) < tol or n_iter == max_iter:
            mean, S = after
            break
        further = _unpack(accelerate(_pack(mean, S, scale), _pack(*after, scale)), scale)
        if _least_conditional_variance(further[1]) < MAX_SHRINKAGE * _least_conditional_variance(after[1]):
            accelerate.restart()
            further = after
        mean, S = further
    return Gaussian(mean, S, n_iter)


def em_step(
    cells: ObservedValues, patterns: Patterns, mean: np.ndarray, S: np.ndarray, regularization: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance after one EM iteration."""
    K = inverse(S)
    Z = cells.centered(mean)
    extra = np.zeros(S.shape)
    fill_missing(K, Z @ K, Z, patterns, moments=extra)
    shift = Z.mean(axis=0)
    moments = (Z.T @ Z + extra) / len(Z) - np.outer(shift, shift)
    return mean + shift, shrink_correlations(moments, regularization, len(Z))


def pairwise_start(cells: ObservedValues, regularization: float) -> Gaussian:
    """Covariances from the rows that have both columns, made positive definite."""
    known = cells.known
    counts = np.maximum(known.sum(axis=0), 1)
    mean = cells.values.sum(axis=0) / counts
    Z = cells.centered(mean)
    scale = np.sqrt(np.maximum((Z**2).sum(axis=0) / counts, MIN_VARIANCE))
    R = (Z.T @ Z) / (np.maximum(known.T @ known + regularization, 1) * np.outer(scale, scale))
    R[np.diag_indices(len(R))] = 1.0
    w, V = np.linalg.eigh(R)
    if w[0] < MIN_EIGENVALUE:
        R = (V * np.maximum(w, MIN_EIGENVALUE)) @ V.T
        root = np.sqrt(np.diagonal(R))
        R = R / np.outer(root, root)
    return Gaussian(mean, R * np.outer(scale, scale))


def shrink_correlations(moments: np.ndarray, regularization: float, n: int) -> np.ndarray:
    """The covariance with correlations scaled by ``n / (n + regularization)`` and the same variances."""
    variance = np.maximum(np.diagonal(moments), MIN_VARIANCE)
    S = moments * (n / (n + regularization))
    S[np.diag_indices(len(S))] = variance * (1 + MIN_VARIANCE)
    return (S + S.T) / 2


def inverse(S: np.ndarray) -> np.ndarray:
    """Inverse of a covariance; eigenvalues have a floor where rounding has made it singular."""
    try:
        L = np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        w, V = np.linalg.eigh(S)
        floor = 1e-8 * max(float(w[-1]), MIN_VARIANCE)
        return np.asarray((V / np.maximum(w, floor)) @ V.T)
    half = np.linalg.inv(L)
    return np.asarray(half.T @ half)


def _largest_change(new: np.ndarray, old: np.ndarray) -> float:
    scale = np.sqrt(np.diagonal(new))
    return float(np.abs((new - old) / np.outer(scale, scale)).max())


def _least_conditional_variance(S: np.ndarray) -> float:
    """Least share of a column's variance that the columns before it do not explain; 0 where S is not positive definite."""
    diagonal = np.diagonal(S)
    if not (diagonal > 0).all():
        return 0.0
    try:
        return float(np.min(np.diagonal(np.linalg.cholesky(S)) ** 2 / diagonal))
    except np.linalg.LinAlgError:
        return 0.0


def _pack(mean: np.ndarray, S: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Mean and upper triangle of the covariance as one vector, in units of ``scale``."""
    return np.concatenate([mean / scale, (S / np.outer(scale, scale))[np.triu_indices(len(S))]])


def _unpack(vector: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    d = len(scale)
    S = np.zeros((d, d))
    S[np.triu_indices(d)] = vector[d:]
    S = S + np.triu(S, 1).T
    return vector[:d] * scale, S * np.outer(scale, scale)
