"""Images under A of a point's factor and of the steps from it, so that an iteration needs no third product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backends import Array, Backend
from .linear_maps import LinearMap

REFRESH = 25  # images put together from earlier ones, before A is applied afresh


@dataclass
class Images:
    """``A U`` for the factor U of a point and, once asked for, ``A P`` for a step P from there.

    It belongs to one gradient, and so to one run. A retraction leads to a factor in the span of U and P, so that its image is a
    combination of the two: :meth:`after` gives it.

    Attributes
    ----------
    U : (n, r) array
    AU : (m, r) array
    age : int
        How often in a row the image was put together from earlier ones.
    step : (n, r) and (m, r) array, or None
        The last P and its image.
    """

    linear_map: LinearMap
    backend: Backend
    U: Array
    AU: Array
    age: int = 0
    step: tuple[Array, Array] | None = None

    @classmethod
    def of(cls, linear_map: LinearMap, backend: Backend, U: Array) -> Images:
        """By a product with A."""
        return cls(linear_map, backend, U, linear_map.apply(U))

    def along(self, P: Array) -> Array:
        """``A P``, kept for :meth:`after`."""
        image = self.linear_map.apply(P)
        self.step = P, image
        return image

    def after(self, U: Array) -> Images:
        """The images at another factor, from those known where U lies in the span of this one and the last step.

        Whether it does is checked, not assumed; and A is applied afresh now and then, so that rounding cannot pile up.
        """
        if U is self.U:
            return self
        image = self._combined(U) if self.age < REFRESH else None
        if image is None:
            return Images.of(self.linear_map, self.backend, U)
        return Images(self.linear_map, self.backend, U, image, self.age + 1)

    def _combined(self, U: Array) -> Array | None:
        """``A U`` as a combination of the images; None where U is not in the span of the factor and the step to rounding."""
        if self.step is None or U.shape != self.U.shape:
            return None
        backend, (P, AP) = self.backend, self.step
        gram, minus, asarray = backend.gram, backend.minus, backend.asarray
        inverse, rest = backend.inverse(gram(P, P)), U
        a = b = np.zeros((U.shape[1], U.shape[1]), backend.dtype(U))
        for _ in range(2):  # U and P are orthogonal to each other, and U to itself, only to some rounding that adds up
            more = gram(self.U, rest)
            a, rest = a + more, asarray(minus(rest, self.U, more))
            more = inverse @ gram(P, rest)
            b, rest = b + more, asarray(minus(rest, P, more))
        if not abs(rest).max() <= 20 * np.finfo(backend.dtype(U)).eps * abs(U).max():  # also where the inverse is nan
            return None
        return asarray(backend.plus(self.AU, a, AP, b))
