"""Riemannian conjugate gradients in a metric."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..geometry import Tangent, retract, riemannian_gradient, slope_after_transport, transport
from ..metrics import Canonical, Metric
from ..operators import Problem
from .loop import State
from .safeguard import Safeguard, Trust


@dataclass(frozen=True)
class Memory:
    """What RCG carries along: the metric's memory, the last gradient with its slope, and the last direction."""

    metric: Any
    trust: Trust
    gradient: Tangent | None = None
    slope: float = 0.0
    direction: Tangent | None = None


@dataclass(frozen=True)
class RCG:
    """Conjugate gradients: Polak and Ribiere's direction, never against the gradient, and the exact step along it.

    Parameters
    ----------
    metric : Metric
    restart : float
        Start again from the gradient where the direction, length for length, descends less than this share of what the
        gradient does (the cosine of their angle, in the canonical metric).
    safeguard : Safeguard
        Shortens steps after which the residual grows (its fallbacks are not used here).
    """

    metric: Metric = field(default_factory=Canonical)
    restart: float = 0.1
    safeguard: Safeguard = field(default_factory=lambda: Safeguard(growth=1.0, fallbacks=(), regrow=2.0))

    default_start = "staged"

    def start(self, problem: Problem, state: State) -> Memory:
        return Memory(self.metric.start(state.gradient), Trust(best=state.residual))

    def step(self, problem: Problem, state: State) -> State:
        X, G, memory = state.X, state.gradient, state.memory
        past = [xi for xi in (memory.gradient, memory.direction) if xi is not None]
        X.backend.prepare(
            [X.U, G.GV, *(a for xi in past for a in (xi.X.U, xi.Up))],
            [X.V, G.GhU, *(a for xi in past for a in (xi.X.V, xi.Vp))],
        )
        weights, metric = self.metric.weights(G, memory.metric)
        xi = riemannian_gradient(X, G, weights)
        slope = xi.inner(G)  # |xi|^2 in the metric
        direction, downhill = self._direction(xi, slope, memory, X, G)
        energy = problem.energy(direction)
        alpha = -downhill / energy if energy > 0 else 0.0
        new, trust = self.safeguard.advance(problem, state, memory.trust, alpha, lambda alpha: retract(direction, alpha))
        vars(direction).pop("bases", None)  # not needed any more, and as large as the direction itself
        return new.remember(Memory(metric, trust, xi, slope, direction))

    def _direction(self, xi: Tangent, slope: float, memory: Memory, X: Any, G: Any) -> tuple[Tangent, float]:
        """``-xi + beta T(d)`` and the slope along it, by products with G alone: ``<xi, z>`` in the metric is ``<G, z>``."""
        if memory.gradient is None or memory.direction is None or min(slope, memory.slope) <= 0:
            return -xi, -slope
        beta = (slope - slope_after_transport(memory.gradient, X, G)) / memory.slope
        if not beta > 0:
            return -xi, -slope
        moved = transport(memory.direction, X)
        direction = -xi + beta * moved
        downhill = direction.inner(G)
        enough = self.restart * slope * direction.norm() / xi.norm()
        return (direction, downhill) if -downhill > enough else (-xi, -slope)
