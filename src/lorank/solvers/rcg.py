"""Riemannian nonlinear conjugate gradients in a metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Protocol

from ..backends import Vector
from ..common.checks import Checked, Expected, optional, parameter, with_methods
from ..geometry import Tangent
from ..loop.solver import Solver
from ..loop.state import State
from ..metrics import Metric, Quotient
from ..metrics.protocol import METRIC
from ..problems import Gradient, Problem
from .safeguard import SAFEGUARD, Safeguard, Trust

_REWEIGHTING = with_methods("__call__", what="a function of problem and state such as lorank.phase.Fisher()")
_COSINE = Expected(
    "be a number, at most 1 (-inf never restarts)",
    lambda value: isinstance(value, Real) and not isinstance(value, bool) and value <= 1,
)


class Reweighting(Protocol):
    """Weights of the measurements as a function of the iterate."""

    def __call__(self, problem: Problem, state: State) -> Vector:
        """A vector of positive numbers, one per measurement."""


@dataclass(frozen=True)
class RCGState:
    """State of the metric and of the safeguard, the previous gradient with its slope, and the previous direction."""

    metric: Any
    trust: Trust
    gradient: Tangent | None = None
    slope: float = 0.0
    direction: Tangent | None = None


@dataclass(frozen=True)
class RCG(Checked, Solver):
    """Nonlinear conjugate gradients: the Polak-Ribiere+ direction and the exact step along it.

    Parameters
    ----------
    metric : Metric
        By default :class:`~lorank.metrics.Quotient`, the metric of R3MC; ``Canonical()`` gives LRGeomCG.
    restart : float
        Restart from the gradient where the cosine of the angle between direction and negative gradient is below this; -inf
        never restarts.
    safeguard : Safeguard
        Backtracking; its fallbacks are not used.
    reweighting : Reweighting, optional
        Weights of the measurements in each iteration, such as :class:`~lorank.phase.Fisher`; by default those of the problem.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RCG()).converged
    True
    """

    metric: Metric = parameter(factory=Quotient, expected=METRIC)
    restart: float = parameter(0.1, _COSINE)
    safeguard: Safeguard = parameter(factory=lambda: Safeguard(growth=1.0, fallbacks=(), regrow=2.0), expected=SAFEGUARD)
    reweighting: Reweighting | None = parameter(None, optional(_REWEIGHTING))

    default_start: ClassVar[str] = "staged"

    def start(self, problem: Problem, state: State) -> RCGState:
        return RCGState(self.metric.start(state.gradient), Trust(best=state.residual))

    def step(self, problem: Problem, state: State) -> State:
        X, memory = state.X, state.memory
        alpha, moved = self.move(X, self._gradient(problem, state), memory)
        direction, retract = moved.direction, X.manifold.retract
        assert direction is not None
        new, trust = self.safeguard.advance(problem, state, memory.trust, alpha, lambda alpha: retract(direction, alpha))
        X.manifold.forget(direction)
        return new.with_memory(replace(moved, trust=trust))

    def move(self, X: Any, G: Gradient, memory: RCGState) -> tuple[float, RCGState]:
        """The exact step at X for an objective with gradient G, and the state with its direction."""
        X.manifold.prepare(X, G, [xi for xi in (memory.gradient, memory.direction) if xi is not None])
        weights, metric = self.metric.weights(G, memory.metric)
        xi = X.manifold.gradient(X, G, weights)
        slope = xi.inner(G)  # |xi|^2 in the metric
        direction, downhill = self._direction(xi, slope, memory, X, G)
        curvature = G.squared_image_norm(direction)
        return -downhill / curvature if curvature > 0 else 0.0, RCGState(metric, memory.trust, xi, slope, direction)

    def _gradient(self, problem: Problem, state: State) -> Gradient:
        """The gradient, reweighted if the solver has a reweighting."""
        return state.gradient if self.reweighting is None else state.gradient.weighted(self.reweighting(problem, state))

    def _direction(self, xi: Tangent, slope: float, memory: RCGState, X: Any, G: Any) -> tuple[Tangent, float]:
        """``-xi + beta T(d)`` and the slope along it. Inner products ``<xi, z>`` in the metric are computed as ``<G, z>``."""
        if memory.gradient is None or memory.direction is None or min(slope, memory.slope) <= 0:
            return -xi, -slope
        transport = X.manifold.transport(memory.gradient.X, X)  # gradient and direction belong to the same point
        beta = (slope - transport.slope(memory.gradient, G)) / memory.slope
        if not beta > 0:
            return -xi, -slope
        direction = beta * transport.vector(memory.direction) - xi
        downhill = direction.inner(G)
        enough = self.restart * slope * direction.norm() / xi.norm()
        return (direction, downhill) if -downhill > enough else (-xi, -slope)
