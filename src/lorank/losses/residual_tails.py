"""Deviations of measurements from a fit: weights that large ones do not get, quantiles, and whether the tails are heavy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array, Arrays, Vector, reduced, total

STEPS, DEPTH = 8, 60  # bins of a histogram for each factor of two, and factors of two below the largest
NORMAL_MEDIAN, NORMAL_THREE_QUARTERS = 0.6745, 1.1503  # of the absolute value of a standard normal number
FEWEST = 100  # observations from which on tails say anything
HEAVY_RATIO, FAR, FAR_SHARE = 1.15, 6.0, 3e-4  # what tails of normal noise stay below by far


def quantile(d: Vector, share: float, backend: Arrays) -> float:
    """The size that about a ``share`` of the deviations stay below, within a tenth: from one pass, whatever holds the vector.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank.backends import get_backend
    >>> 0.45 < quantile(np.linspace(-1, 1, 1001), 0.5, get_backend("numpy")) < 0.55
    True
    """
    top = backend.max_abs(d)
    if top == 0:
        return 0.0

    def count(xp: Any, d: Array) -> Array:
        size = abs(d) / top
        single = size.dtype == xp.float32
        # The exponent and the first digits of a float, read as a whole number: eight bins for each factor of two.
        digits = size.view(xp.int32) >> 20 if single else size.view(xp.int64) >> 49
        place = (STEPS * 127 if single else STEPS * 1023) - digits
        return xp.bincount(place.clip(0, STEPS * DEPTH), minlength=STEPS * DEPTH + 1)

    counts = reduced(count, d)[::-1]  # from the smallest sizes on
    reached = np.cumsum(counts)
    k = int(np.searchsorted(reached, share * reached[-1]))
    inside = (share * reached[-1] - (reached[k - 1] if k else 0)) / max(counts[k], 1)  # how far into the bin
    octave, part = divmod(k - STEPS * DEPTH, STEPS)
    return float(top * 2.0**octave * (1 + (part + inside) / STEPS))


@dataclass(frozen=True)
class Tails:
    """How the deviations from a fit are distributed.

    Attributes
    ----------
    scale : float
        The standard deviation that normal noise with the same median would have, with the degrees of freedom taken off.
    ratio : float
        The root mean square over that of normal noise with the same median; 1 for normal noise.
    far : float
        The share of deviations beyond :data:`FAR` scales.
    """

    scale: float
    ratio: float
    far: float

    @property
    def heavy(self) -> bool:
        """Whether there is more in the tails than normal noise, or numbers from a short range, ever have."""
        return self.ratio > HEAVY_RATIO and self.far > FAR_SHARE


def look_like_outliers(d: Vector, y: Vector, dof: float, backend: Arrays, noise: bool) -> float:
    """The share of observations that look like outliers of a fit by least squares that has come to its end; 0 where none do.

    Deviations must have heavy tails. Where what is left is no noise, a rank that is too low makes heavy tails, too, in entries
    that are large: then only values count that are far out themselves. With fewer than two observations for each degree of
    freedom nobody can tell.
    """
    found = tails(d, dof, backend)
    if len(d) < max(FEWEST, 2 * dof) or not found.heavy:
        return 0.0
    if noise:
        return found.far
    limit, scale = (
        FAR * quantile(y, 0.5, backend) / NORMAL_MEDIAN,
        FAR * found.scale * math.sqrt(max(len(d) - dof, 1.0) / len(d)),
    )

    def both(xp: Any, d: Array, y: Array) -> tuple[Array]:
        return (0 * abs(d) + ((abs(d) > scale / 2) & (abs(y) > limit)),)

    far = float(total(both, d, y)[0]) / len(d)
    return far if far > 10 * FAR_SHARE else 0.0


def tails(d: Vector, dof: float, backend: Arrays) -> Tails:
    """The distribution of deviations from a fit with so many degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank.backends import get_backend
    >>> d = np.random.default_rng(0).standard_normal(10_000)
    >>> tails(d, 0, get_backend("numpy")).heavy
    False
    >>> tails(np.where(np.arange(10_000) % 50, d, 100 * d), 0, get_backend("numpy")).heavy
    True
    """
    m = len(d)
    scale = quantile(d, 0.5, backend) / NORMAL_MEDIAN
    if scale == 0:
        return Tails(0.0, math.inf if backend.max_abs(d) else 1.0, 0.0)
    far, square = total(lambda xp, d: (0 * abs(d) + (abs(d) > FAR * scale), abs(d / scale) ** 2), d) / m
    return Tails(scale * math.sqrt(m / max(m - dof, 1.0)), math.sqrt(square), float(far))
