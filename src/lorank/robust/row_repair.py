"""Single rows and columns fitted anew, robustly, while the other side stands still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array, Vector, entrywise
from ..geometry import FixedRank
from ..problems import Completion
from .weights import sqrt_weights, threshold_weights

SWEEPS, RATE = 12, 0.6  # of the smoothing, from a coarse one down
ATTEMPTS = 6  # the first from zero
ROUNDS = (10.0, 3.0, 1.0)  # then least squares with what is within so many smoothings
TRIALS, WORK = 1000, 2e9  # subsets of a row's observations, and multiplications for all rows


@dataclass(frozen=True)
class Side:
    """The rows (0) or columns (1) of a problem at a point: factors to be fitted, and those that stand still."""

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
        """Weighted least squares, row by row, with a small ridge."""
        problem, other, r = self.problem, self.other, self.X.rank
        backend, observed = problem.backend, problem.observations.with_weights(weights)
        blocks = observed.blocks(self.side, other)
        mean = float(weights.sum()) / len(self.own)  # of the sums of weights in rows
        typical = mean * backend.norm(other) ** 2 / (len(other) * r)
        shift = backend.asarray(np.diag(np.full(r, max(ridge * typical, 1e-300), self.X.real_dtype)))
        right = observed.products(weights * problem.y)[self.side](other)
        return backend.block_solver(blocks + shift)(right)

    def leverage(self) -> Vector:
        """The sizes of the other side's rows in units of their median, at least 1: a row that has run away bends all that
        meet it, unless it counts for less.
        """
        X, backend = self.X, self.problem.backend
        sizes = backend.row_squares(self.other * X.s) ** 0.5
        middle = backend.median(sizes)
        sizes = (sizes / middle if middle > 0 else 0 * sizes + 1).clip(1.0)
        return entrywise(
            lambda xp, a: abs(a), self.problem.observations.sample(*self.pair(0 * self.own[:, :1] + 1, sizes[:, None]))
        )

    def inliers(self, own: Array, limit: float) -> Array:
        """How many observations of each row are within the limit."""
        return self.problem.observations.sums(threshold_weights(self.deviations(own), limit)[0], self.side)


def flag_rows(problem: Completion, weights: Vector, share: float, rank: int, side: int) -> Array:
    """Flags for rows (columns) of which not half as many observations fit as of all, or no more than any fit fits."""
    counts, fitting = problem.observations.counts(side), problem.observations.sums(weights, side)
    return ((fitting <= rank + 1) | (fitting < 0.5 * share * counts)) & (counts > rank + 1)


def loses_rows(problem: Completion, d: Vector, limits: tuple[float, float], share: float, rank: int) -> bool:
    """Whether the lower of two limits would leave out rows or columns that fit within the other one: those that a fit comes to
    more slowly than to the rest.
    """
    low, high = (threshold_weights(d, limit)[0] for limit in limits)
    new = (flag_rows(problem, low, share, rank, side) & ~flag_rows(problem, high, share, rank, side) for side in (0, 1))
    return any(bool(flags.any()) for flags in new)


def repair(problem: Completion, X: FixedRank, d: Vector, limit: float, share: float, coarse: float) -> tuple[FixedRank, int]:
    """X with flagged rows, then columns, refitted; and how many.

    Parameters
    ----------
    problem : Completion
    X : FixedRank
    d : (m,) vector
        Deviations at X.
    limit, share : float
        Deviation beyond which observations are considered outliers, and the share of the others.
    coarse : float
        First smoothing of the robust fits.
    """
    refitted, weights, rank = 0, threshold_weights(d, limit)[0], X.rank
    for side in (0, 1):
        flags = flag_rows(problem, weights, share, rank, side)
        if bool(flags.any()):
            X, count = repaired(problem, X, side, flags, limit, coarse)
            refitted += count
    return X, refitted


def repaired(problem: Completion, X: FixedRank, side: int, flags: Array, limit: float, coarse: float) -> tuple[FixedRank, int]:
    """X with the flagged rows (columns) fitted anew, where more of their observations are within the limit then; and how many.

    Each row is a regression on the other side's factors with gross errors in the data: reweighted least squares for the
    smoothed square root of deviations, from a coarse smoothing down, and then least squares with what fits.
    """
    here = Side(problem, X, side)
    leverage = here.leverage()
    own, left, count = here.own, flags, 0
    for attempt in range(ATTEMPTS):
        if attempt == 0:
            start, epsilon, sweeps = 0 * own, coarse, SWEEPS
        else:  # from some of the observations, others each time: in a row with few, the way down may end elsewhere
            start, epsilon, sweeps = (
                here.fitted((some_of(problem.y, attempt) + 1e-6) * leverage**-2, 1e-6),
                coarse / 30,
                SWEEPS // 2,
            )
        new = _descend(here, leverage, start, epsilon, sweeps, limit)
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
    """Flagged rows of which only a minority of the observations is right: as many of them as the rank determine a row, and
    some of many random choices are all right. As many rows as can be had for a bounded effort.
    """
    backend, r = here.problem.backend, here.X.rank
    places = np.flatnonzero(backend.to_numpy(flags))[: int(WORK / (TRIALS * (r**3 + 100 * r)))]
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
    """The x that fits most of the equations ``A x = b`` within a limit, of those that fit some r of them exactly; None where
    none fits more than r + 1.

    Parameters
    ----------
    A : (k, r) array
    b : (k,) array
    limit : float
    rng : numpy.random.Generator

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> A, x = rng.standard_normal((15, 3)), np.array([1.0, 2.0, 3.0])
    >>> b = A @ x
    >>> b[:7] += 10 * rng.standard_normal(7)  # nearly half of them are wrong
    >>> bool(abs(best_of_subsets(A, b, 1e-6, rng) - x).max() < 1e-12)
    True
    """
    k, r = A.shape
    if k < r + 2:
        return None
    chosen = np.argsort(rng.random((TRIALS, k)), axis=1)[:, :r]
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


def _descend(here: Side, leverage: Vector, own: Array, epsilon: float, sweeps: int, limit: float) -> Array:
    """Reweighted least squares from a point and a smoothing down, and then least squares with what fits."""
    equal = leverage**-2
    for _ in range(sweeps):
        weights, _ = sqrt_weights(here.deviations(own) / leverage, max(epsilon, limit / 4), equal)
        own, epsilon = here.fitted(weights, 1e-6), RATE * epsilon
    for many in ROUNDS:
        weights, _ = threshold_weights(here.deviations(own) / leverage, max(many * epsilon, limit))
        own = here.fitted((weights + 1e-9) * equal, 1e-12)
    return own


def some_of(y: Vector, seed: int) -> Vector:
    """Ones for about six in ten observations and zeros for the others, as the last digits of the values have it."""

    def chosen(xp: Any, y: Array) -> Array:
        digits = abs(xp.sin(abs(y) * (1e3 * seed + 7.7)) * 43758.5453) % 1
        return 0 * digits + (digits < 0.6)

    return entrywise(chosen, y)
