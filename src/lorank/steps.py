"""Step rules: how far to go along the negative gradient.

A rule is called with the problem, the Riemannian gradient ``xi``, the ambient gradient ``G`` and the metric's weights, and
returns the paper's alpha_t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .geometry import Tangent, Weights
from .operators import Gradient, Problem


class StepRule(Protocol):
    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float: ...


@dataclass(frozen=True)
class Constant:
    """``alpha = factor low / gain``: tends to ``factor / gain`` in units of the plain gradient as G tends to 0.

    ``low`` is the smallest weight (sqrt(epsilon) for PRGD, 1 for RGD) and ``gain`` the problem's (m / (n1 n2) for
    completion).
    """

    factor: float = 0.5

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"a step's factor must be positive, got {self.factor!r}")

    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float:
        return self.factor * weights.low / problem.gain


@dataclass(frozen=True)
class Theory:
    """``alpha = 2 / (1/mu + 1/nu)``, the choice in the proof of Theorem 1, in units of 1 / gain."""

    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float:
        return 2 / (1 / weights.high + 1 / weights.low) / problem.gain


@dataclass(frozen=True)
class Exact:
    """The minimiser of ``|A (X - alpha xi) - y|`` along the tangent line, times ``relaxation``: the paper's "adaptive"."""

    relaxation: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.relaxation < 2:
            raise ValueError(f"relaxation must lie between 0 and 2, got {self.relaxation!r}")

    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float:
        energy = problem.energy(xi)
        return self.relaxation * xi.inner(G) / energy if energy > 0 else 0.0


@dataclass(frozen=True)
class Polyak:
    """``alpha = factor |A X - y|^2 / <G, xi>``: Polyak's step for data that can be fitted exactly. Needs no pass over them.

    Each step brings X closer to the solution rather than the residual down, which may rise on the way. On noisy data the steps
    grow without bound near the end: a safeguard's fallback has to take over there.
    """

    factor: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.factor < 2:
            raise ValueError(f"a Polyak step's factor must lie between 0 and 2, got {self.factor!r}")

    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float:
        slope = xi.inner(G)
        return self.factor * G.residual_norm**2 / slope if slope > 0 else 0.0
