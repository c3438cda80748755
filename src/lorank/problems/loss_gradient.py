"""The gradient of completion with a loss of one's own choice: a pass for the residuals, then products with the slopes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..backends import Array, Vector
from .gradient import Gradient
from .pattern_gradient import PatternGradient

if TYPE_CHECKING:
    from .completion import Completion


class LossGradient(PatternGradient):
    """``G`` has the slopes of the loss on the pattern: solvers see these as they see the residuals of least squares."""

    def weighted(self, weights: Vector) -> Gradient:
        problem = self.problem
        return problem.squares(problem.observations.with_weights(weights)).gradient(self.X)

    def quadratic_model(self) -> Completion:
        return self.problem.squares(self.problem.observations.with_weights(self.curvature))

    @functools.cached_property
    def _squares(self) -> tuple[Array, Array]:
        return self.problem.observations.squares(self.dual)

    @property
    def row_squares(self) -> Array:  # type: ignore[override]
        return self._squares[0]

    @property
    def col_squares(self) -> Array:  # type: ignore[override]
        return self._squares[1]
