"""The gradient of completion with a loss of one's own choice: a pass for the residuals, then products with the slopes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..backends import Array, Vector
from ..geometry import FixedRank
from .gradient import Gradient

if TYPE_CHECKING:
    from .completion import Completion


class LossGradient(Gradient):
    """``G`` has the slopes of the loss on the pattern: solvers see these as they see the residuals of least squares."""

    problem: Completion

    def __init__(self, problem: Completion, X: FixedRank) -> None:
        super().__init__(problem, X)

    def weighted(self, weights: Vector) -> Gradient:
        problem = self.problem
        return problem.squares(problem.observations.with_weights(weights)).gradient(self.X)

    def local(self) -> Completion:
        return self.problem.squares(self.problem.observations.with_weights(self.curvature))

    @functools.cached_property
    def residual(self) -> Vector:
        return self.problem.observations.residual(self.X.U * self.X.s, self.X.V)

    @functools.cached_property
    def _products(self) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        return self.problem.products(self.dual)

    def times(self, v: Array) -> Array:
        return self._products[0](v)

    def adjoint_times(self, u: Array) -> Array:
        return self._products[1](u)

    @functools.cached_property
    def _squares(self) -> tuple[Array, Array]:
        return self.problem.observations.squares(self.dual)

    @property
    def row_squares(self) -> Array:  # type: ignore[override]
        return self._squares[0]

    @property
    def col_squares(self) -> Array:  # type: ignore[override]
        return self._squares[1]

    def outer(self) -> tuple[Array, Array]:
        return self.problem.observations.outer(self.dual)
