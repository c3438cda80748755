"""Gradient of the objective at a point, by its thin products and norms."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..backends import Array, Vector
from ..common.checks import ParameterError
from ..geometry import FixedRank, Tangent
from ..losses import Objective

if TYPE_CHECKING:
    from .problem import MatrixProblem

Product = Callable[[Array], Array]


class GradientBase(ABC):
    """Derivatives of the objective at a point of any manifold.

    A subclass has the :attr:`residual`, the :meth:`image` of a tangent vector, and the products of ``G = A* dual`` that its
    manifold uses.

    Parameters
    ----------
    problem : Problem
    X : point of the problem's manifold
    objective : Objective, optional
        By default that of the problem.
    """

    def __init__(self, problem: Any, X: Any, objective: Objective | None = None) -> None:
        self.problem, self.X = problem, X
        self._objective = problem.objective if objective is None else objective
        self._near: Objective | None = None  # with parameters fitted at a nearby point, from which the fit at X starts

    @functools.cached_property
    def objective(self) -> Objective:
        """The objective with its parameters (a scale, thresholds) fitted at X."""
        given = self._objective
        return given.fit_parameters(self.residual, self.problem.y, self._near) if given.has_parameters else given

    def at(self, X: Any) -> Any:
        """The gradient at the next point; models reuse results of this one, or use fewer digits far from the solution."""
        following = self.problem.gradient(X)
        if self._objective.has_parameters:
            following._near = self.objective
        return following

    @property
    @abstractmethod
    def residual(self) -> Vector:
        """``A X - y``."""

    @abstractmethod
    def image(self, xi: Any) -> Vector:
        """``A xi`` for a tangent vector at X."""

    @functools.cached_property
    def residual_norm(self) -> float:
        """``sqrt(2 f(A X))`` for the objective f: in plain least squares ``|A X - y|``."""
        return math.sqrt(2 * self.objective.value(self.residual, self.problem.y, self.problem.backend))

    @functools.cached_property
    def dual(self) -> Vector:
        """Slope of the objective at ``A X``: ``G = A* dual``. In plain least squares the residual."""
        return self.objective.slope(self.residual, self.problem.y)

    @functools.cached_property
    def curvature(self) -> Vector | None:
        """Curvature of the objective at ``A X``; None where it is 1."""
        return self.objective.curvature(self.residual, self.problem.y)

    def squared_image_norm(self, xi: Any) -> float:
        """``sum_k c_k |A xi|_k^2`` with c the curvature: the exact step along xi is the slope divided by it."""
        return self.image_curvature(self.image(xi))

    def image_curvature(self, image: Vector) -> float:
        """The same from the image ``A Z`` of any Z.

        For an objective that is not quadratic, the value that makes the step along Z exact (:meth:`Objective.line_curvature`).
        """
        backend, objective = self.problem.backend, self.objective
        if self.curvature is None:
            return backend.norm(image) ** 2
        at_x = backend.inner(self.curvature * image, image)
        return at_x if objective.is_quadratic else objective.line_curvature(self.residual, self.problem.y, image, at_x)


class Gradient(GradientBase):
    """``G = A* slope`` at a point X, in least squares ``A*(A X - y)``, by thin products and norms.

    Members are computed on first use. No dense n1 x n2 array is formed, unless the ``adjoint`` of the model returns one.

    Parameters
    ----------
    problem : MatrixProblem
    X : FixedRank
        The point.
    objective : Objective, optional
        By default that of the problem.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> G = problem.gradient(truth)
    >>> G.GV.shape
    (60, 2)
    >>> G.residual_norm < 1e-10
    True
    """

    problem: MatrixProblem
    X: FixedRank

    @functools.cached_property
    def residual(self) -> Vector:
        return self.problem.forward(self.X.U * self.X.s, self.X.V) - self.problem.y

    def image(self, xi: Tangent) -> Vector:
        return self.problem.forward(*xi.factors())

    def squared_image_norm(self, xi: Tangent) -> float:
        return self.problem.squared_image_norm(xi) if self.curvature is None else self.curvature_along(*xi.factors())

    def curvature_along(self, left: Array, right: Array) -> float:
        """The same along the matrix ``left right^H``."""
        return self.image_curvature(self.problem.forward(left, right))

    def quadratic_model(self) -> MatrixProblem:
        """The weighted least squares problem that approximates the objective at X."""
        return self.problem

    def weighted(self, weights: Vector) -> Gradient:
        """The gradient of ``sum_k w_k |A X - y|_k^2 / 2`` at X, for methods that choose weights in each step."""
        twin = Gradient(self.problem, self.X, Objective(weights=weights))
        vars(twin)["residual"] = self.residual
        return twin

    def exact_step(self, left: Array, right: Array) -> float:
        """The step along the matrix ``left right^H`` that minimizes the objective."""
        image = self.problem.forward(left, right)
        curvature = self.image_curvature(image)
        return -self.problem.backend.inner(image, self.dual) / curvature if curvature > 0 else 0.0

    # -- products and norms of G -------------------------------------------------------------------------------------------
    @functools.cached_property
    def matrix(self) -> Any:
        """G as the ``adjoint`` of the model returns it."""
        return self.problem.adjoint(self.dual)

    def times(self, v: Array) -> Array:
        """``G v``."""
        return self.matrix @ self.problem.backend.asarray(v)

    def adjoint_times(self, u: Array) -> Array:
        """``G^H u``."""
        return adjoint_product(self.matrix, self.problem.backend.asarray(u))

    @functools.cached_property
    def GV(self) -> Array:
        """``G V``."""
        return self.times(self.X.V)

    @functools.cached_property
    def GhU(self) -> Array:
        """``G^H U``; for models of Hermitian matrices ``G V``."""
        return self.GV if self.hermitian else self.adjoint_times(self.X.U)

    @functools.cached_property
    def core(self) -> Array:
        """``U^H G V``, an r x r array."""
        return self.problem.backend.gram(self.X.U, self.GV)

    @property
    def hermitian(self) -> bool:
        """Whether G and X are Hermitian: the two sides then share their arrays."""
        return self.X.hermitian and self.problem.manifold.hermitian

    @functools.cached_property
    def squared_norms(self) -> tuple[Array, Array]:
        """Squared norms of the rows and of the columns of G, in double precision; the same array twice for Hermitian G."""
        g, squares = self._entries(), self.problem.backend.squared_norms
        rows = squares(g, 1)
        return rows, rows if self.hermitian else squares(g, 0)

    def outer(self) -> tuple[Array, Array]:
        """``G G^H`` and ``G^H G`` as dense arrays, for small problems."""
        g = self._entries()
        h = g.conj().T
        return _dense(g @ h), _dense(h @ g)

    def _entries(self) -> Any:
        g = self.matrix
        if is_operator(g):
            raise ParameterError(
                "solver",
                f"needs the row norms of gradients, and {type(self.problem).__name__}.adjoint returns a LinearOperator: return "
                "an array or a sparse matrix, or use solver='rgd'",
            )
        return g


class ProductOperator:
    """A matrix given by the functions ``v -> M v`` and ``u -> M^H u`` of thin arrays of any backend.

    It has the interface of a SciPy LinearOperator, for models that never form ``A* p``.
    """

    def __init__(self, shape: tuple[int, int], dtype: Any, times: Product, adjoint_times: Product) -> None:
        self.shape, self.dtype, self._times, self._adjoint_times = shape, dtype, times, adjoint_times

    def __matmul__(self, v: Array) -> Array:
        return self._times(v.reshape(len(v), -1)).reshape(self.shape[0], *v.shape[1:])

    def rmatmat(self, u: Array) -> Array:
        return self._adjoint_times(u.reshape(len(u), -1)).reshape(self.shape[1], *u.shape[1:])

    matvec = matmat = __matmul__
    rmatvec = rmatmat


def is_operator(matrix: Any) -> bool:
    """Whether this is a LinearOperator, known by its products only."""
    return hasattr(matrix, "rmatmat")


def adjoint_product(matrix: Any, u: Array) -> Array:
    """``matrix^H u`` for an array, a sparse matrix or a LinearOperator."""
    return matrix.rmatmat(u) if is_operator(matrix) else matrix.conj().T @ u


def _dense(a: Any) -> Array:
    return a.toarray() if hasattr(a, "toarray") else a
