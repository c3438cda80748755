"""The gradient of completion: fused passes over the observed entries."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from ..backends import Array, Vector
from ..geometry import FixedRank, Tangent
from .pattern_gradient import PatternGradient

if TYPE_CHECKING:
    from .completion import Completion

ROUGH = 1e-3  # relative residuals above this allow errors of float32's size, some 1e-7, in a gradient


class SampledGradient(PatternGradient):
    """The gradient of completion, by fused passes: one gives ``G V`` and row norms, the other ``G^H U`` and column norms."""

    def __init__(self, problem: Completion, X: FixedRank, rough: bool = False) -> None:
        super().__init__(problem, X)
        self._passes = problem.observations.rough if rough else problem.observations

    def at(self, X: FixedRank) -> SampledGradient:
        problem = self.problem
        far = problem.precision == "auto" and self.residual_norm > ROUGH * problem.y_norm
        return SampledGradient(problem, X, far or problem.precision == "mixed")

    def weighted(self, weights: Vector) -> SampledGradient:
        problem = self.problem
        return SampledGradient(problem.with_observations(problem.observations.with_weights(weights)), self.X)

    @functools.cached_property
    def _by_rows(self) -> tuple[Array, Array, Array]:
        found = self._passes.gradient_rows(self.X.U, self.X.s, self.X.V)
        observations = self.problem.observations
        if self._passes is observations or self.problem.precision == "mixed":
            return found
        if math.sqrt(float(found[2].sum())) > 1e-2 * ROUGH * self.problem.y_norm:
            return found
        self._passes = observations  # a long step, and few of the residual's digits are left
        return self._passes.gradient_rows(self.X.U, self.X.s, self.X.V)

    @functools.cached_property
    def _by_cols(self) -> tuple[Array, Array]:
        _ = self._by_rows  # first: it may find that all digits are needed
        return self._passes.gradient_cols(self.X.U, self.X.s, self.X.V)

    @property
    def GV(self) -> Array:  # type: ignore[override]
        return self._by_rows[0]

    @property
    def row_squares(self) -> Array:  # type: ignore[override]
        return self._by_rows[1]

    @property
    def GhU(self) -> Array:  # type: ignore[override]
        return self._by_cols[0]

    @property
    def col_squares(self) -> Array:  # type: ignore[override]
        return self._by_cols[1]

    @functools.cached_property
    def residual_norm(self) -> float:
        return math.sqrt(float(self._by_rows[2].sum()))

    @functools.cached_property
    def dual(self) -> Vector:
        weights = self.problem.observations.weights
        return self.residual if weights is None else weights * self.residual

    @property
    def curvature(self) -> Vector | None:  # type: ignore[override]
        return self.problem.observations.weights

    def squared_image_norm(self, xi: Tangent) -> float:
        return self.problem.squared_image_norm(xi)  # a fused pass, weights and all
