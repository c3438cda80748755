"""What one loss is: functions of a residual, entry by entry, and what follows from them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from ..backends import Array, Arrays, Vector, entrywise, total

LINE_TRIES, MOST_TRIES = 4, 40  # evaluations of a slope along a line, and where they are all far too long;
LINE_SHARE = 0.2  # a slope of this share of the first one is as good as zero


class Loss(ABC):
    """How one measurement z is compared with one number y. A loss is one file, and solvers know none of them.

    A file says four things of arrays of residuals ``d = z - y`` and data y: the loss, its slope, a curvature, and the weight of
    a parabola that lies above the loss and touches it at d. Each is a function of ``xp``, the module that computes with the
    arrays (``numpy`` or ``torch``). And it says what data it takes (:meth:`prepare`) and what it predicts (:meth:`mean`).

    The ``ridge`` adds ``ridge |z|^2 / 2`` for each observation, where data could otherwise be fitted better and better by
    larger and larger z (classes that a matrix separates, rows without a count).

    Examples
    --------
    >>> import numpy as np, lorank as lr
    >>> class FourthPower(lr.losses.Loss):  # from which large errors get even more
    ...     name = "fourth power"
    ...     def losses(self, xp, d, y):
    ...         return d**4 / 4
    ...     def slopes(self, xp, d, y):
    ...         return d**3
    ...     def curvatures(self, xp, d, y):
    ...         return 3 * d**2
    >>> FourthPower().slope(np.array([1.0, -2.0]), np.zeros(2))
    array([ 1., -8.])
    """

    name: ClassVar[str]
    discrete: ClassVar[bool] = False  # classes or counts: z is not in the units of y
    redescending: ClassVar[bool] = False  # large residuals pull less than small ones: there are local minima
    takes_complex: ClassVar[bool] = False
    exact_means: ClassVar[bool] = False  # whether repeated observations are as good as their weighted mean
    ridge: float = 0.0

    # -- one file says this ------------------------------------------------------------------------------------------
    @abstractmethod
    def losses(self, xp: Any, d: Array, y: Array) -> Array:
        """The loss of each entry, 0 or more, without the ridge."""

    @abstractmethod
    def slopes(self, xp: Any, d: Array, y: Array) -> Array:
        """Its derivative in z."""

    @abstractmethod
    def curvatures(self, xp: Any, d: Array, y: Array) -> Array:
        """Its second derivative, or what Gauss-Newton steps had better take for it: not negative."""

    def weights(self, xp: Any, d: Array, y: Array) -> Array:
        """The curvature of a parabola that touches the loss at d and lies above it."""
        return self.curvatures(xp, d, y)

    def prepare(self, values: Array, backend: Arrays) -> tuple[Array, Self]:
        """The data as they are computed with, and the loss that knows what it has to know of them; or a ValueError that
        names what does not fit, and what would.
        """
        return values, self

    def encoded(self, values: Array) -> Array:
        """Data as they are computed with, of a loss that :meth:`prepare` has seen others for."""
        return values

    def mean(self, z: np.ndarray) -> np.ndarray:
        """What is to be expected of y where the matrix is z: the link for predictions."""
        return z

    def constant(self, average: float) -> float | None:
        """The z that fits best where all entries have the same, given the average of y; None where it is 0 or of no use."""
        return None

    def settled(self, d: Vector, y: Vector, near: Any = None, weights: Vector | None = None) -> Self:
        """The same loss with the parameters that fit best at a point: scales, thresholds. Itself where it has none."""
        return self

    # -- and this follows --------------------------------------------------------------------------------------------
    def value(self, d: Vector, y: Vector, backend: Arrays | None = None, weights: Vector | None = None) -> float:
        """The sum of all losses, the ridge included."""
        return self.sums(d, y, weights, self.ridge)

    def deviance(self, d: Vector, y: Vector, weights: Vector | None = None) -> float:
        """Twice the sum of all losses, without the ridge: what fits are compared by, on held-out observations for example."""
        return 2 * self.sums(d, y, weights, 0.0)

    def held_out(self, d: Vector, y: Vector, learned: Loss, weights: Vector | None = None) -> float:
        """The deviance of observations that a fit has not seen, by what the loss has ``learned`` in that fit."""
        return learned.deviance(d, y, weights)

    def sums(self, d: Vector, y: Vector, weights: Vector | None, ridge: float) -> float:
        def one(xp: Any, d: Array, y: Array, *w: Array) -> tuple[Array]:
            found = self.losses(xp, d, y)
            found = found + ridge / 2 * abs(d + y) ** 2 if ridge else found
            return (w[0] * found if w else found,)

        return float(total(one, d, y, *_given(weights))[0])

    def at_zero(self, y: Vector, backend: Arrays | None = None, weights: Vector | None = None) -> float:
        """The value at ``X = 0``."""
        return self.settled(-y, y, None, weights).value(-y, y, backend, weights)

    def slope(self, d: Vector, y: Vector, weights: Vector | None = None) -> Vector:
        def one(xp: Any, d: Array, y: Array, *w: Array) -> Array:
            found = self._slopes(xp, d, y)
            return w[0] * found if w else found

        return entrywise(one, d, y, *_given(weights))

    def curvature(self, d: Vector, y: Vector, weights: Vector | None = None) -> Vector:
        def one(xp: Any, d: Array, y: Array, *w: Array) -> Array:
            found = self.curvatures(xp, d, y) + self.ridge
            return w[0] * found if w else found

        return entrywise(one, d, y, *_given(weights))

    def majorizer(self, d: Vector, y: Vector, weights: Vector | None = None) -> tuple[Vector, Vector]:
        """Weights w and working responses t: ``sum w (z - t)^2 / 2`` plus a constant lies above the loss and touches it at d.

        With them every method for weighted least squares lowers the loss.
        """

        def weight(xp: Any, d: Array, y: Array, *w: Array) -> Array:
            found = self.weights(xp, d, y) + self.ridge
            return w[0] * found if w else found

        def response(xp: Any, d: Array, y: Array) -> Array:
            found = self.weights(xp, d, y) + self.ridge
            return d + y - self._slopes(xp, d, y) / (found + (found == 0))

        return entrywise(weight, d, y, *_given(weights)), entrywise(response, d, y)

    def line_energy(self, d: Vector, y: Vector, image: Vector, energy: float, weights: Vector | None = None) -> float:
        """The energy by which the exact step along ``d + alpha image`` is the slope over it.

        ``energy``, the curvature along the image at d, gives the first try; the slope at each try brackets the minimum, and the
        next one is Newton's or in the middle.
        """

        def one(xp: Any, d: Array, y: Array, image: Array, *w: Array) -> tuple[Array, Array]:
            d = d + at * image
            slope = (self._slopes(xp, d, y) * image.conj()).real
            curve = (self.curvatures(xp, d, y) + self.ridge) * abs(image) ** 2
            return (w[0] * slope, w[0] * curve) if w else (slope, curve)

        given = _given(weights)
        at = 0.0
        first = float(total(one, d, y, image, *given)[0])
        if not energy > 0 or first == 0 or not math.isfinite(first):
            return energy
        low, high, at = 0.0, math.inf, abs(first) / energy  # in units of the downhill direction
        down = -math.copysign(1.0, first)
        for tries in range(MOST_TRIES):
            length, at = at, down * at
            slope, curve = total(one, d, y, image, *given)
            slope, at = slope * down, length
            if abs(slope) <= (LINE_SHARE if tries < LINE_TRIES else 1.0) * abs(first):
                break
            low, high = (at, high) if slope < 0 else (low, at)
            step = at - slope / curve if curve > 0 else math.inf
            middle = (low + high) / 2 if high < math.inf else 4 * at
            near = low < step < min(high, 10 * at) and slope < 4 * abs(
                first
            )  # where an exponential rises, Newton's steps creep
            at = step if near else middle
        return abs(first) / at

    def typical_curvature(self, y: Vector, average: float, weights: Vector | None = None) -> float:
        """The sum of all curvatures where the entries are all alike and fit as well as that allows."""
        d = (self.constant(average) or 0.0) - y
        return float(self.settled(d, y, None, weights).curvature(d, y, weights).sum())

    def noise(self, d: Vector, y: Vector, dof: float, weights: Vector | None = None) -> float:
        """The noise that a fit with ``dof`` degrees of freedom leaves over: Pearson's dispersion, 1 where the model holds."""

        def one(xp: Any, d: Array, y: Array, *w: Array) -> tuple[Array, Array]:
            curve, slope = self.curvatures(xp, d, y), self.slopes(xp, d, y)
            pearson = slope**2 / (curve + (curve == 0))
            return (w[0] * pearson if w else pearson), 0 * y + 1

        square, count = total(one, d, y, *_given(weights))
        return math.sqrt(square / max(count - dof, 1.0))

    def parameters(self) -> dict[str, Any]:
        """The name and everything the loss was made with, as JSON takes it: what a model file keeps."""
        return {"name": self.name, **{f.name: getattr(self, f.name) for f in fields(self)}}  # type: ignore[arg-type]

    def _slopes(self, xp: Any, d: Array, y: Array) -> Array:
        found = self.slopes(xp, d, y)
        return found + self.ridge * (d + y) if self.ridge else found


@dataclass(frozen=True, eq=False)
class Weighted:
    """A loss, each observation counted with a weight: a :class:`~lorank.losses.Datafit`.

    Parameters
    ----------
    loss : Loss
    weights : vector
        Real and not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank.losses import Cauchy
    >>> d, y = np.array([0.5, -2.0]), np.zeros(2)
    >>> twice = Weighted(Cauchy(scale=1.0), np.array([2.0, 2.0]))
    >>> bool(abs(twice.value(d, y) - 2 * Cauchy(scale=1.0).value(d, y)) < 1e-12)
    True
    """

    loss: Loss
    weights: Vector

    def value(self, d: Vector, y: Vector, backend: Arrays | None = None) -> float:
        return self.loss.value(d, y, backend, self.weights)

    def deviance(self, d: Vector, y: Vector) -> float:
        return self.loss.deviance(d, y, self.weights)

    def at_zero(self, y: Vector, backend: Arrays | None = None) -> float:
        return self.loss.at_zero(y, backend, self.weights)

    def slope(self, d: Vector, y: Vector) -> Vector:
        return self.loss.slope(d, y, self.weights)

    def curvature(self, d: Vector, y: Vector) -> Vector:
        return self.loss.curvature(d, y, self.weights)

    def majorizer(self, d: Vector, y: Vector) -> tuple[Vector, Vector]:
        return self.loss.majorizer(d, y, self.weights)

    def line_energy(self, d: Vector, y: Vector, image: Vector, energy: float) -> float:
        return self.loss.line_energy(d, y, image, energy, self.weights)

    def noise(self, d: Vector, y: Vector, dof: float) -> float:
        return self.loss.noise(d, y, dof, self.weights)

    def settled(self, d: Vector, y: Vector, near: Any = None) -> Weighted:
        return Weighted(self.loss.settled(d, y, getattr(near, "loss", near), self.weights), self.weights)

    def __repr__(self) -> str:
        return f"Weighted({self.loss!r}, weights)"


def _given(weights: Vector | None) -> tuple[Vector, ...]:
    return () if weights is None else (weights,)


def first_bad(flags: Array, values: Array, backend: Arrays) -> tuple[int, float]:
    """Where the first flag is true, and the value there: for messages."""
    k = backend.first(flags)
    return k, float(values[k])
