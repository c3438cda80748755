"""What losses against outliers share: a scale that tells usual residuals from large ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ..backends import Array, Vector, total
from ..common.checks import POSITIVE, Expected, check_parameters, optional
from .loss import Loss, _given

# Tukey's function with a cut has a mean for normal noise. Where that is a half, half of the data may be anything; where it is a
# quarter, a quarter: less is lost to errors, and a fit of half of the data to nothing is not taken for a success.
HALF, QUARTER = (1.547, 0.5), (2.937, 0.25)
SLOWLY = 0.8  # a scale falls at most to this share from one point to the next: what is not fitted yet is no error
STEPS, ENOUGH = 40, 1e-3  # of the fixed point iteration, and the relative change at which it ends
LEAST = 1e-9  # of the scale of the data themselves
_BREAKDOWN = Expected("be 0.25 or 0.5", lambda value: not isinstance(value, bool) and value in (0.25, 0.5))


@dataclass(frozen=True)
class ScaledLoss(Loss):
    """``k^2 phi(|d|^2 / k^2)`` with ``k = threshold * scale`` and phi concave: a square for small residuals, less for large.

    Because phi is concave, the parabola with the weight ``2 phi'(|d|^2 / k^2)`` lies above the loss: iteratively reweighted
    least squares never raise it.

    Parameters
    ----------
    threshold : float
        In scales: where residuals begin to count for less.
    scale : float, optional
        The standard deviation of the usual residuals. By default it is found from them: a robust estimate (Tukey's M-scale,
        right for normal noise, and not moved far by less than half of the data), which falls as the fit gets better and
        never rises again, so that the loss falls in each step.
    breakdown : {0.25, 0.5}
        The share of the data that may be anything while that scale stays near the others'. Half is for fits that are good
        already: at a poor one, half of the data may fit by chance.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank.losses import Huber
    >>> d = np.concatenate([np.random.default_rng(0).standard_normal(1000), np.full(50, 100.0)])
    >>> bool(0.9 < Huber().settled(d, 0 * d).scale < 1.2)  # gross errors hardly move it
    True
    """

    threshold: float = 1.0
    scale: float | None = None
    breakdown: float = 0.25

    takes_complex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_parameters(self, threshold=POSITIVE, scale=optional(POSITIVE), breakdown=_BREAKDOWN)

    @abstractmethod
    def phi(self, xp: Any, u: Array) -> Array:
        """The function, of ``u = |d|^2 / k^2``."""

    @abstractmethod
    def twice_derivative(self, xp: Any, u: Array) -> Array:
        """``2 phi'(u)``: 1 at 0, and falling."""

    @property
    def k(self) -> float:
        if self.scale is None:
            raise ValueError(f"{type(self).__name__} has no scale yet: give it one, or take .settled(d, y) first")
        return self.threshold * self.scale

    def losses(self, xp: Any, d: Array, y: Array) -> Array:
        return self.k**2 * self.phi(xp, abs(d / self.k) ** 2)

    def slopes(self, xp: Any, d: Array, y: Array) -> Array:
        return self.twice_derivative(xp, abs(d / self.k) ** 2) * d

    def curvatures(self, xp: Any, d: Array, y: Array) -> Array:
        return self.twice_derivative(xp, abs(d / self.k) ** 2)

    def settled(self, d: Vector, y: Vector, near: Any = None, weights: Vector | None = None) -> Self:
        if self.scale is not None:
            return self
        square, count = total(lambda xp, y: (abs(y) ** 2, 0 * abs(y) + 1), y)
        least = max(LEAST * math.sqrt(square / count), 1e-30)  # exact data leave nothing, and nothing is no scale
        if not isinstance(near, ScaledLoss) or near.scale is None:
            return replace(self, scale=max(m_scale(d, weights, kind=self._kind), least))
        found = m_scale(d, weights, near.scale, self._kind)
        return replace(self, scale=min(near.scale, max(found, SLOWLY * near.scale, least)))

    @property
    def _kind(self) -> tuple[float, float]:
        return HALF if self.breakdown == 0.5 else QUARTER

    def typical_curvature(self, y: Vector, average: float, weights: Vector | None = None) -> float:
        return float(len(y)) if weights is None else float(weights.sum())  # that of small residuals

    def held_out(self, d: Vector, y: Vector, learned: Loss, weights: Vector | None = None) -> float:
        """In the scale of these residuals themselves: a fit that has learned too much has a scale that is too small."""
        return replace(self, scale=None).settled(d, y, None, weights).deviance(d, y, weights)

    def noise(self, d: Vector, y: Vector, dof: float, weights: Vector | None = None) -> float:
        """The scale of the usual residuals, with the degrees of freedom taken off."""
        count = float(total(lambda xp, d: (0 * abs(d) + 1,), d)[0])
        return m_scale(d, weights, kind=HALF) * math.sqrt(count / max(count - dof, 1.0))


def m_scale(d: Vector, weights: Vector | None = None, start: float | None = None, kind: tuple[float, float] = QUARTER) -> float:
    """The s at which the mean of Tukey's function of ``d / s`` is what normal noise of standard deviation s gives."""

    def squares(xp: Any, d: Array, *w: Array) -> tuple[Array, Array]:
        q = abs(d) ** 2
        return (w[0] * q, w[0]) if w else (q, 0 * q + 1)

    def bounded(xp: Any, d: Array, *w: Array) -> tuple[Array, Array, Array]:
        u = (abs(d / (cut * s)) ** 2).clip(max=1)
        rest = 1 - u
        chi, fall = 1 - rest**3, 6 * u * rest**2  # the function, and how fast it falls with log s
        return (w[0] * chi, w[0] * fall, w[0]) if w else (chi, fall, 0 * chi + 1)

    given, (cut, expected) = _given(weights), kind
    if start is None:
        square, count = total(squares, d, *given)
        start = math.sqrt(square / count)
    s = start
    if not s > 0 or not math.isfinite(s):
        return 0.0
    for _ in range(STEPS):
        mean, fall, count = total(bounded, d, *given)
        if not mean > 0:
            return 0.0
        slow = math.log(mean / count / expected) / 2  # the fixed point iteration, and Newton's method where it is near
        step = (mean - expected * count) / fall if fall > 0 else slow
        step = step if abs(slow) < 0.3 and abs(step) < 4 * abs(slow) else 2 * slow
        s *= math.exp(min(max(step, -2.0), 2.0))
        if abs(step) < ENOUGH:
            break
    return s
