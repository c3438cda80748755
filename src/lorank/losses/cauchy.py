"""The Cauchy loss: the logarithm of heavy tails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..backends import Array
from .scaled import ScaledLoss


@dataclass(frozen=True)
class Cauchy(ScaledLoss):
    """``k^2 / 2 log(1 + d^2 / k^2)`` with ``k = threshold * scale``.

    The further off a residual, the less it pulls, and nothing is ever left out altogether: between :class:`Huber` and
    :class:`Tukey`.

    Parameters
    ----------
    threshold : float
        In scales. 2.385 loses 5 % where the noise is normal after all.
    scale : float, optional
        The standard deviation of the usual residuals; by default found from them.
    breakdown : {0.25, 0.5}
        The share of the data that may be anything while a scale that is found stays near the others'.

    Examples
    --------
    >>> import numpy as np
    >>> loss, d = Cauchy(threshold=1.0, scale=2.0), np.array([0.0, 2.0, 6.0])
    >>> loss.curvature(d, 0 * d)
    array([1. , 0.5, 0.1])
    """

    threshold: float = 2.385
    scale: float | None = None

    name: ClassVar[str] = "cauchy"
    redescending: ClassVar[bool] = True

    def phi(self, xp: Any, u: Array) -> Array:
        return xp.log1p(u) / 2

    def twice_derivative(self, xp: Any, u: Array) -> Array:
        return 1 / (1 + u)
