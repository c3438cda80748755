"""Iterative hard thresholding (IHT, NIHT): a step along the full gradient, then a truncated SVD.

``X_t - alpha G`` is a sparse plus a low-rank matrix, whose truncated SVD is computed from products with thin matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..backends import Array
from ..common.checks import POSITIVE, Checked, optional, parameter
from ..geometry import DiagonalWeight, FixedRank, FixedRankManifold, Weights
from ..geometry.truncated_svd import ImplicitMatrix, truncated_svd
from ..geometry.weights import NO_WEIGHT
from ..loop.solver import Solver
from ..loop.state import State
from ..metrics import Canonical, Metric
from ..metrics.protocol import METRIC
from ..problems import Gradient, MatrixProblem, Problem
from .safeguard import SAFEGUARD, UNGUARDED, GuardedState, Safeguard, Trust


class Coordinates:
    """Coordinates ``Y = L^(1/2) X R^(1/2)`` in which the metric ``<L Z R, Z>`` is Euclidean.

    There the best approximation is a truncated SVD and the gradient is ``L^(-1/2) G R^(-1/2)``.
    """

    def __init__(self, X: FixedRank, G: Gradient, weights: Weights) -> None:
        if weights.inverse is not None or weights.additive:
            raise _refusal(weights.inverse or weights)
        self.left, self.right, self.G = _root(weights.mode(0)), _root(weights.mode(1)), G
        self.plain = self.left is None and self.right is None
        self.X = X if self.plain else self._scaled(X, 1)

    def out(self, left: Array, right: Array) -> tuple[Array, Array]:
        """Factors of a matrix in these coordinates, as factors of the matrix in the original ones."""
        return _by(left, self.left, -1), _by(right, self.right, -1)

    def back(self, Y: FixedRank) -> FixedRank:
        """A point of these coordinates in the original ones."""
        return Y if self.plain else self._scaled(Y, -1)

    def _scaled(self, X: FixedRank, power: int) -> FixedRank:
        left, right = _by(X.U * X.s, self.left, power), _by(X.V, self.right, power)
        return FixedRank.from_factors(left, right, backend=X.backend)

    def times(self, v: Array) -> Array:
        return _by(self.G.times(_by(v, self.right, -1)), self.left, -1)

    def adjoint_times(self, u: Array) -> Array:
        return _by(self.G.adjoint_times(_by(u, self.left, -1)), self.right, -1)

    @property
    def along(self) -> Array:
        """``G^H U`` in these coordinates."""
        return self.G.GhU if self.plain else self.adjoint_times(self.X.U)


def _root(weight: Any) -> Array | None:
    if weight is NO_WEIGHT:
        return None
    if not isinstance(weight, DiagonalWeight):
        raise _refusal(weight)
    return weight.w[:, None] ** 0.5


def _refusal(weights: Any) -> ValueError:
    return ValueError(
        "hard thresholding needs a metric with diagonal weights, such as lorank.metrics.Counts(): this one has "
        f"{type(weights).__name__}"
    )


def _by(a: Array, root: Array | None, power: int) -> Array:
    return a if root is None else a * root if power > 0 else a / root


@dataclass(frozen=True)
class IHT(Checked, Solver):
    """``X_{t+1} = H_r(X_t - alpha G_t)`` with the constant step ``alpha = factor / operator_scale``.

    Parameters
    ----------
    factor : float
        Step in units of 1 / operator_scale.
    accuracy : float
        Accuracy of the truncated SVD, relative to the length of the step.
    safeguard : Safeguard or None
        Backtracking; its fallbacks are not used. None takes every step in full.
    metric : Metric
        Metric of the gradient and of the approximation, with diagonal weights: :class:`~lorank.metrics.Counts` for unevenly
        sampled rows and columns. By default Euclidean.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.IHT(factor=0.7), max_iter=2000, tol=1e-3).converged
    True
    """

    factor: float = parameter(0.5, POSITIVE)
    accuracy: float = parameter(1e-4, POSITIVE)
    safeguard: Safeguard | None = parameter(factory=lambda: Safeguard(fallbacks=()), expected=optional(SAFEGUARD))
    metric: Metric = parameter(factory=Canonical, expected=METRIC)

    needs: ClassVar[tuple[type, ...]] = (FixedRankManifold,)

    def start(self, problem: Problem, state: State) -> GuardedState:
        return GuardedState(self.metric.start(state.gradient), Trust(best=state.residual))

    def alpha(self, problem: Any, at: Coordinates) -> float:
        return self.factor / problem.operator_scale

    def step(self, problem: Problem, state: State) -> State:
        memory = state.memory
        weights, metric = self.metric.weights(state.gradient, memory.metric)
        at = Coordinates(state.X, state.gradient, weights)
        alpha = self.alpha(problem, at)

        def candidate(step: float) -> FixedRank:
            length = step * at.G.residual_norm
            return problem.manifold.nearest(at.back(hard_threshold(at.X, at, step, length, self.accuracy)))

        new, trust = (self.safeguard or UNGUARDED).advance(problem, state, memory.trust, alpha, candidate)
        return new.with_memory(GuardedState(metric, trust))


@dataclass(frozen=True)
class NIHT(IHT):
    """Normalized IHT: the exact step along G projected onto the column space of X_t (Tanner and Wei).

    ``alpha = |U U^H G|^2 / |A(U U^H G)|^2``. The default metric gives the published method.

    Parameters
    ----------
    factor : float
        Factor on that step.
    accuracy : float
        Accuracy of the truncated SVD, relative to the length of the step.
    safeguard : Safeguard or None
        Backtracking; its fallbacks are not used. None takes every step in full.
    metric : Metric
        As for :class:`IHT`.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.NIHT(), max_iter=2000, tol=1e-3).converged
    True
    """

    factor: float = 1.0

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem,)

    def alpha(self, problem: MatrixProblem, at: Coordinates) -> float:
        along = at.along
        squares = at.X.backend.norm(along) ** 2
        curvature = at.G.curvature_along(*at.out(at.X.U, along))
        return self.factor * squares / curvature if curvature > 0 else 0.0


def hard_threshold(
    X: FixedRank, G: Gradient | Coordinates | ImplicitMatrix, alpha: float, length: float, accuracy: float
) -> FixedRank:
    """``H_r(X - alpha G)``, with the singular vectors of X as initial vectors of the truncated SVD.

    Parameters
    ----------
    X : FixedRank
    G : Gradient, Coordinates or ImplicitMatrix
        Given by its products.
    alpha : float
    length : float
        About ``|alpha G|``, or a lower bound.
    accuracy : float
        Of the singular triples, relative to ``length``.
    """
    backend = X.backend
    gram, product = backend.gram, backend.product

    def times(v: Array) -> Array:
        return product(X.U * X.s, gram(X.V, v)) - alpha * G.times(v)

    def adjoint_times(u: Array) -> Array:
        return product(X.V * X.s, gram(X.U, u)) - alpha * G.adjoint_times(u)

    tol = accuracy * length / ((X.norm() + length) or 1.0)
    return truncated_svd(times, adjoint_times, X.V, X.rank, backend, tol=tol, depth=2)
