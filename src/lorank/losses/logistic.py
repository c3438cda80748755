"""The logistic loss, for yes and no."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..backends import Array, Arrays
from ..common.checks import NOT_NEGATIVE, check_parameters, counted
from .loss import Loss, first_bad

FAR = 1e-3  # below, tanh(z / 2) / (2 z) by its series


def softplus(xp: Any, z: Array) -> Array:
    """``log(1 + e^z)``."""
    return z.clip(min=0) + xp.log1p(xp.exp(-abs(z)))


def sigmoid(xp: Any, z: Array) -> Array:
    """``1 / (1 + e^-z)``, without overflow."""
    return 0.5 * (1 + xp.tanh(z / 2))


def bump(xp: Any, z: Array) -> Array:
    """``e^z / (1 + e^z)^2``, the derivative of the sigmoid, without cancellation."""
    small = xp.exp(-abs(z))
    return small / (1 + small) ** 2


def touching(xp: Any, z: Array) -> Array:
    """``tanh(z / 2) / (2 z)``: the parabola of that curvature touches ``log(1 + e^z)`` at z and at -z, and lies above it."""
    near = abs(z) < FAR
    far = z + near * 1.0  # anything but zero
    return xp.where(near, 0.25 - z * z / 48, xp.tanh(far / 2) / (2 * far))


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + e^z) - y z`` for labels y of 0 and 1: the entries of the matrix are logits, ``P(y = 1) = 1 / (1 + e^-z)``.

    Labels may be 0 and 1, -1 and 1, or False and True.

    Parameters
    ----------
    ridge : float
        ``ridge z^2 / 2`` is added for each observation. Where a matrix of low rank separates the labels, logits would otherwise
        grow without end; with 0.01, those of labels that are all alike end near 3.4, a probability of 0.97.

    Examples
    --------
    >>> import numpy as np
    >>> loss, z, y = Logistic(ridge=0.0), np.array([0.0, 2.0]), np.array([1.0, 1.0])
    >>> loss.mean(z).round(3), loss.slope(z - y, y).round(3)
    (array([0.5  , 0.881]), array([-0.5  , -0.119]))
    """

    ridge: float = 1e-2

    name: ClassVar[str] = "logistic"
    discrete: ClassVar[bool] = True
    exact_means: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_parameters(self, ridge=NOT_NEGATIVE)

    def losses(self, xp: Any, d: Array, y: Array) -> Array:
        z = d + y
        return softplus(xp, z) - y * z  # means of repeated labels lie between 0 and 1, where this is not 0 at its least

    def slopes(self, xp: Any, d: Array, y: Array) -> Array:
        return sigmoid(xp, d + y) - y

    def curvatures(self, xp: Any, d: Array, y: Array) -> Array:
        return bump(xp, d + y)

    def weights(self, xp: Any, d: Array, y: Array) -> Array:
        return touching(xp, d + y)

    def prepare(self, values: Array, backend: Arrays) -> tuple[Array, Self]:
        one = values == 1
        low = 0.0 if (values == 0).any() else -1.0 if (values == -1).any() else 0.0
        bad = ~(one | (values == low))
        if bad.any():
            k, value = first_bad(bad, values, backend)
            raise ValueError(
                f"values[{k}] = {value:g}: loss='logistic' takes two classes, 0 and 1 (or -1 and 1, or False and True); cut "
                "numbers in two first, for example values >= 4, or use loss='ordinal' for more than two ordered classes"
            )
        if one.all() or not one.any():
            only = 1 if one.all() else int(low)
            raise ValueError(
                f"all {counted(len(values), 'label')} are {only}: with one class only there is nothing to tell apart; add "
                "observations of the other class"
            )
        return values if low == 0 else (values + 1) / 2, self

    def encoded(self, values: Array) -> Array:
        return (values + 1) / 2 if (values == -1).any() else values

    def mean(self, z: np.ndarray) -> np.ndarray:
        """The probability of label 1."""
        return np.asarray(sigmoid(np, np.asarray(z, float)))

    def constant(self, average: float) -> float | None:
        return math.log(average / (1 - average))
