"""Single rows and columns fitted anew, robustly, while the other side stands still."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backends import Array, Vector
from ..geometry import FixedRank
from ..operators import Completion
from .deviations import smoothed, within

SWEEPS, RATE = 12, 0.6  # of the smoothing, from a coarse one down
ROUNDS = (10.0, 3.0, 1.0)  # then least squares with what is within so many smoothings


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
        return self.problem.observations.sample(*self.pair(0 * self.own[:, :1] + 1, sizes[:, None]))

    def inliers(self, own: Array, limit: float) -> Array:
        """How many observations of each row are within the limit."""
        return self.problem.observations.sums(within(self.deviations(own), limit)[0], self.side)


def suspicious(problem: Completion, weights: Vector, share: float, rank: int, side: int) -> Array:
    """Flags for rows (columns) of which not half as many observations fit as of all, or no more than any fit fits."""
    counts, fitting = problem.observations.counts(side), problem.observations.sums(weights, side)
    return ((fitting <= rank + 1) | (fitting < 0.5 * share * counts)) & (counts > rank + 1)


def repaired(problem: Completion, X: FixedRank, side: int, flags: Array, limit: float, coarse: float) -> tuple[FixedRank, int]:
    """X with the flagged rows (columns) fitted anew, where more of their observations are within the limit then; and how many.

    Each row is a regression on the other side's factors with gross errors in the data: reweighted least squares for the
    smoothed square root of deviations, from a coarse smoothing down, and then least squares with what fits.
    """
    here, epsilon = Side(problem, X, side), coarse
    old = here.own
    leverage = here.leverage()
    equal = leverage**-2
    new = 0 * old
    for _ in range(SWEEPS):
        weights, _ = smoothed(here.deviations(new) / leverage, max(epsilon, limit / 4), equal)
        new, epsilon = here.fitted(weights, 1e-6), RATE * epsilon
    for many in ROUNDS:
        weights, _ = within(here.deviations(new) / leverage, max(many * epsilon, limit))
        new = here.fitted((weights + 1e-9) * equal, 1e-12)
    taken = flags & (here.inliers(new, limit) > here.inliers(old, limit))
    count = int(taken.sum())
    if not count:
        return X, 0
    chosen = problem.backend.astype(taken, X.real_dtype)[:, None]
    own = here.own * (1 - chosen) + new * chosen
    return FixedRank.from_factors(*here.pair(own, here.other), backend=X.backend), count
