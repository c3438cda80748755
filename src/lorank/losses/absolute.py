"""The absolute value, smoothed at zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..backends import Array
from .scaled import ScaledLoss


@dataclass(frozen=True)
class Absolute(ScaledLoss):
    """``k ((d^2 + k^2)^(1/2) - k)`` with ``k = threshold * scale``: k times the absolute value, but for a smooth tip.

    Fits medians rather than means: for noise with heavy tails throughout.

    Parameters
    ----------
    threshold : float
        In scales: how wide the tip is.
    scale : float, optional
        The standard deviation of the usual residuals; by default found from them.
    breakdown : {0.25, 0.5}
        The share of the data that may be anything while a scale that is found stays near the others'.

    Examples
    --------
    >>> import numpy as np
    >>> loss, d = Absolute(threshold=0.1, scale=1.0), np.array([-3.0, 3.0])
    >>> np.round(loss.slope(d, 0 * d) / 0.1, 3)
    array([-0.999,  0.999])
    """

    threshold: float = 0.2
    scale: float | None = None

    name: ClassVar[str] = "absolute"

    def phi(self, xp: Any, u: Array) -> Array:
        return u / ((1 + u) ** 0.5 + 1)

    def twice_derivative(self, xp: Any, u: Array) -> Array:
        return (1 + u) ** -0.5
