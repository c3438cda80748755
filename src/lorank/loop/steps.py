"""Step rules: step sizes alpha_t along the negative Riemannian gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..common.checks import POSITIVE, POSITIVE_OR_INFINITE, Checked, between, parameter, with_methods
from ..geometry import Tangent, Weights
from ..problems import Gradient, Problem

__all__ = ["Constant", "Exact", "Polyak", "StepRule", "Theory"]


class StepRule(Protocol):
    """A function of the problem, the Riemannian gradient ``xi``, the ambient gradient ``G`` and the weights of the metric that
    returns the step size.

    Examples
    --------
    Half of the exact step, and never more than 1:

    >>> import lorank as lr
    >>> def cautious(problem, xi, G, weights):
    ...     return min(0.5 * lr.steps.Exact()(problem, xi, G, weights), 1.0)
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(step_rule=cautious), tol=0.1).converged
    True
    """

    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float: ...


STEP_RULE = with_methods("__call__", what="a step rule such as lorank.steps.Exact()")


@dataclass(frozen=True)
class Constant(Checked):
    """Constant step size ``alpha = factor low / operator_scale``.

    ``low`` is the smallest weight of the metric (sqrt(epsilon) for PRGD, 1 for RGD), and ``operator_scale`` is that of the
    problem (m / (n1 n2) for completion).

    Parameters
    ----------
    factor : float
        Step size for weights and an operator scale of 1.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(lr.metrics.RowColumn(), lr.steps.Constant(0.7))).converged
    True
    """

    factor: float = parameter(0.5, POSITIVE)

    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float:
        return self.factor * weights.low / problem.operator_scale


@dataclass(frozen=True)
class Theory:
    """Step size ``alpha = 2 / (1/mu + 1/nu)`` of Theorem 1, over ``operator_scale``.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_sensing(10, 8, rank=1, m=400, normalized=True)
    >>> lr.solve(problem, rank=1, solver=lr.solvers.RGD(lr.metrics.RowColumn(lr.metrics.Theory()), lr.steps.Theory())).converged
    True
    """

    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float:
        return 2 / (1 / weights.high + 1 / weights.low) / problem.operator_scale


@dataclass(frozen=True)
class Exact(Checked):
    """Exact line search: the minimizer of ``|A (X - alpha xi) - y|``, times ``relaxation`` (the paper's "adaptive" step).

    Parameters
    ----------
    relaxation : float
        Factor on the step, between 0 and 2.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(lr.metrics.Canonical(), lr.steps.Exact(relaxation=0.9))).converged
    True
    """

    relaxation: float = parameter(1.0, between(0, 2))

    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float:
        curvature = G.squared_image_norm(xi)
        return self.relaxation * xi.inner(G) / curvature if curvature > 0 else 0.0


@dataclass(frozen=True)
class Polyak(Checked):
    """Polyak step ``alpha = factor |A X - y|^2 / <G, xi>``, for data that can be fitted exactly. It needs no extra pass.

    Each step decreases the distance to the solution; the residual may grow. Where data cannot be fitted exactly, steps grow as
    the slope vanishes: they are bounded by ``longest``, and need a safeguard with a fallback.

    Parameters
    ----------
    factor : float
        Factor on the step, between 0 and 2.
    longest : float
        Bound on the step, in units of the largest weight over ``operator_scale``.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(lr.metrics.Canonical(), lr.steps.Polyak(0.8))).converged
    True
    """

    factor: float = parameter(0.5, between(0, 2))
    longest: float = parameter(1e3, POSITIVE_OR_INFINITE, repr=False)

    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float:
        slope, most = xi.inner(G), self.longest * weights.high / problem.operator_scale
        return min(self.factor * G.residual_norm**2 / slope, most) if slope > 0 else 0.0
