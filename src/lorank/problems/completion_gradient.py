"""Gradients of matrix completion: fused passes for least squares, products with slopes for other losses."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..backends import Array, Vector
from ..geometry import FixedRank, Tangent
from .gradient import Gradient

if TYPE_CHECKING:
    from .completion import Completion

MIXED_ABOVE = 1e-3  # relative residual above which float32 gathers suffice: their errors in a gradient are about 1e-7


class PatternGradient(Gradient):
    """A sparse gradient: the vector ``dual`` on the pattern of the observations."""

    problem: Completion

    @functools.cached_property
    def residual(self) -> Vector:
        """``A X - y`` on the pattern."""
        return self.problem.observations.residual(self.X.U * self.X.s, self.X.V)

    @functools.cached_property
    def _products(self) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        return self.problem.products(self.dual)

    def times(self, v: Array) -> Array:
        return self._products[0](v)

    def adjoint_times(self, u: Array) -> Array:
        return self._products[1](u)

    def outer(self) -> tuple[Array, Array]:
        return self.problem.observations.outer(self.dual)


class SampledGradient(PatternGradient):
    """Gradient for least squares: one pass gives ``G V`` and row norms, another ``G^H U`` and column norms.

    With ``mixed`` the passes gather factors in float32 until the residual needs more digits.
    """

    def __init__(self, problem: Completion, X: FixedRank, mixed: bool = False) -> None:
        super().__init__(problem, X)
        self._passes = problem.observations.mixed_precision if mixed else problem.observations

    def at(self, X: FixedRank) -> SampledGradient:
        problem = self.problem
        far = problem.precision == "auto" and self.residual_norm > MIXED_ABOVE * problem.y_norm
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
        if math.sqrt(float(found[2].sum())) > 1e-2 * MIXED_ABOVE * self.problem.y_norm:
            return found
        self._passes = observations  # a long step has left too few digits of the residual
        return self._passes.gradient_rows(self.X.U, self.X.s, self.X.V)

    @functools.cached_property
    def _by_cols(self) -> tuple[Array, Array]:
        _ = self._by_rows  # first: it may switch to full precision
        return self._passes.gradient_cols(self.X.U, self.X.s, self.X.V)

    @property
    def GV(self) -> Array:  # type: ignore[override]
        return self._by_rows[0]

    @property
    def GhU(self) -> Array:  # type: ignore[override]
        return self._by_cols[0]

    @property
    def squared_norms(self) -> tuple[Array, Array]:  # type: ignore[override]
        return self._by_rows[1], self._by_cols[1]

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
        return self.problem.squared_image_norm(xi)  # a fused pass that includes the weights


class LossGradient(PatternGradient):
    """Gradient for a general loss: the slopes of the loss take the place of the residuals."""

    def weighted(self, weights: Vector) -> Gradient:
        problem = self.problem
        return problem.squares(problem.observations.with_weights(weights)).gradient(self.X)

    def quadratic_model(self) -> Completion:
        return self.problem.squares(self.problem.observations.with_weights(self.curvature))

    @functools.cached_property
    def squared_norms(self) -> tuple[Array, Array]:
        return self.problem.observations.squares(self.dual)
