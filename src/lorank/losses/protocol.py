"""What a datafit is to a problem."""

from __future__ import annotations

from typing import Protocol

from ..backends import Arrays, Vector


class Datafit(Protocol):
    """``f = sum_k loss(z_k, y_k)`` for the measurements ``z = A X`` of a matrix and data y: the misfit that solvers lower.

    Methods are given the residual ``d = z - y`` rather than z, for near a solution that fits the data it has digits that z does
    not have. Slope and curvature are vectors, one number per measurement: solvers see the gradient ``A* slope`` and the
    curvature ``sum_k c_k |A xi|_k^2`` along a direction xi.

    A datafit may have two more methods, both of which :class:`~lorank.losses.Loss` has: ``settled(d, y, near)``, the datafit
    with parameters of its own (a scale, thresholds) fitted at a point, and ``line_energy(d, y, image, energy)``, which makes
    of that curvature the one of an exact line search.

    Examples
    --------
    Any object with these methods, given to a problem of one's own, is one (the section "Add a datafit" of Contributing writes
    one down); all losses are:

    >>> import numpy as np, lorank as lr
    >>> from lorank.backends import backend_of
    >>> d, y = np.array([0.5, -3.0]), np.zeros(2)
    >>> huber = lr.losses.Huber(threshold=1.0, scale=1.0)
    >>> huber.value(d, y, backend_of(d)), huber.slope(d, y)
    (2.625, array([ 0.5, -1. ]))
    """

    def value(self, d: Vector, y: Vector, backend: Arrays) -> float:
        """f, in double precision."""
        ...

    def at_zero(self, y: Vector, backend: Arrays) -> float:
        """Its value at ``X = 0``: misfits are measured in it."""
        ...

    def slope(self, d: Vector, y: Vector) -> Vector:
        """The derivative of the loss in z, entry by entry."""
        ...

    def curvature(self, d: Vector, y: Vector) -> Vector | None:
        """An upper bound on its second derivative, or that itself, entry by entry; None where it is 1 throughout."""
        ...
