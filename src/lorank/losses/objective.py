"""Objective: the weighted sum of a loss over all observations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..backends import Array, Arrays, Vector, entrywise
from .loss import Loss, SquaredLoss, weighted, weighted_total

SQUARED_LOSS = SquaredLoss()
LINE_TRIES, LINE_MAX_TRIES = 4, 40  # slope evaluations of a line search; the limit where every trial step is far too long
LINE_REDUCTION = 0.2  # a line search ends when the slope is below this share of the first one


@dataclass(frozen=True, eq=False)
class Objective:
    """``f = sum_k w_k loss(z_k, y_k)`` for the predictions ``z = A X`` and the observed values y.

    Methods take the residual ``d = z - y``. Slope and curvature are vectors with one number per observation: the gradient is
    ``A* slope``, and the curvature along a direction xi is ``sum_k c_k |A xi|_k^2``.

    Parameters
    ----------
    loss : Loss
        Default: squared loss.
    weights : vector, optional
        Nonnegative, one per observation in the order of the problem. Default: ones. An observation of weight 2 counts as two.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank.backends import backend_of
    >>> d, y = np.array([1.0, -2.0]), np.array([0.0, 4.0])
    >>> squares = Objective(weights=np.array([1.0, 3.0]))
    >>> squares.value(d, y, backend_of(d)), squares.slope(d, y)
    (6.5, array([ 1., -6.]))
    >>> from lorank.losses import Huber
    >>> Objective(Huber(threshold=1.0, scale=1.0)).slope(d, y)
    array([ 1., -1.])
    """

    loss: Loss = SQUARED_LOSS
    weights: Vector | None = None

    @property
    def is_quadratic(self) -> bool:
        """Least squares, weighted or not."""
        return isinstance(self.loss, SquaredLoss)

    @property
    def has_parameters(self) -> bool:
        """The loss has parameters that are fitted to the residuals."""
        return type(self.loss).fit_parameters is not Loss.fit_parameters

    def fit_parameters(self, d: Vector, y: Vector, near: Objective | None = None) -> Objective:
        """Objective with the parameters of the loss fitted to these residuals, starting from those of ``near``."""
        loss = self.loss.fit_parameters(d, y, None if near is None else near.loss, self.weights)
        return replace(self, loss=loss)

    def value(self, d: Vector, y: Vector, backend: Arrays) -> float:
        """F in double precision, including the ridge."""
        if self.is_quadratic:
            return (backend.norm(d) ** 2 if self.weights is None else backend.inner(self.weights * d, d)) / 2
        return self._sum(d, y, self.loss.ridge)

    def at_zero(self, y: Vector, backend: Arrays) -> float:
        """F at ``X = 0``; relative residuals are in units of its root."""
        return self.value(y, y, backend) if self.is_quadratic else self.fit_parameters(-y, y).value(-y, y, backend)

    def slope(self, d: Vector, y: Vector) -> Vector:
        """Derivative of f in each z."""
        if self.is_quadratic:
            return d if self.weights is None else self.weights * d
        return weighted(partial(_slope, self.loss), self.weights, d, y)

    def curvature(self, d: Vector, y: Vector) -> Vector | None:
        """Curvature of f in each z; None for ones."""
        return self.weights if self.is_quadratic else weighted(partial(_curvature, self.loss), self.weights, d, y)

    def majorizer(self, d: Vector, y: Vector) -> tuple[Vector, Vector]:
        """Weights w and working responses t: ``sum w (z - t)^2 / 2`` plus a constant lies above f and touches it at d.

        A method for weighted least squares that decreases this sum decreases f.
        """
        loss = self.loss  # not self: functions are sent to other processes, and the weights are large

        def weight(xp: Any, d: Array, y: Array) -> Array:
            return loss.majorizer_weight(xp, d, y) + loss.ridge

        def response(xp: Any, d: Array, y: Array) -> Array:
            found = weight(xp, d, y)
            return d + y - _slope(loss, xp, d, y) / (found + (found == 0))

        return weighted(weight, self.weights, d, y), entrywise(response, d, y)

    def line_curvature(self, d: Vector, y: Vector, image: Vector, curvature: float) -> float:
        """Curvature c for which ``-slope / c`` is the exact step along ``d + alpha image``.

        Parameters
        ----------
        d, y, image : vectors
            Residual, values and direction.
        curvature : float
            Curvature along the image at d. It gives the first trial step. The slopes at the trial steps bracket the minimum;
            the next trial is a Newton step or a bisection.
        """
        if self.is_quadratic:
            return curvature
        loss = self.loss

        def derivatives(xp: Any, d: Array, y: Array, image: Array) -> tuple[Array, Array]:
            d = d + at * image
            slope = (_slope(loss, xp, d, y) * image.conj()).real
            return slope, _curvature(loss, xp, d, y) * abs(image) ** 2

        at = 0.0
        first = float(weighted_total(derivatives, self.weights, d, y, image)[0])
        if not curvature > 0 or first == 0 or not math.isfinite(first):
            return curvature
        low, high, at = 0.0, math.inf, abs(first) / curvature  # step lengths in the descent direction
        down = -math.copysign(1.0, first)
        for tries in range(LINE_MAX_TRIES):
            length, at = at, down * at
            slope, curve = weighted_total(derivatives, self.weights, d, y, image)
            slope, at = slope * down, length
            if abs(slope) <= (LINE_REDUCTION if tries < LINE_TRIES else 1.0) * abs(first):
                break
            low, high = (at, high) if slope < 0 else (low, at)
            step = at - slope / curve if curve > 0 else math.inf
            middle = (low + high) / 2 if high < math.inf else 4 * at
            # Newton steps are very short where an exponential rises steeply.
            newton = low < step < min(high, 10 * at) and slope < 4 * abs(first)
            at = step if newton else middle
        return abs(first) / at

    def typical_curvature(self, y: Vector, average: float) -> float:
        """Sum of the curvatures at the best constant prediction."""
        if self.loss.unit_curvature:
            return float(len(y)) if self.weights is None else float(self.weights.sum())
        d = (self.loss.intercept(average) or 0.0) - y
        curvature = self.fit_parameters(d, y).curvature(d, y)
        assert curvature is not None
        return float(curvature.sum())

    def deviance(self, d: Vector, y: Vector) -> float:
        """Twice the sum of the losses without the ridge; fits are compared by it."""
        return 2 * self._sum(d, y, 0.0)

    def held_out_deviance(self, d: Vector, y: Vector, fitted: Loss) -> float:
        """Deviance of held-out observations; ``fitted`` is the loss with the parameters of the fit."""
        return replace(self, loss=self.loss.for_held_out(fitted, d, y, self.weights)).deviance(d, y)

    def _sum(self, d: Vector, y: Vector, ridge: float) -> float:
        loss = self.loss

        def value(xp: Any, d: Array, y: Array) -> tuple[Array]:
            found = loss.value(xp, d, y)
            return (found + ridge / 2 * abs(d + y) ** 2 if ridge else found,)

        return float(weighted_total(value, self.weights, d, y)[0])

    def __repr__(self) -> str:
        return f"Objective({self.loss!r}{'' if self.weights is None else ', weights'})"


def _slope(loss: Loss, xp: Any, d: Array, y: Array) -> Array:
    """The slope with the ridge."""
    found = loss.slope(xp, d, y)
    return found + loss.ridge * (d + y) if loss.ridge else found


def _curvature(loss: Loss, xp: Any, d: Array, y: Array) -> Array:
    """The curvature with the ridge."""
    return loss.curvature(xp, d, y) + loss.ridge
