"""Gradient of complete count tables, by passes over all entries and over the nonzero ones."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from ..backends import Array, Vector, entrywise
from ..backends.exponential_table import (
    MAX_EXPONENT,
    exponential_line,
    exponential_slope,
    exponential_squares,
    exponential_sums,
)
from ..geometry import Tangent
from .gradient import Gradient

if TYPE_CHECKING:
    from .counts import CountTable

EMPTY_LOG_MEAN = -75.0  # of a row or column without counts
LINE_TRIES = 20
NEWTON_MAX_CHANGE = 2.0  # of any log mean, up to which Newton's step is accepted without a line search


class CountGradient(Gradient):
    """``G = exp(offsets + X) - Y + ridge X`` by its products: one pass over all entries, and passes over the nonzero counts."""

    problem: CountTable  # type: ignore[assignment]

    def _with_offsets(self, rows: Array) -> tuple[Array, Array]:
        """Factors of X plus the offsets."""
        backend, cols = self.problem.backend, self.problem.sides[1]
        left = backend.concat([backend.asarray(self.X.U * self.X.s), rows, 0 * rows + 1])
        return left, backend.concat([backend.asarray(self.X.V), 0 * cols + 1, cols])

    @functools.cached_property
    def _sums(self) -> tuple[float, Array, Array, Array | None]:
        """Sum of means, their products, and intercepts, which make expected row totals equal to observed ones."""
        problem, X, asarray = self.problem, self.X, self.problem.backend.asarray
        factors, totals = self._with_offsets(problem.sides[0]), problem.totals if problem.intercepts else None
        return exponential_sums(*factors, asarray(X.U), asarray(X.V), totals)

    @property
    def shifts(self) -> Array | None:
        """The (n1, 1) estimated corrections of the row offsets at X; None without intercepts."""
        return self._sums[3]

    @functools.cached_property
    def _factors(self) -> tuple[Array, Array]:
        rows = self.problem.sides[0]
        return self._with_offsets(rows if not self.problem.intercepts else rows + self.shifts)

    @functools.cached_property
    def _counted(self) -> Vector:
        """X at the nonzero counts."""
        return self.problem.observations.sample(self.X.U * self.X.s, self.X.V)

    @functools.cached_property
    def half_deviance(self) -> float:
        problem = self.problem
        found = self._sums[0] - problem.backend.inner(problem.y, self._counted) + problem.log_likelihood_constant
        return found if self.shifts is None else found - problem.backend.inner(problem.totals, self.shifts)

    @functools.cached_property
    def residual_norm(self) -> float:
        penalty = self.problem.ridge * self.X.norm() ** 2
        return math.sqrt(max(2 * self.half_deviance + penalty, 0.0))

    @functools.cached_property
    def GV(self) -> Array:
        problem, X = self.problem, self.X
        return self._sums[1] - problem.observations.times(problem.y, X.V) + problem.ridge * X.backend.asarray(X.U * X.s)

    @functools.cached_property
    def GhU(self) -> Array:
        problem, X = self.problem, self.X
        return self._sums[2] - problem.observations.adjoint_times(problem.y, X.U) + problem.ridge * X.backend.asarray(X.V * X.s)

    def times(self, v: Array) -> Array:
        return self._product(v, 0)

    def adjoint_times(self, u: Array) -> Array:
        return self._product(u, 1)

    def _product(self, a: Array, side: int) -> Array:
        problem, X = self.problem, self.X
        backend, observed = problem.backend, problem.observations
        a = backend.asarray(a)
        left, right = self._factors[side], self._factors[1 - side]
        own, other = (X.U, X.V)[side], (X.V, X.U)[side]
        none = backend.zeros((left.shape[0], a.shape[1]), problem.dtype)
        product = exponential_sums(left, right, none, a)[1]
        counted = (observed.times, observed.adjoint_times)[side](problem.y, a)
        return product - counted + problem.ridge * backend.product(backend.asarray(own * X.s), backend.gram(other, a))

    @functools.cached_property
    def squared_norms(self) -> tuple[Array, Array]:
        problem, X, observed = self.problem, self.X, self.problem.observations
        asarray = problem.backend.asarray
        rows, cols = exponential_squares(*self._factors, (asarray(X.U * (problem.ridge * X.s)), asarray(X.V)))
        means = entrywise(lambda xp, z: xp.exp(z.clip(max=MAX_EXPONENT)), self._log_means)
        mixed = problem.y * (problem.y - 2 * (means + problem.ridge * self._counted))
        return (rows + observed.sums(mixed, 0)).clip(min=0), (cols + observed.sums(mixed, 1)).clip(min=0)

    def squared_image_norm(self, xi: Tangent) -> float:
        left, right = (self.problem.backend.asarray(a) for a in xi.factors())
        return self._line(left, right)[1]

    def exact_step(self, left: Array, right: Array) -> float:
        slope, curvature = self._line(*(self.problem.backend.asarray(a) for a in (left, right)))
        return -slope / curvature if curvature > 0 else 0.0

    def _line(self, left: Array, right: Array) -> tuple[float, float]:
        """The slope along ``left right^T``, and the curvature for which slope / curvature is the exact step."""
        problem, X = self.problem, self.X
        backend, ridge = problem.backend, problem.ridge
        own = float(np.sum(backend.gram(left, left) * backend.gram(right, right)))
        mixed = float(np.sum(backend.gram(backend.asarray(X.U * X.s), left) * backend.gram(X.V, right)))
        counted = backend.inner(problem.y, problem.observations.sample(left, right))

        first, second, largest = exponential_line(*self._factors, (left, right))
        slope, curvature = first - counted + ridge * mixed, second + ridge * own
        if not curvature > 0 or slope == 0:
            return slope, curvature
        at = -slope / curvature
        if abs(at) * largest < NEWTON_MAX_CHANGE:
            return slope, curvature
        for _ in range(LINE_TRIES):  # backtracking from Newton's step
            there = exponential_slope(*self._factors, (left, right), at) - counted + ridge * (mixed + at * own)
            if abs(there) <= 0.5 * abs(slope):
                break
            at = at / 2 if there * slope < 0 else at * 1.5
        return slope, -slope / at

    @functools.cached_property
    def dispersion(self) -> float:
        """Root of Pearson's dispersion: 1 for Poisson counts."""
        problem = self.problem
        inverse = entrywise(lambda xp, z: xp.exp(-z.clip(min=EMPTY_LOG_MEAN)), self._log_means)
        square = self._sums[0] - 2 * float(problem.y.sum()) + problem.backend.inner(problem.y * problem.y, inverse)
        return math.sqrt(max(square, 0.0) / max(problem.m - problem.dof(self.X.rank), 1))

    @functools.cached_property
    def _log_means(self) -> Vector:
        """Log means at the nonzero counts."""
        return self.problem.observations.sample(*self._factors)
