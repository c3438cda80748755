"""Gradient of phase retrieval by thin products with A, and images ``A U`` that are reused from one iteration to the next."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import Array, Backend
from ..geometry import FixedRank, Tangent
from ..losses import Objective
from ..problems.gradient import Gradient
from .linear_maps import LinearMap

if TYPE_CHECKING:
    from .problem import PhaseRetrieval

MAX_REUSES = 25  # combinations of earlier images before A is applied again


@dataclass
class Images:
    """``A U`` for the factor U of a point, and ``A P`` for the last step P from there.

    A retraction leads to a factor in the span of U and P, whose image is a combination of the two (:meth:`after`). An iteration
    then needs no third product with A.

    Attributes
    ----------
    U : (n, r) array
    AU : (m, r) array
    age : int
        Number of combinations since A was last applied.
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
        """The images at another factor, by a combination where it lies in the span of this one and the last step.

        That is checked. A is applied after :data:`MAX_REUSES` combinations, so that rounding does not accumulate.
        """
        if U is self.U:
            return self
        image = self._combined(U) if self.age < MAX_REUSES else None
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
        for _ in range(2):  # twice, since U and P are orthonormal only up to rounding
            more = gram(self.U, rest)
            a, rest = a + more, asarray(minus(rest, self.U, more))
            more = inverse @ gram(P, rest)
            b, rest = b + more, asarray(minus(rest, P, more))
        if not abs(rest).max() <= 20 * np.finfo(backend.dtype(U)).eps * abs(U).max():  # also where the inverse is nan
            return None
        return asarray(backend.plus(self.AU, a, AP, b))


class PhaseGradient(Gradient):
    """``G = A^H diag(d) A`` with ``d = A X - y``, Hermitian where X is, by its product with U.

    Parameters
    ----------
    problem : PhaseRetrieval
    X : FixedRank
    images : Images, optional
        ``A U`` for a Hermitian X, where known.
    objective : Objective, optional
        By default that of the problem. For another one, d is its slope.
    """

    problem: PhaseRetrieval

    def __init__(
        self, problem: PhaseRetrieval, X: FixedRank, images: Images | None = None, objective: Objective | None = None
    ) -> None:
        super().__init__(problem, X, objective)
        if images is not None:
            vars(self)["images"] = images

    @functools.cached_property
    def images(self) -> Images:
        """Images of the factor of a Hermitian X and of the last step direction."""
        return Images.of(self.problem.linear_map, self.problem.backend, self.X.U)

    @property
    def image(self) -> Array:
        """``A V``, which is ``A U`` for a Hermitian X."""
        return self.images.AU if self.X.hermitian else self.problem.linear_map.apply(self.X.V)

    @functools.cached_property
    def residual(self) -> Array:
        X = self.X
        if X.hermitian:
            image = self.image
            return (image.real**2 + image.imag**2 if X.backend.is_complex(image) else image**2) @ X.s - self.problem.y
        return self.problem.forward(X.U * X.s, X.V) - self.problem.y

    def weighted(self, weights: Array) -> PhaseGradient:
        """``A^H diag(w d) A``: the gradient of ``sum_i w_i d_i^2 / 2`` for weights w of the measurements.

        Both share their images.
        """
        twin = PhaseGradient(self.problem, self.X, self.images if self.X.hermitian else None, Objective(weights=weights))
        vars(twin)["residual"] = self.residual
        return twin

    def at(self, X: FixedRank) -> PhaseGradient:
        return PhaseGradient(self.problem, X, self.images.after(X.U) if X.hermitian and self.X.hermitian else None)

    def squared_image_norm(self, xi: Tangent) -> float:
        """``|A xi|^2``; with weights of the measurements ``sum_i w_i |(A xi)_i|^2``."""
        backend = self.problem.backend
        if xi.hermitian and xi.X.U is self.X.U:
            (Up,) = backend.asarrays(xi.Up)
            AU, AP = self.images.AU, self.images.along(Up)
            (AUM,) = backend.asarrays(backend.product(AU, xi.M))
            image = (AU.conj() * (AUM + 2 * AP)).sum(1).real  # a^H (U M U^H + P U^H + U P^H) a
        else:
            image = self.problem.forward(*xi.factors())
        return backend.norm(image if self.curvature is None else image * self.curvature**0.5) ** 2

    @functools.cached_property
    def _batched(self) -> tuple[Array, Array]:
        """``G V`` and G times the probes, in one product with A^H."""
        both = self.X.backend.concat([self.image, self.problem.probe_image])
        both = self.problem.linear_map.adjoint(self.dual[:, None] * both)
        return self.X.backend.asarray(both[:, : self.X.rank]), both[:, self.X.rank :]

    @functools.cached_property
    def GV(self) -> Array:
        if "_batched" in vars(self):  # computed for row norms before
            return self._batched[0]
        return self.problem.linear_map.adjoint(self.dual[:, None] * self.image)

    @functools.cached_property
    def squared_norms(self) -> tuple[Array, Array]:
        linear_map, d, backend = self.problem.linear_map, self.dual.conj(), self.X.backend
        exact = self.problem.probes is None
        rows = linear_map.row_squares(self.dual) if exact else _mean_squares(self._batched[1], backend)
        if not backend.is_complex(self.dual):
            return rows, rows  # G is Hermitian
        if exact:
            return rows, linear_map.row_squares(d)
        return rows, _mean_squares(linear_map.adjoint(d[:, None] * self.problem.probe_image), backend)

    def times(self, v: Array) -> Array:
        return self.problem.times(self.dual, *self.X.backend.asarrays(v))

    def adjoint_times(self, u: Array) -> Array:
        return self.problem.times(self.dual.conj(), *self.X.backend.asarrays(u))


def _mean_squares(products: Array, backend: Any) -> Array:
    """The mean of ``|(G z)_i|^2`` over the probes z."""
    double = backend.astype(products, np.result_type(backend.dtype(products), np.float64))
    return (abs(double) ** 2).mean(1)
