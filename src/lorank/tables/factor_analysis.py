"""Factor analysis of a wide table: covariance ``W W^T + diag(noise)``, by EM over the observed values.

The factors of a row with observed columns o have precision ``M = I + W_o^T diag(1 / noise_o) W_o``. All these r x r matrices
are one product of the observation mask with the outer products of the loadings, so that the cost is linear in the number of
columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .patterns import Patterns

RIDGE = 1.0  # on the loadings, in rows of standard normal factors
MIN_NOISE = 1e-4  # of the variances
RANKS = (1, 2, 4, 8, 16, 32)
MIN_GAIN = 3e-3  # relative reduction of the squared error by which a larger rank is preferred
DENSE_SVD_SIZE = 64  # rows or columns up to which a dense SVD is used
BLOCK = 1 << 22  # numbers in the r x r matrices of a block of rows


@dataclass(frozen=True)
class MaskedTable:
    """A table with missing values, stored for matrix products."""

    values: np.ndarray  # (n, d), 0 where missing
    incomplete: np.ndarray  # (d,) Boolean: columns with missing values
    mask: np.ndarray  # (n, k): 1 where such a column is observed, 0 where not

    @classmethod
    def of(cls, table: np.ndarray) -> MaskedTable:
        known = ~np.isnan(table)
        incomplete = ~known.all(axis=0)
        return cls(np.where(known, table, 0.0), incomplete, known[:, incomplete].astype(np.float64))

    def centered_times(self, mean: np.ndarray, W: np.ndarray) -> np.ndarray:
        """``(known * (table - mean)) @ W``."""
        shift = mean[:, None] * W
        return np.asarray(self.values @ W - self.mask @ shift[self.incomplete] - shift[~self.incomplete].sum(axis=0))

    def known_sums(self, z: np.ndarray) -> np.ndarray:
        """``known^T z``: sums over the rows in which a column is observed."""
        found = np.tile(z.sum(axis=0), (len(self.incomplete), 1))
        found[self.incomplete] = self.mask.T @ z
        return found

    def outer_sums(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """``sum_j known_ij left_j right_j^T`` for each row i, an (n, r, r) array of symmetric matrices.

        Complete columns are summed once for all rows; of the others' products only the upper triangle is computed.
        """
        r, some = left.shape[1], self.incomplete
        upper = np.triu_indices(r)
        products = left[some][:, upper[0]] * right[some][:, upper[1]]
        return _symmetric(self.mask @ products, r) + left[~some].T @ right[~some]


@dataclass(frozen=True)
class FactorAnalysis:
    """Mean, loadings and noise variances, with the interface of :class:`~lorank.tables.gaussian.Gaussian`."""

    mean: np.ndarray  # (d,)
    loadings: np.ndarray  # (d, r)
    noise: np.ndarray  # (d,)
    n_iter: int = 0

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.loadings.shape[1])

    @property
    def covariance(self) -> np.ndarray:
        """``W W^T + diag(noise)``, a (d, d) array."""
        return self.loadings @ self.loadings.T + np.diag(self.noise)

    def factors(self, table: MaskedTable) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means and covariances of the rows' factors: (n, r) and (n, r, r) arrays."""
        weighted = self.loadings / self.noise[:, None]
        covariance = np.linalg.inv(table.outer_sums(weighted, self.loadings) + np.eye(self.rank))
        score = table.centered_times(self.mean, weighted)
        return (covariance @ score[:, :, None])[:, :, 0], covariance

    def fill(self, table: np.ndarray, patterns: Patterns | None = None) -> np.ndarray:
        """The table with conditional means for its missing values (nan)."""
        return self.conditional(table, patterns, spread=False)[0]

    def conditional(
        self, table: np.ndarray, patterns: Patterns | None = None, spread: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The filled table, and the conditional standard deviations (0 where observed)."""
        filled, W = table.copy(), self.loadings
        deviation = np.zeros_like(filled) if spread else None
        step = max(1, BLOCK // self.rank**2)
        for at in range(0, len(table), step):
            rows = slice(at, at + step)
            missing = np.isnan(table[rows])
            mean, covariance = self.factors(MaskedTable.of(table[rows]))
            filled[rows][missing] = (self.mean + mean @ W.T)[missing]
            if deviation is not None:
                outer = (W[:, :, None] * W[:, None, :]).reshape(len(W), -1)
                variance = covariance.reshape(len(mean), -1) @ outer.T + self.noise
                deviation[rows] = np.where(missing, np.sqrt(np.maximum(variance, 0)), 0.0)
        return filled, deviation

    def draw(self, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The table with missing values drawn from their conditional distribution."""
        mean, covariance = self.factors(MaskedTable.of(table))
        noise = rng.standard_normal((*mean.shape, 1))
        factors = mean + (np.linalg.cholesky(covariance) @ noise)[:, :, 0]
        drawn = self.mean + factors @ self.loadings.T + np.sqrt(self.noise) * rng.standard_normal(table.shape)
        return np.where(np.isnan(table), drawn, table)


def fit_factor_analysis(
    table: np.ndarray, rank: int, *, start: FactorAnalysis | None = None, max_iter: int = 40, tol: float = 2e-3
) -> FactorAnalysis:
    """Mean, loadings and noise of a table with missing values, by EM.

    Parameters
    ----------
    table : (n, d) array
        With nan for missing values; columns of about unit variance.
    rank : int
    start : FactorAnalysis, optional
        Initial estimate of the same or a smaller rank; singular vectors of its residuals are added as factors.
    max_iter : int
    tol : float
        Stop once no noise variance changes by more than this share of the column's variance.
    """
    known, cells, upper = ~np.isnan(table), MaskedTable.of(table), np.triu_indices(rank)
    number = known.sum(axis=0)
    counts = np.maximum(number, 1)
    some, total, squares = cells.incomplete, cells.values.sum(axis=0), (cells.values**2).sum(axis=0)
    model = start or _without_factors(table, known, counts)
    if rank > model.rank:
        model = _with_more_factors(table, known, model, rank)
    mean, W, noise = model.mean, model.loadings, model.noise
    variance = (np.where(known, table - mean, 0.0) ** 2).sum(axis=0) / counts
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        z, covariance = FactorAnalysis(mean, W, noise).factors(cells)
        second = covariance + z[:, :, None] * z[:, None, :]
        A = np.broadcast_to(second.sum(axis=0), (len(W), rank, rank)).copy()  # for complete columns
        A[some] = _symmetric(cells.mask.T @ second[:, upper[0], upper[1]], rank)
        A += RIDGE * np.eye(rank)
        sums = cells.known_sums(z)
        b = cells.values.T @ z - mean[:, None] * sums
        W = np.linalg.solve(A, b[:, :, None])[:, :, 0]
        centered = np.maximum(squares - 2 * mean * total + number * mean**2, 0.0)
        new = np.maximum((centered - (W * b).sum(axis=1)) / counts, MIN_NOISE * np.maximum(variance, MIN_NOISE))
        mean = np.where(number > 0, (total - (W * sums).sum(axis=1)) / counts, mean)
        W = W @ np.linalg.cholesky(second.mean(axis=0))  # rescale factors to unit variance, which speeds up convergence
        change = float(np.max(np.abs(new - noise) / np.maximum(variance, MIN_NOISE)))
        noise = new
        if change < tol:
            break
    return FactorAnalysis(mean, W, noise, n_iter)


def choose_rank(table: np.ndarray, held: np.ndarray) -> FactorAnalysis:
    """The model, fitted without the held-out cells (a Boolean array), whose rank predicts them best."""
    hidden = np.where(held, np.nan, table)
    model, best, failed = None, None, 0
    for rank in RANKS:
        if rank >= min(table.shape):
            break
        model = fit_factor_analysis(hidden, rank, start=model)
        error = float(np.mean((model.fill(hidden) - table)[held] ** 2)) if held.any() else 0.0
        if best is None or error < best[0] * (1 - MIN_GAIN):
            best, failed = (error, model), 0
        else:
            failed += 1
            if failed == 2:
                break
    assert best is not None
    return best[1]


def _symmetric(upper_entries: np.ndarray, r: int) -> np.ndarray:
    """Symmetric (n, r, r) matrices from their upper triangles."""
    place = np.zeros((r, r), np.int64)
    upper = np.triu_indices(r)
    place[upper] = place[upper[::-1]] = np.arange(len(upper[0]))
    return np.asarray(upper_entries[:, place])


def _without_factors(table: np.ndarray, known: np.ndarray, counts: np.ndarray) -> FactorAnalysis:
    mean = np.where(known, table, 0.0).sum(axis=0) / counts
    variance = (np.where(known, table - mean, 0.0) ** 2).sum(axis=0) / counts
    return FactorAnalysis(mean, np.zeros((table.shape[1], 0)), np.maximum(variance, MIN_NOISE))


def _with_more_factors(table: np.ndarray, known: np.ndarray, model: FactorAnalysis, rank: int) -> FactorAnalysis:
    """The model with the leading right singular vectors of its residuals as further factors."""
    from scipy.sparse.linalg import svds

    more = rank - model.rank
    guess = model.mean + (model.factors(MaskedTable.of(table))[0] @ model.loadings.T if model.rank else 0.0)
    residuals = np.where(known, table - guess, 0.0)
    if min(residuals.shape) > max(DENSE_SVD_SIZE, 2 * more + 1) and residuals.any():
        start = np.random.default_rng(0).standard_normal(min(residuals.shape))  # ones would be orthogonal to centered columns
        _, s, Vt = svds(residuals, more, v0=start)
    else:
        _, s, Vt = np.linalg.svd(residuals, full_matrices=False)
        s, Vt = s[:more], Vt[:more]
    new = Vt.T * (0.7 * s / np.sqrt(len(table) * known.mean()))
    return FactorAnalysis(model.mean, np.hstack([model.loadings, new]), model.noise, model.n_iter)
