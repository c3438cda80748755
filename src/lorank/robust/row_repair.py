"""Robust refits of single rows and columns with the other factor fixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array, Vector, entrywise
from ..geometry import FixedRank
from ..problems import Completion
from .weights import sqrt_weights, threshold_weights

ITERATIONS, RATE = 12, 0.6  # of reweighted least squares, and the factor on its smoothing
ATTEMPTS = 6  # the first from zero, the others from random subsets of the observations
TRIMMING = (10.0, 3.0, 1.0)  # limits of the final least-squares fits, in smoothings
SUBSETS, MAX_WORK = 1000, 2e9  # random subsets of the observations of a row, and multiplications for all rows


@dataclass(frozen=True)
class Side:
    """The rows (side 0) or columns (1) of a problem at a point: the factor to fit, ``own``, and the fixed one, ``other``."""

    problem: Completion
    X: FixedRank
    side: int

    @property
    def own(self) -> Array:
        X = self.X
        return X.U * X.s if self.side == 0 else X.V * X.s

    @property
    def other(self) -> Array:
        return self.X.V if self.side == 0 else self.X.U

    def pair(self, own: Array, other: Array) -> tuple[Array, Array]:
        return (own, other) if self.side == 0 else (other, own)

    def deviations(self, own: Array) -> Vector:
        return self.problem.observations.residual(*self.pair(own, self.other))

    def fitted(self, weights: Vector, ridge: float) -> Array:
        """Weighted least squares for each row, with a relative ridge."""
        problem, other, r = self.problem, self.other, self.X.rank
        backend, observed = problem.backend, problem.observations.with_weights(weights)
        blocks = observed.blocks(self.side, other)
        mean = float(weights.sum()) / len(self.own)  # sum of weights in a row
        typical = mean * backend.norm(other) ** 2 / (len(other) * r)
        shift = backend.asarray(np.diag(np.full(r, max(ridge * typical, 1e-300), self.X.real_dtype)))
        right = observed.products(weights * problem.y)[self.side](other)
        return backend.block_solver(blocks + shift)(right)

    def leverage(self) -> Vector:
        """Norms of the rows of the fixed factor over their median, at least 1, for each observation.

        Rows of the fixed factor that are far too large are down-weighted.
        """
        X, backend = self.X, self.problem.backend
        sizes = backend.row_squares(self.other * X.s) ** 0.5
        middle = backend.median(sizes)
        sizes = (sizes / middle if middle > 0 else 0 * sizes + 1).clip(1.0)
        return entrywise(
            lambda xp, a: abs(a), self.problem.observations.sample(*self.pair(0 * self.own[:, :1] + 1, sizes[:, None]))
        )

    def inliers(self, own: Array, limit: float) -> Array:
        """Number of observations of each row within the limit."""
        return self.problem.observations.sums(threshold_weights(self.deviations(own), limit)[0], self.side)


def flag_rows(problem: Completion, weights: Vector, share: float, rank: int, side: int) -> Array:
    """Flags of rows (columns) with a share of fitting observations below half the average, or at most rank + 1 of them."""
    counts, fitting = problem.observations.counts(side), problem.observations.sums(weights, side)
    return ((fitting <= rank + 1) | (fitting < 0.5 * share * counts)) & (counts > rank + 1)


def loses_rows(problem: Completion, d: Vector, limits: tuple[float, float], share: float, rank: int) -> bool:
    """Whether the lower of two limits would flag rows or columns that the other does not: those that converge slowly."""
    low, high = (threshold_weights(d, limit)[0] for limit in limits)
    new = (flag_rows(problem, low, share, rank, side) & ~flag_rows(problem, high, share, rank, side) for side in (0, 1))
    return any(bool(flags.any()) for flags in new)


def repair(problem: Completion, X: FixedRank, d: Vector, limit: float, share: float, coarse: float) -> tuple[FixedRank, int]:
    """X with flagged rows, then columns, refitted; and how many.

    d are the deviations at X, ``limit`` the one beyond which observations are considered outliers, ``share`` that of the
    others, and ``coarse`` the first smoothing of the refits.
    """
    refitted, weights, rank = 0, threshold_weights(d, limit)[0], X.rank
    for side in (0, 1):
        flags = flag_rows(problem, weights, share, rank, side)
        if bool(flags.any()):
            X, count = repaired(problem, X, side, flags, limit, coarse)
            refitted += count
    return X, refitted


def repaired(problem: Completion, X: FixedRank, side: int, flags: Array, limit: float, coarse: float) -> tuple[FixedRank, int]:
    """X with the flagged rows (columns) refitted, where more of their observations are within the limit then; and how many.

    Each row is a robust regression on the fixed factor: reweighted least squares for the smoothed sum of square roots of the
    deviations, with a falling smoothing, then least squares with the observations within a limit.
    """
    here = Side(problem, X, side)
    leverage = here.leverage()
    own, left, count = here.own, flags, 0
    for attempt in range(ATTEMPTS):
        if attempt == 0:
            start, epsilon, iterations = 0 * own, coarse, ITERATIONS
        else:  # from random subsets: a row with few observations may have several local minima
            start, epsilon, iterations = (
                here.fitted((some_of(problem.y, attempt) + 1e-6) * leverage**-2, 1e-6),
                coarse / 30,
                ITERATIONS // 2,
            )
        new = _descend(here, leverage, start, epsilon, iterations, limit)
        better = left & (here.inliers(new, limit) > here.inliers(own, limit))
        if bool(better.any()):
            chosen = problem.backend.astype(better, X.real_dtype)[:, None]
            own = own * (1 - chosen) + new * chosen
            left = left & (here.inliers(own, limit) <= X.rank + 1)
            count += int(better.sum())
        if not bool(left.any()):
            break
    own, more = _by_subsets(here, own, left & (here.inliers(own, limit) <= X.rank + 1), limit)
    count += more
    return (FixedRank.from_factors(*here.pair(own, here.other), backend=X.backend), count) if count else (X, 0)


def _by_subsets(here: Side, own: Array, flags: Array, limit: float) -> tuple[Array, int]:
    """Flagged rows with a minority of inliers, by random subsets of rank many observations (RANSAC), as far as
    :data:`MAX_WORK` allows.
    """
    backend, r = here.problem.backend, here.X.rank
    places = np.flatnonzero(backend.to_numpy(flags))[: int(MAX_WORK / (SUBSETS * (r**3 + 100 * r)))]
    if not len(places):
        return own, 0
    indptr, indices, values, _ = here.problem.observations.host()
    other, rows, count = backend.to_numpy(here.other), np.array(backend.to_numpy(own)), 0
    for i in places:
        if here.side == 0:
            where = slice(int(indptr[i]), int(indptr[i + 1]))
            A, b = other[indices[where]].conj(), values[where]
        else:
            k = np.flatnonzero(indices == i)
            A, b = other[np.searchsorted(indptr, k, side="right") - 1].conj(), values[k].conj()
        found = best_of_subsets(A, b, limit, np.random.default_rng(int(i)))
        if found is not None:
            rows[i], count = found, count + 1
    return (backend.asarray(rows), count) if count else (own, 0)


def best_of_subsets(A: np.ndarray, b: np.ndarray, limit: float, rng: np.random.Generator) -> np.ndarray | None:
    """The x that fits most equations of ``A x = b``, from random subsets of r of them (RANSAC); None if none fits r + 2.

    Parameters
    ----------
    A : (k, r) array
    b : (k,) array
    limit : float
        Largest deviation of an equation that fits.
    rng : numpy.random.Generator

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> A, x = rng.standard_normal((15, 3)), np.array([1.0, 2.0, 3.0])
    >>> b = A @ x
    >>> b[:7] += 10 * rng.standard_normal(7)  # corrupt nearly half of them
    >>> bool(abs(best_of_subsets(A, b, 1e-6, rng) - x).max() < 1e-12)
    True
    """
    k, r = A.shape
    if k < r + 2:
        return None
    chosen = np.argsort(rng.random((SUBSETS, k)), axis=1)[:, :r]
    square = A[chosen] + 1e-12 * abs(A).max() * np.eye(r, dtype=A.dtype)
    with np.errstate(all="ignore"):
        x = np.linalg.solve(square, b[chosen][..., None])[..., 0]
        fitting = (abs(x @ A.T - b) <= limit).sum(axis=1)
    keep = abs(A @ x[fitting.argmax()] - b) <= limit
    for _ in range(3):
        if keep.sum() < r + 2:
            return None
        best = np.linalg.lstsq(A[keep], b[keep], rcond=None)[0]
        keep = abs(A @ best - b) <= limit
    return np.asarray(best) if keep.sum() >= r + 2 else None


def _descend(here: Side, leverage: Vector, own: Array, epsilon: float, iterations: int, limit: float) -> Array:
    """Reweighted least squares with a falling smoothing, then least squares with the observations within a limit."""
    equal = leverage**-2
    for _ in range(iterations):
        weights, _ = sqrt_weights(here.deviations(own) / leverage, max(epsilon, limit / 4), equal)
        own, epsilon = here.fitted(weights, 1e-6), RATE * epsilon
    for many in TRIMMING:
        weights, _ = threshold_weights(here.deviations(own) / leverage, max(many * epsilon, limit))
        own = here.fitted((weights + 1e-9) * equal, 1e-12)
    return own


def some_of(y: Vector, seed: int) -> Vector:
    """Ones for a pseudorandom 60 % of the observations, by a hash of their values, and zeros for the others."""

    def chosen(xp: Any, y: Array) -> Array:
        digits = abs(xp.sin(abs(y) * (1e3 * seed + 7.7)) * 43758.5453) % 1
        return 0 * digits + (digits < 0.6)

    return entrywise(chosen, y)
