"""Factor analysis of a wide table: covariance ``W W^T + diag(noise)``, by expectation-maximisation over the known cells alone.

A row with known cells o has factors of precision ``M = I + W_o^T diag(1 / noise_o) W_o``: all these r x r matrices are one
product of the table's pattern with the outer products of the loadings, so that the number of columns costs no more than
linearly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .patterns import Patterns

RIDGE = 1.0  # on the loadings: as one row of factors that says nothing
FLOOR = 1e-4  # of the variances: the least noise
RANKS = (1, 2, 4, 8, 16, 32)
GAIN = 3e-3  # the least share of squared error that a larger rank must take away
DENSE = 64  # rows or columns up to which a dense SVD is used
ROWS = 1 << 22  # numbers in the matrices of a block of rows


@dataclass(frozen=True)
class Cells:
    """A table with gaps, for products: no pass over it but those.

    Attributes
    ----------
    values : (n, d) array
        0 in the gaps.
    some : (d,) Boolean array
        Columns that have gaps.
    mask : (n, k) array
        1 where such a column is known, 0 in its gaps.
    """

    values: np.ndarray
    some: np.ndarray
    mask: np.ndarray

    @classmethod
    def of(cls, table: np.ndarray) -> Cells:
        known = ~np.isnan(table)
        some = ~known.all(axis=0)
        return cls(np.where(known, table, 0.0), some, known[:, some].astype(np.float64))

    def centred_times(self, mean: np.ndarray, W: np.ndarray) -> np.ndarray:
        """``(known * (table - mean)) @ W``."""
        shift = mean[:, None] * W
        return np.asarray(self.values @ W - self.mask @ shift[self.some] - shift[~self.some].sum(axis=0))

    def known_sums(self, z: np.ndarray) -> np.ndarray:
        """``known^T z``: sums over the rows in which a column is known."""
        found = np.tile(z.sum(axis=0), (len(self.some), 1))
        found[self.some] = self.mask.T @ z
        return found

    def summed(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """``sum_j known_ij left_j right_j^T`` for each row i, an (n, r, r) array, of symmetric products.

        Columns that are known everywhere are summed once, and of the others' products one half.
        """
        r, some = left.shape[1], self.some
        upper = np.triu_indices(r)
        products = left[some][:, upper[0]] * right[some][:, upper[1]]
        return _square(self.mask @ products, r) + left[~some].T @ right[~some]


@dataclass(frozen=True)
class FactorAnalysis:
    """A mean, loadings and noise.

    Attributes
    ----------
    mean : (d,) array
    loadings : (d, r) array
    noise : (d,) array
        Variances that columns keep to themselves.
    n_iter : int
    """

    mean: np.ndarray
    loadings: np.ndarray
    noise: np.ndarray
    n_iter: int = 0

    @property
    def covariance(self) -> np.ndarray:
        """``W W^T + diag(noise)``, a (d, d) array."""
        return self.loadings @ self.loadings.T + np.diag(self.noise)

    def factors(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and covariances of the rows' factors: (n, r) and (n, r, r) arrays."""
        return self.factors_of(Cells.of(table))

    def factors_of(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """The same of a table that is taken apart already."""
        W, r = self.loadings, self.loadings.shape[1]
        weighted = W / self.noise[:, None]
        covariance = np.linalg.inv(cells.summed(weighted, W) + np.eye(r))
        score = cells.centred_times(self.mean, weighted)
        return (covariance @ score[:, :, None])[:, :, 0], covariance

    def fill(self, table: np.ndarray, patterns: Patterns | None = None) -> np.ndarray:
        """Conditional means in the gaps (nan) of an (n, d) table; what is known stays."""
        return self.conditional(table, patterns, spread=False)[0]

    def conditional(
        self, table: np.ndarray, patterns: Patterns | None = None, spread: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The filled table, and the standard deviations in its gaps (0 elsewhere)."""
        filled, W = table.copy(), self.loadings
        deviation = np.zeros_like(filled) if spread else None
        step = max(1, ROWS // W.shape[1] ** 2)
        for at in range(0, len(table), step):
            rows = slice(at, at + step)
            missing = np.isnan(table[rows])
            mean, covariance = self.factors(table[rows])
            filled[rows][missing] = (self.mean + mean @ W.T)[missing]
            if deviation is not None:
                outer = (W[:, :, None] * W[:, None, :]).reshape(len(W), -1)
                variance = covariance.reshape(len(mean), -1) @ outer.T + self.noise
                deviation[rows] = np.where(missing, np.sqrt(np.maximum(variance, 0)), 0.0)
        return filled, deviation

    def draw(self, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws from the conditional distribution of the gaps."""
        mean, covariance = self.factors(table)
        noise = rng.standard_normal((*mean.shape, 1))
        factors = mean + (np.linalg.cholesky(covariance) @ noise)[:, :, 0]
        guess = self.mean + factors @ self.loadings.T + np.sqrt(self.noise) * rng.standard_normal(table.shape)
        return np.where(np.isnan(table), guess, table)


def fit_factor_analysis(
    table: np.ndarray, rank: int, *, start: FactorAnalysis | None = None, max_iter: int = 40, tol: float = 2e-3
) -> FactorAnalysis:
    """Mean, loadings and noise of a table with gaps.

    Parameters
    ----------
    table : (n, d) array
        With nan in the gaps; columns of about unit variance.
    rank : int
    start : FactorAnalysis, optional
        Of the same or a smaller rank: directions of what it leaves over are added.
    max_iter : int
    tol : float
        Stop once no column's noise changes by more than this, relatively to its variance.
    """
    known, cells, upper = ~np.isnan(table), Cells.of(table), np.triu_indices(rank)
    number = known.sum(axis=0)
    counts = np.maximum(number, 1)
    some, total, squares = cells.some, cells.values.sum(axis=0), (cells.values**2).sum(axis=0)
    model = start or _nothing(table, known, counts)
    if rank > model.loadings.shape[1]:
        model = _grown(table, known, model, rank)
    mean, W, noise = model.mean, model.loadings, model.noise
    variance = (np.where(known, table - mean, 0.0) ** 2).sum(axis=0) / counts
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        z, covariance = FactorAnalysis(mean, W, noise).factors_of(cells)
        second = covariance + z[:, :, None] * z[:, None, :]
        A = np.broadcast_to(second.sum(axis=0), (len(W), rank, rank)).copy()  # of columns that are known everywhere
        A[some] = _square(cells.mask.T @ second[:, upper[0], upper[1]], rank)
        A += RIDGE * np.eye(rank)
        seen = cells.known_sums(z)
        b = cells.values.T @ z - mean[:, None] * seen
        W = np.linalg.solve(A, b[:, :, None])[:, :, 0]
        centred = np.maximum(squares - 2 * mean * total + number * mean**2, 0.0)
        new = np.maximum((centred - (W * b).sum(axis=1)) / counts, FLOOR * np.maximum(variance, FLOOR))
        mean = np.where(number > 0, (total - (W * seen).sum(axis=1)) / counts, mean)
        W = W @ np.linalg.cholesky(second.mean(axis=0))  # factors of unit variance again: without this, scales creep
        change = float(np.max(np.abs(new - noise) / np.maximum(variance, FLOOR)))
        noise = new
        if change < tol:
            break
    return FactorAnalysis(mean, W, noise, n_iter)


def choose_rank(table: np.ndarray, held: np.ndarray) -> FactorAnalysis:
    """The rank whose fit without the held-out cells fills them best.

    Parameters
    ----------
    table : (n, d) array
    held : (n, d) Boolean array
        Known cells to be hidden.
    """
    hidden = np.where(held, np.nan, table)
    model, best, failed = None, None, 0
    for rank in RANKS:
        if rank >= min(table.shape):
            break
        model = fit_factor_analysis(hidden, rank, start=model)
        error = float(np.mean((model.fill(hidden) - table)[held] ** 2)) if held.any() else 0.0
        if best is None or error < best[0] * (1 - GAIN):
            best, failed = (error, model), 0
        else:
            failed += 1
            if failed == 2:
                break
    assert best is not None
    return best[1]


def _square(halves: np.ndarray, r: int) -> np.ndarray:
    """Symmetric (n, r, r) matrices from their upper halves."""
    place = np.zeros((r, r), np.int64)
    upper = np.triu_indices(r)
    place[upper] = place[upper[::-1]] = np.arange(len(upper[0]))
    return np.asarray(halves[:, place])


def _nothing(table: np.ndarray, known: np.ndarray, counts: np.ndarray) -> FactorAnalysis:
    mean = np.where(known, table, 0.0).sum(axis=0) / counts
    variance = (np.where(known, table - mean, 0.0) ** 2).sum(axis=0) / counts
    return FactorAnalysis(mean, np.zeros((table.shape[1], 0)), np.maximum(variance, FLOOR))


def _grown(table: np.ndarray, known: np.ndarray, model: FactorAnalysis, rank: int) -> FactorAnalysis:
    """With more factors: the leading directions of what is left over."""
    from scipy.sparse.linalg import svds

    more = rank - model.loadings.shape[1]
    guess = model.mean + (model.factors(table)[0] @ model.loadings.T if model.loadings.shape[1] else 0.0)
    left = np.where(known, table - guess, 0.0)
    share = known.mean()
    if min(left.shape) > max(DENSE, 2 * more + 1) and left.any():
        start = np.random.default_rng(0).standard_normal(min(left.shape))  # not ones: columns are centred
        _, s, Vt = svds(left, more, v0=start)
    else:
        _, s, Vt = np.linalg.svd(left, full_matrices=False)
        s, Vt = s[:more], Vt[:more]
    new = Vt.T * (0.7 * s / np.sqrt(len(table) * share))
    return FactorAnalysis(model.mean, np.hstack([model.loadings, new]), model.noise, model.n_iter)
