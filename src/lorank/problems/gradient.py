"""The gradient of the misfit at a point, as far as solvers need it."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from ..backends import Array, Vector
from ..geometry import FixedRank, Tangent
from ..losses import Objective

if TYPE_CHECKING:
    from .problem import MatrixProblem


class Gradient:
    """``G = A* slope``, in least squares ``A*(A X - y)``, seen from X: thin products and norms, each computed when first
    asked for.

    G itself is never formed as a dense n1 x n2 array, unless the model's ``adjoint`` makes one.

    Parameters
    ----------
    problem : MatrixProblem
    X : FixedRank
        Where it is taken.
    objective : Objective, optional
        By default that of the problem.
    near : Objective, optional
        Objective with its parameters fitted at a nearby point; the fit at X starts from them.

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

    def __init__(
        self, problem: MatrixProblem, X: FixedRank, objective: Objective | None = None, near: Objective | None = None
    ) -> None:
        self.problem, self.X, self.near = problem, X, near
        self._objective = problem.objective if objective is None else objective

    @functools.cached_property
    def objective(self) -> Objective:
        """Objective with its parameters (a scale, thresholds) fitted at X."""
        given = self._objective
        return given.fit_parameters(self.residual, self.problem.y, self.near) if given.has_parameters else given

    def at(self, X: FixedRank) -> Gradient:
        """The gradient at the next point: a model may reuse what was computed here, or spare digits far from the solution."""
        following = self.problem.gradient(X)
        if self._objective.has_parameters:
            following.near = self.objective
        return following

    def quadratic_model(self) -> MatrixProblem:
        """The weighted least squares problem that approximates the objective at X, as far as preconditioners ask."""
        return self.problem

    def weighted(self, weights: Vector) -> Gradient:
        """The gradient of ``sum_k w_k |A X - y|_k^2 / 2`` at the same point: for methods that choose weights in each step."""
        twin = Gradient(self.problem, self.X, Objective(weights=weights))
        vars(twin)["residual"] = self.residual
        return twin

    def squared_image_norm(self, xi: Tangent) -> float:
        """``sum_k c_k |A xi|_k^2``, c the curvature of the objective: what an exact step divides by."""
        return (
            self.problem.squared_image_norm(xi)
            if self.curvature is None
            else self.image_curvature(self.problem.forward(*xi.factors()))
        )

    def image_curvature(self, image: Vector) -> float:
        """The same from the image ``A Z`` of any matrix Z.

        For an objective that is not quadratic, the energy that makes the step along Z exact (:meth:`Objective.line_curvature`).
        """
        backend = self.problem.backend
        if self.curvature is None:
            return backend.norm(image) ** 2
        energy = backend.inner(self.curvature * image, image)
        objective = self.objective
        return energy if objective.is_quadratic else objective.line_curvature(self.residual, self.problem.y, image, energy)

    def exact_step(self, left: Array, right: Array) -> float:
        """How far to go along the matrix ``left right^H`` for the best fit."""
        image = self.problem.forward(left, right)
        energy = self.image_curvature(image)
        return -self.problem.backend.inner(image, self.dual) / energy if energy > 0 else 0.0

    @functools.cached_property
    def residual(self) -> Vector:
        """``A X - y``."""
        return self.problem.forward(self.X.U * self.X.s, self.X.V) - self.problem.y

    @functools.cached_property
    def dual(self) -> Vector:
        """Slope of the objective at ``A X``: ``G = A* dual``. The residual itself in plain least squares."""
        return self.objective.slope(self.residual, self.problem.y)

    @functools.cached_property
    def curvature(self) -> Vector | None:
        """Curvature of the objective at ``A X``; None where it is 1."""
        return self.objective.curvature(self.residual, self.problem.y)

    @functools.cached_property
    def residual_norm(self) -> float:
        """``sqrt(2 f(A X))`` for the objective f: in plain least squares ``|A X - y|``."""
        return math.sqrt(2 * self.objective.value(self.residual, self.problem.y, self.problem.backend))

    @functools.cached_property
    def matrix(self) -> Any:
        """G as the model's adjoint gives it."""
        return self.problem.adjoint(self.dual)

    @functools.cached_property
    def GV(self) -> Array:
        """``G V``."""
        return self.times(self.X.V)

    @functools.cached_property
    def GhU(self) -> Array:
        """``G^H U``."""
        return self.adjoint_times(self.X.U)

    @functools.cached_property
    def core(self) -> Array:
        """``U^H G V``, a small array."""
        return self.problem.backend.gram(self.X.U, self.GV)

    @functools.cached_property
    def row_squares(self) -> Array:
        """Squared norms of the rows of G, in double precision."""
        return self.problem.backend.squares(self._entries(), 1)

    @functools.cached_property
    def col_squares(self) -> Array:
        """Squared norms of the columns of G, in double precision."""
        return self.problem.backend.squares(self._entries(), 0)

    def times(self, v: Array) -> Array:
        """``G v``."""
        return self.matrix @ self.problem.backend.asarray(v)

    def adjoint_times(self, u: Array) -> Array:
        """``G^H u``."""
        g, u = self.matrix, self.problem.backend.asarray(u)
        return g.rmatmat(u) if hasattr(g, "rmatmat") else g.conj().T @ u

    def outer(self) -> tuple[Array, Array]:
        """``G G^H`` and ``G^H G`` as dense arrays: only for metrics that ask for them on small problems."""
        g = self._entries()
        h = g.conj().T
        return _dense(g @ h), _dense(h @ g)

    @property
    def max_norm(self) -> float:
        """The paper's ``|G|_v``: the largest norm of a row or column."""
        return math.sqrt(max(float(self.row_squares.max()), float(self.col_squares.max())))

    def _entries(self) -> Any:
        g = self.matrix
        if hasattr(g, "rmatmat"):
            raise TypeError(
                f"{type(self.problem).__name__}.adjoint returns a LinearOperator, which does not show its entries: a metric "
                "with row and column weights needs them. Return an array or a sparse matrix, or use solver='rgd'"
            )
        return g


def _dense(a: Any) -> Array:
    return a.toarray() if hasattr(a, "toarray") else a
