"""Robust losses: Huber, absolute, Cauchy and Tukey, with a scale fitted to the residuals."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ..backends import Array, Vector, total
from ..common.checks import POSITIVE, Checked, Expected, optional, parameter
from .loss import Loss, weighted_total

# Tukey's M-scale: the cutoff of its function, in scales, and the function's mean for normal noise. The mean is the breakdown
# point. A quarter is the default: with a half, a fit of one half of the data can pass for a good fit.
HALF, QUARTER = (1.547, 0.5), (2.937, 0.25)
MIN_SCALE_RATIO = 0.8  # a scale decreases at most to this share per point: residuals that are not fitted yet are no outliers
SCALE_MAX_ITER, SCALE_TOLERANCE = 40, 1e-3  # of the fixed-point iteration
MIN_RELATIVE_SCALE = 1e-9  # of the root mean square of the data
_BREAKDOWN = Expected("be 0.25 or 0.5", lambda value: not isinstance(value, bool) and value in (0.25, 0.5))


@dataclass(frozen=True)
class ScaledLoss(Checked, Loss):
    """Base class of robust losses: ``k^2 phi(|d|^2 / k^2)`` with ``k = threshold * scale`` and a concave phi.

    The loss is ``|d|^2 / 2`` for small residuals and grows more slowly for large ones. Because phi is concave, the parabola
    with the weight ``2 phi'(|d|^2 / k^2)`` lies above the loss: iteratively reweighted least squares never increases it.

    Parameters
    ----------
    threshold : float
        Size of the residuals, in scales, from which on their influence is reduced.
    scale : float, optional
        Standard deviation of the residuals without outliers. By default a robust estimate (Tukey's M-scale, consistent for
        normal noise), which decreases with the residuals and never increases, so that the objective decreases in each step.
    breakdown : {0.25, 0.5}
        Share of outliers that the estimated scale resists. Default 0.25; 0.5 suits fits that are good already.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank.losses import Huber
    >>> d = np.concatenate([np.random.default_rng(0).standard_normal(1000), np.full(50, 100.0)])
    >>> bool(0.9 < Huber().fit_parameters(d, 0 * d).scale < 1.2)
    True
    """

    threshold: float = parameter(1.0, POSITIVE)
    scale: float | None = parameter(None, optional(POSITIVE))
    breakdown: float = parameter(0.25, _BREAKDOWN)

    takes_complex: ClassVar[bool] = True
    unit_curvature: ClassVar[bool] = True

    @abstractmethod
    def phi(self, xp: Any, u: Array) -> Array:
        """phi, as a function of ``u = |d|^2 / k^2``."""

    @abstractmethod
    def twice_derivative(self, xp: Any, u: Array) -> Array:
        """``2 phi'(u)``: 1 at 0, and decreasing."""

    @property
    def k(self) -> float:
        """Threshold in the units of the data."""
        if self.scale is None:
            raise ValueError(f"{type(self).__name__} has no scale yet: pass scale=, or call fit_parameters(d, y) first")
        return self.threshold * self.scale

    def value(self, xp: Any, d: Array, y: Array) -> Array:
        return self.k**2 * self.phi(xp, abs(d / self.k) ** 2)

    def slope(self, xp: Any, d: Array, y: Array) -> Array:
        return self.twice_derivative(xp, abs(d / self.k) ** 2) * d

    def curvature(self, xp: Any, d: Array, y: Array) -> Array:
        return self.twice_derivative(xp, abs(d / self.k) ** 2)

    def fit_parameters(self, d: Vector, y: Vector, near: Any = None, weights: Vector | None = None) -> Self:
        if self.scale is not None:
            return self
        square = float(total(lambda xp, y: (abs(y) ** 2,), y)[0])
        least = max(MIN_RELATIVE_SCALE * math.sqrt(square / len(y)), 1e-30)  # exact data have zero residuals
        if not isinstance(near, ScaledLoss) or near.scale is None:
            return replace(self, scale=max(m_scale(d, weights, kind=self._kind), least))
        found = m_scale(d, weights, near.scale, self._kind)
        return replace(self, scale=min(near.scale, max(found, MIN_SCALE_RATIO * near.scale, least)))

    @property
    def _kind(self) -> tuple[float, float]:
        return HALF if self.breakdown == 0.5 else QUARTER

    def for_held_out(self, fitted: Loss, d: Vector, y: Vector, weights: Vector | None = None) -> Loss:
        """Loss with the scale of these residuals: the scale of an overfitted model is too small."""
        return replace(self, scale=None).fit_parameters(d, y, None, weights)

    def noise(self, d: Vector, y: Vector, dof: float, weights: Vector | None = None) -> float:
        """Scale of the residuals, corrected for the degrees of freedom."""
        return m_scale(d, weights, kind=HALF) * math.sqrt(len(d) / max(len(d) - dof, 1.0))


def m_scale(d: Vector, weights: Vector | None = None, start: float | None = None, kind: tuple[float, float] = QUARTER) -> float:
    """Tukey's M-scale: the s at which the mean of Tukey's function of ``d / s`` has its value for normal noise.

    ``kind`` is the cutoff in scales and that value, :data:`HALF` or :data:`QUARTER`; ``start`` the first s of the iteration.
    """

    def squares(xp: Any, d: Array) -> tuple[Array, Array]:
        q = abs(d) ** 2
        return q, 0 * q + 1

    def bounded(xp: Any, d: Array) -> tuple[Array, Array, Array]:
        bound = max(cutoff * s, float(xp.finfo(d.dtype).tiny))  # s goes to 0 where too few residuals differ from 0
        u = (abs(d).clip(max=bound) / bound) ** 2  # in this order: quotients and squares may overflow
        rest = 1 - u
        chi, fall = 1 - rest**3, 6 * u * rest**2  # the function, and minus its derivative in log s
        return chi, fall, 0 * chi + 1

    cutoff, expected = kind
    if start is None:
        square, count = weighted_total(squares, weights, d)
        start = math.sqrt(square / count)
    s = start
    if not s > 0 or not math.isfinite(s):
        return 0.0
    for _ in range(SCALE_MAX_ITER):
        mean, fall, count = weighted_total(bounded, weights, d)
        if not mean > 0:
            return 0.0
        slow = math.log(mean / count / expected) / 2  # step of the fixed-point iteration; Newton's where that is small
        step = (mean - expected * count) / fall if fall > 0 else slow
        step = step if abs(slow) < 0.3 and abs(step) < 4 * abs(slow) else 2 * slow
        s *= math.exp(min(max(step, -2.0), 2.0))
        if abs(step) < SCALE_TOLERANCE:
            break
    return s


@dataclass(frozen=True)
class Huber(ScaledLoss):
    """Huber's loss: ``d^2 / 2`` up to ``k = threshold * scale``, and ``k |d| - k^2 / 2`` beyond.

    For data with a few gross errors. The loss is convex and adds no local minima; the influence of an outlier is bounded.

    Parameters
    ----------
    threshold : float
        In scales. The default 1.345 has 95 % efficiency for normal noise.
    scale, breakdown
        As for :class:`ScaledLoss`.

    Examples
    --------
    >>> import numpy as np
    >>> loss, d = Huber(threshold=1.0, scale=1.0), np.array([0.5, -3.0])
    >>> loss.slope(np, d, 0 * d), loss.curvature(np, d, 0 * d)
    (array([ 0.5, -1. ]), array([1.        , 0.33333333]))
    """

    threshold: float = 1.345

    name: ClassVar[str] = "huber"

    def phi(self, xp: Any, u: Array) -> Array:
        return xp.where(u <= 1, u / 2, u**0.5 - 0.5)

    def twice_derivative(self, xp: Any, u: Array) -> Array:
        return u.clip(min=1) ** -0.5


@dataclass(frozen=True)
class Absolute(ScaledLoss):
    """Smoothed absolute value: ``k ((d^2 + k^2)^(1/2) - k)`` with ``k = threshold * scale``.

    Fits medians instead of means: for heavy-tailed noise.

    Parameters
    ----------
    threshold : float
        Width of the smoothed tip, in scales. Default 0.2.
    scale, breakdown
        As for :class:`ScaledLoss`.

    Examples
    --------
    >>> import numpy as np
    >>> loss, d = Absolute(threshold=0.1, scale=1.0), np.array([-3.0, 3.0])
    >>> np.round(loss.slope(np, d, 0 * d) / 0.1, 3)
    array([-0.999,  0.999])
    """

    threshold: float = 0.2

    name: ClassVar[str] = "absolute"

    def phi(self, xp: Any, u: Array) -> Array:
        return u / ((1 + u) ** 0.5 + 1)

    def twice_derivative(self, xp: Any, u: Array) -> Array:
        return (1 + u) ** -0.5


@dataclass(frozen=True)
class Cauchy(ScaledLoss):
    """Cauchy loss: ``k^2 / 2 log(1 + d^2 / k^2)`` with ``k = threshold * scale``.

    The influence of a residual decreases with its size and is never zero: between :class:`Huber` and :class:`Tukey`.

    Parameters
    ----------
    threshold : float
        In scales. The default 2.385 has 95 % efficiency for normal noise.
    scale, breakdown
        As for :class:`ScaledLoss`.

    Examples
    --------
    >>> import numpy as np
    >>> loss, d = Cauchy(threshold=1.0, scale=2.0), np.array([0.0, 2.0, 6.0])
    >>> loss.curvature(np, d, 0 * d)
    array([1. , 0.5, 0.1])
    """

    threshold: float = 2.385

    name: ClassVar[str] = "cauchy"
    redescending: ClassVar[bool] = True

    def phi(self, xp: Any, u: Array) -> Array:
        return xp.log1p(u) / 2

    def twice_derivative(self, xp: Any, u: Array) -> Array:
        return 1 / (1 + u)


@dataclass(frozen=True)
class Tukey(ScaledLoss):
    """Tukey's biweight: ``k^2 / 6 (1 - (1 - d^2 / k^2)^3)`` up to ``k = threshold * scale``, and constant beyond.

    Outliers have no influence. The loss is not convex: at a poor fit, good data may be taken for outliers. The scale decreases
    slowly with the residuals, which makes this rare.

    Parameters
    ----------
    threshold : float
        In scales. The default 4.685 has 95 % efficiency for normal noise.
    scale, breakdown
        As for :class:`ScaledLoss`.

    Examples
    --------
    >>> import numpy as np
    >>> loss, d = Tukey(threshold=4.0, scale=1.0), np.array([0.0, 2.0, 5.0])
    >>> loss.curvature(np, d, 0 * d)
    array([1.    , 0.5625, 0.    ])
    """

    threshold: float = 4.685

    name: ClassVar[str] = "tukey"
    redescending: ClassVar[bool] = True

    def phi(self, xp: Any, u: Array) -> Array:
        u = u.clip(max=1)
        return u * (3 - 3 * u + u * u) / 6

    def twice_derivative(self, xp: Any, u: Array) -> Array:
        return (1 - u).clip(min=0) ** 2
