"""Tukey's biweight: what is far off counts for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..backends import Array
from .scaled import ScaledLoss


@dataclass(frozen=True)
class Tukey(ScaledLoss):
    """``k^2 / 6 (1 - (1 - d^2 / k^2)^3)`` up to ``k = threshold * scale``, and constant beyond.

    Gross errors have no influence at all. Not convex: where the fit is poor at first, good data may be held for errors, which
    the scale that falls with the residuals makes rare.

    Parameters
    ----------
    threshold : float
        In scales. 4.685 loses 5 % where the noise is normal after all.
    scale : float, optional
        The standard deviation of the usual residuals; by default found from them.
    breakdown : {0.25, 0.5}
        The share of the data that may be anything while a scale that is found stays near the others'.

    Examples
    --------
    >>> import numpy as np
    >>> loss, d = Tukey(threshold=4.0, scale=1.0), np.array([0.0, 2.0, 5.0])
    >>> loss.curvature(d, 0 * d)
    array([1.    , 0.5625, 0.    ])
    """

    threshold: float = 4.685
    scale: float | None = None

    name: ClassVar[str] = "tukey"
    redescending: ClassVar[bool] = True

    def phi(self, xp: Any, u: Array) -> Array:
        u = u.clip(max=1)
        return u * (3 - 3 * u + u * u) / 6

    def twice_derivative(self, xp: Any, u: Array) -> Array:
        return (1 - u).clip(min=0) ** 2
