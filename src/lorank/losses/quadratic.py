"""Least squares, with or without weights."""

from __future__ import annotations

from dataclasses import dataclass

from ..backends import Arrays, Vector


@dataclass(frozen=True, eq=False)
class Quadratic:
    """``f(z) = 1/2 sum_k w_k |z_k - y_k|^2``.

    Parameters
    ----------
    weights : vector, optional
        Real and not negative, one per measurement in the problem's own order; None stands for ones. A measurement of weight 2
        counts like two; for noise of known variance the best weights are one over it.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank.backends import backend_of
    >>> d, y = np.array([1.0, -2.0]), np.array([0.0, 4.0])
    >>> fit = Quadratic(np.array([1.0, 3.0]))
    >>> fit.value(d, y, backend_of(d)), fit.slope(d, y)
    (6.5, array([ 1., -6.]))
    """

    weights: Vector | None = None

    def value(self, d: Vector, y: Vector, backend: Arrays) -> float:
        return self._half_square(d, backend)

    def at_zero(self, y: Vector, backend: Arrays) -> float:
        return self._half_square(y, backend)

    def slope(self, d: Vector, y: Vector) -> Vector:
        return d if self.weights is None else self.weights * d

    def curvature(self, d: Vector, y: Vector) -> Vector | None:
        return self.weights

    def _half_square(self, d: Vector, backend: Arrays) -> float:
        return (backend.norm(d) ** 2 if self.weights is None else backend.inner(self.weights * d, d)) / 2

    def __repr__(self) -> str:
        return f"Quadratic({'' if self.weights is None else 'weights'})"
