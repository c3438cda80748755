"""Units of a computation: the data as given, rows and columns of similar size, single precision, or the well-observed core."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import Array, Backend
from ..geometry import FixedRank

if TYPE_CHECKING:
    from .completion import Completion
    from .observed_core import ObservedCore

MIN_SINGLE = 100_000  # observations from which on single precision saves noticeable time
MIN_PER_SIDE = 5  # observations per row or column from which on their sizes are estimated
MIN_SPREAD = 4.0  # ratio of large to small sizes from which on rescaling pays


@dataclass(frozen=True)
class Units:
    """A problem in other units, and the conversions of points to it and back.

    Attributes
    ----------
    problem : Problem
        In these units.
    kind : str
        ``"data"``, ``"rescaled"`` (rows and columns of about the same size, with the same exact solutions),
        ``"single precision"`` or ``"core"`` (the well-observed rows and columns alone, zeros elsewhere).
    into, back : callable, optional
        Conversions of points from and to the given problem; None where points are the same.
    unit : float
        Divisor of the data that keeps squares within the range of single precision.
    min_residual : float
        Relative residual below which a plan continues in the units ``then``.
    then : Units, optional
        Those of the data by default.
    observed_core : ObservedCore, optional
    """

    problem: Any
    kind: str = "data"
    into: Callable[[FixedRank], FixedRank] | None = None
    back: Callable[[FixedRank], FixedRank] | None = None
    unit: float = 1.0
    min_residual: float = 0.0
    then: Units | None = None
    observed_core: ObservedCore | None = None


def rescaled(problem: Completion) -> Units | None:
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
    rows, cols = backend.astype(left, real), backend.astype(right, real)
    into = functools.partial(FixedRank.scaled, rows=1 / rows, cols=1 / cols)
    return Units(twin, "rescaled", into, functools.partial(FixedRank.scaled, rows=rows, cols=cols))


def single_precision(problem: Completion) -> Units | None:
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
    twin = problem.with_observations(problem.observations.with_values(values))
    into = functools.partial(FixedRank.astype, dtype=single, factor=1 / unit)
    back = functools.partial(FixedRank.astype, dtype=problem.dtype, factor=unit)
    return Units(twin, "single precision", into, back, unit)


def _sizes(count: Array, squares: Array) -> Array:
    """Root mean squares of ``count`` numbers with sums of squares ``squares``; 1 where that is zero."""
    mean = squares / (count + (count == 0))
    return (mean + (mean == 0)) ** 0.5


def _spread(sizes: Array, backend: Backend) -> float:
    """The ratio of the 95th to the 5th percentile."""
    low, high = backend.percentiles(sizes, [5, 95])
    return high / low
