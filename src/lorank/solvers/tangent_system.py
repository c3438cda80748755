"""Linear least squares on a tangent space by preconditioned conjugate gradients, the inner solver of second order methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..backends import Array, Vector
from ..geometry import BlockInverses, ExpectedInverses, FixedRank, Tangent
from ..metrics.blocks import block_inverses
from ..metrics.counts import count_weights
from ..problems import MatrixProblem

Product = Callable[[Array], Array]


@dataclass(frozen=True)
class Damping:
    """Tikhonov penalty ``sum core_ij |M_ij|^2 + sum side_j (|Up_j|^2 + |Vp_j|^2)`` on a tangent vector.

    Attributes
    ----------
    core : (r, r) array
    side : (r,) array
        One coefficient for each column of Up and of Vp.
    """

    core: Array
    side: Array

    @classmethod
    def constant(cls, X: FixedRank, value: float) -> Damping:
        return cls(np.full((X.rank, X.rank), value, X.real_dtype), np.full(X.rank, value, X.real_dtype))

    def __call__(self, xi: Tangent) -> Tangent:
        side = xi.X.backend.values(self.side)
        Up = xi.Up * side
        return Tangent(xi.X, xi.M * self.core, Up, Up if xi.hermitian else xi.Vp * side)


class TangentSystem:
    """Minimize ``|A xi - b|^2`` plus a damping over the tangent vectors xi at X.

    The preconditioner is the first of these that the model has: diagonal blocks of ``A* A``
    (:class:`~lorank.geometry.BlockInverses`), their expectations from the numbers of measurements of rows and columns
    (:class:`~lorank.geometry.ExpectedInverses`), or ``operator_scale`` plus the damping.

    Hermitian right-hand sides at Hermitian points give Hermitian solutions; there ``A* p`` must be Hermitian for real p.
    """

    def __init__(self, problem: MatrixProblem, X: FixedRank, damping: Damping, curvature: Vector | None = None) -> None:
        self.problem, self.X, self.damping, self.curvature = problem, X, damping, curvature
        self._inverses: BlockInverses | ExpectedInverses | None = block_inverses(problem, X, damping.side)
        if self._inverses is None:
            self._inverses = ExpectedInverses.of(X, count_weights(problem), damping.side / problem.operator_scale)

    def pull_back(self, p: Array) -> Tangent:
        """``P_T A* p``."""
        return self._projected(self.problem.products(p))

    def apply(self, xi: Tangent) -> Tangent:
        """``P_T A* C A xi`` plus the damping, with C the curvature of the objective."""
        products = self.problem.normal_products(*xi.factors(), self.curvature)
        return self._projected(products, xi.hermitian) + self.damping(xi)

    def _projected(self, products: tuple[Product, Product], hermitian: bool = False) -> Tangent:
        """The tangent part of a matrix given by its products; with ``hermitian`` as a Hermitian vector."""
        X, (times, adjoint_times) = self.X, products
        left = times(X.V)
        right = left if hermitian else adjoint_times(X.U)
        return Tangent.project(X, left, right, X.backend.gram(X.U, left))

    def precondition(self, xi: Tangent) -> Tangent:
        """An approximate inverse of :meth:`apply`, Hermitian and positive definite."""
        found = self._precondition(xi)
        return Tangent(self.X, (found.M + found.M.conj().T) / 2, found.Up, found.Up) if xi.hermitian else found

    def _precondition(self, xi: Tangent) -> Tangent:
        scale, d, X = self.problem.operator_scale, self.damping, self.X
        if self._inverses is None:
            side = X.backend.values(scale + d.side)
            return Tangent(X, xi.M / (scale + d.core), xi.Up / side, xi.Vp / side)
        left, right = X.backend.minus(xi.Up, X.U, -xi.M), X.backend.minus(xi.Vp, X.V, -xi.M.conj().T)  # xi V and xi^H U
        return self._inverses.solve(X, left, right)

    def solve(self, rhs: Tangent, xi: Tangent | None = None, *, tol: float = 1e-2, max_iter: int = 300) -> tuple[Tangent, int]:
        """The solution of ``apply(xi) = rhs`` and the number of conjugate gradient steps.

        Parameters
        ----------
        rhs : Tangent
        xi : Tangent, optional
            Initial value, by default zero.
        tol : float
            Reduction of the residual in the norm of the preconditioner.
        max_iter : int
            Largest number of steps.
        """
        left = rhs if xi is None else rhs + -self.apply(xi)
        xi = 0.0 * rhs if xi is None else xi
        z = direction = self.precondition(left)
        size = first = inner(left, z)
        count = 0
        while count < max_iter and size > tol**2 * first:
            image = self.apply(direction)
            curvature = inner(direction, image)
            if not curvature > 0:  # rounding, or a zero residual
                break
            alpha = size / curvature
            xi, left = (xi + alpha * direction).computed(), (left + -alpha * image).computed()
            z = self.precondition(left)
            new = inner(left, z)
            direction, size, count = (z + (new / size) * direction).computed(), new, count + 1
        return xi, count


def inner(a: Tangent, b: Tangent) -> float:
    """``Re <a, b>`` for tangent vectors at the same point."""
    core, up, vp = a.X.backend.inners([(a.M, b.M), (a.Up, b.Up), (a.Vp, b.Vp)])
    return core + up + vp
