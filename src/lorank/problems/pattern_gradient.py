"""What gradients of completion have in common, whatever the loss: products with one number per observed entry."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..backends import Array, Vector
from .gradient import Gradient

if TYPE_CHECKING:
    from .completion import Completion


class PatternGradient(Gradient):
    """``G`` has the numbers ``dual`` on the pattern of the observations, and zeros elsewhere."""

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
