"""Tails of residuals: robust quantiles, and a test for outliers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array, Arrays, Vector, reduced, total

BINS, OCTAVES = 8, 60  # of a histogram: bins for each factor of two, and factors of two below the maximum
NORMAL_MEDIAN, NORMAL_THREE_QUARTERS = 0.6745, 1.1503  # quantiles of the absolute value of a standard normal variable
MIN_OBSERVATIONS = 100  # for a test of the tails
HEAVY_RATIO, FAR, FAR_SHARE = 1.15, 6.0, 3e-4  # normal noise stays well below these


def quantile(d: Vector, share: float, backend: Arrays) -> float:
    """Quantile of the absolute values, accurate to about 10 %: one pass over a vector of any backend.

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
        # Exponent and leading bits of a float as an integer: eight bins for each factor of two.
        digits = size.view(xp.int32) >> 20 if single else size.view(xp.int64) >> 49
        place = (BINS * 127 if single else BINS * 1023) - digits
        return xp.bincount(place.clip(0, BINS * OCTAVES), minlength=BINS * OCTAVES + 1)

    counts = reduced(count, d)[::-1]  # in increasing order
    reached = np.cumsum(counts)
    k = int(np.searchsorted(reached, share * reached[-1]))
    inside = (share * reached[-1] - (reached[k - 1] if k else 0)) / max(counts[k], 1)  # position within the bin
    octave, part = divmod(k - BINS * OCTAVES, BINS)
    return float(top * 2.0**octave * (1 + (part + inside) / BINS))


@dataclass(frozen=True)
class Tails:
    """Distribution of the residuals of a fit.

    Attributes
    ----------
    scale : float
        Standard deviation of normal noise with the same median absolute value, corrected for the degrees of freedom.
    ratio : float
        Root mean square, relative to normal noise with the same median; 1 for normal noise.
    far : float
        Share of residuals beyond :data:`FAR` scales.
    """

    scale: float
    ratio: float
    far: float

    @property
    def heavy(self) -> bool:
        """The tails are heavier than those of normal noise or of bounded data."""
        return self.ratio > HEAVY_RATIO and self.far > FAR_SHARE


def outlier_share(d: Vector, y: Vector, dof: float, backend: Arrays, noise: bool) -> float:
    """Share of probable outliers among the residuals of a converged least squares fit; 0 where there are none.

    Parameters
    ----------
    d, y : vectors
        Residuals and values.
    dof : float
        Degrees of freedom of the fit; with fewer than two observations for each, the share is 0.
    backend : Arrays
    noise : bool
        The residuals are white noise. Otherwise the rank may be too low, which also causes heavy tails in large entries: then
        only values count that are extreme themselves.
    """
    found = tails(d, dof, backend)
    if len(d) < max(MIN_OBSERVATIONS, 2 * dof) or not found.heavy:
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
    """Distribution of the residuals of a fit with ``dof`` degrees of freedom.

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
