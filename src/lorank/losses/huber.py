"""Huber's loss: squares for small residuals, absolute values for large ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..backends import Array
from .scaled import ScaledLoss


@dataclass(frozen=True)
class Huber(ScaledLoss):
    """``d^2 / 2`` up to ``k = threshold * scale``, and ``k |d| - k^2 / 2`` beyond.

    For noise with a few gross errors. Convex, so that it adds no local minima; a gross error still pulls, with a bounded
    force.

    Parameters
    ----------
    threshold : float
        In scales. 1.345 loses 5 % where the noise is normal after all.
    scale : float, optional
        The standard deviation of the usual residuals; by default found from them.
    breakdown : {0.25, 0.5}
        The share of the data that may be anything while a scale that is found stays near the others'.

    Examples
    --------
    >>> import numpy as np
    >>> loss, d = Huber(threshold=1.0, scale=1.0), np.array([0.5, -3.0])
    >>> loss.slope(d, 0 * d), loss.curvature(d, 0 * d)
    (array([ 0.5, -1. ]), array([1.        , 0.33333333]))
    """

    threshold: float = 1.345
    scale: float | None = None

    name: ClassVar[str] = "huber"

    def phi(self, xp: Any, u: Array) -> Array:
        return xp.where(u <= 1, u / 2, u**0.5 - 0.5)

    def twice_derivative(self, xp: Any, u: Array) -> Array:
        return u.clip(min=1) ** -0.5
