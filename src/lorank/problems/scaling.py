"""Completion problems in other units: rows and columns of similar size, and single precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import Array, Backend
from ..geometry import FixedRank

if TYPE_CHECKING:
    from .completion import Completion

MIN_SINGLE = 100_000  # observations from which on single precision saves noticeable time
MIN_PER_SIDE = 5  # observations per row or column from which on their sizes are estimated
MIN_SPREAD = 4.0  # ratio of large to small sizes from which on rescaling pays


@dataclass(frozen=True)
class SinglePrecisionProblem:
    """A copy of a problem in single precision, for ``X / unit``.

    Attributes
    ----------
    problem : Problem
    unit : float
        A power of the scale of the data that keeps squares within the range of single precision.
    dtype : numpy.dtype
        Of the original problem.
    """

    problem: Any
    unit: float
    dtype: Any

    def into(self, X: FixedRank) -> FixedRank:
        """X in the precision and unit of the copy."""
        return X.astype(self.problem.dtype, 1 / self.unit)

    def back(self, X: FixedRank) -> FixedRank:
        """X in the precision and unit of the original problem."""
        return X.astype(self.dtype, self.unit)


@dataclass(frozen=True)
class RescaledProblem:
    """A problem for ``diag(rows)^-1 X diag(cols)^-1`` with the same exact solutions.

    Attributes
    ----------
    problem : Problem
    rows, cols : (n1,) and (n2,) arrays
        Positive.
    """

    problem: Any
    rows: Array
    cols: Array

    def into(self, X: FixedRank) -> FixedRank:
        """X in the units of the rescaled problem."""
        return X.scaled(1 / self.rows, 1 / self.cols)

    def back(self, X: FixedRank) -> FixedRank:
        """X in the units of the data."""
        return X.scaled(self.rows, self.cols)


def rescale(problem: Completion) -> RescaledProblem | None:
    """The problem with rows and columns scaled to observed entries of about unit size.

    Without noise it has the same solutions, and rows of large entries do not dominate the objective. None where sizes differ by
    less than a factor of four, or rows or columns have fewer than five observations on average.
    """
    backend, observed = problem.backend, problem.observations
    empty = problem.empty_rows, problem.empty_cols
    if problem.m < MIN_PER_SIDE * max(n - len(k) for n, k in zip(problem.shape, empty, strict=True)):
        return None
    counts = observed.counts(0), observed.counts(1)
    at_zero = problem.gradient(FixedRank.zero(problem.shape, 1, problem.dtype, backend))  # where G = -A* y
    left, right = (_sizes(count, s) for count, s in zip(counts, at_zero.squared_norms, strict=True))
    nonempty = [a[counts[k] > 0] if len(empty[k]) else a for k, a in enumerate((left, right))]
    if max(_spread(sizes, backend) for sizes in nonempty) < MIN_SPREAD:
        return None
    squares = backend.astype(abs(problem.y), np.float64) ** 2
    for _ in range(3):  # alternately, since the scales of both sides depend on each other
        right = _sizes(counts[1], observed.adjoint_times(squares, left[:, None] ** -2)[:, 0])
        left = _sizes(counts[0], observed.times(squares, right[:, None] ** -2)[:, 0])
    real = np.zeros(0, problem.dtype).real.dtype
    values = backend.astype(problem.y / observed.sample(left[:, None], right[:, None]), problem.dtype)
    twin = problem.with_observations(observed.with_values(values))
    return RescaledProblem(twin, backend.astype(left, real), backend.astype(right, real))


def to_single_precision(problem: Completion) -> SinglePrecisionProblem | None:
    """The problem in single precision; None where it has few observations, or a loss that depends on the unit of the data."""
    if problem.precision == "double" or problem.m < MIN_SINGLE or problem.dtype not in (np.float64, np.complex128):
        return None
    if problem.max_abs == 0:
        return None
    unit = 1.0 if 1e-6 < problem.max_abs < 1e6 else problem.max_abs
    if unit != 1 and problem.loss is not None:
        return None
    single = np.dtype(np.complex64 if problem.dtype.kind == "c" else np.float32)
    values = problem.backend.astype(problem.y if unit == 1 else problem.y / unit, single)
    return SinglePrecisionProblem(problem.with_observations(problem.observations.with_values(values)), unit, problem.dtype)


def _sizes(count: Array, squares: Array) -> Array:
    """Root mean squares of ``count`` numbers with sums of squares ``squares``; 1 where that is zero."""
    mean = squares / (count + (count == 0))
    return (mean + (mean == 0)) ** 0.5


def _spread(sizes: Array, backend: Backend) -> float:
    """The ratio of the 95th to the 5th percentile."""
    low, high = backend.percentiles(sizes, [5, 95])
    return high / low
