"""Methods of the paper's comparisons with their grids of settings; claims.toml describes them.

The paper's Section 4 gives neither epsilon_t nor alpha_t, so each method is tuned. All methods have the same budget: the step
rule of their name (constant, adaptive: exact line search, relaxed: a fraction of the exact step), the policies for epsilon
where they have one, and the same number of candidates (:data:`BUDGET`) on the same tuning seeds. Methods without parameters
(adaptive RGD, RCG, auto) are not tuned. Only ``prgd-guarded``, which is lorank's ``prgd``, and ``auto`` have a safeguard.

Constant steps are in units of 1 / gain, for completion 1 / p with p the share of observed entries. "Max" is the largest
squared norm of a row or column of the first gradient, "Median" their median.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..experiments import Method
from ..geometry import Tangent, Weights
from ..loop.steps import Constant, Exact
from ..metrics import Canonical, Fixed, FullShampoo, Median, RelativeMax, RowColumn, Shampoo, Theory
from ..problems import Gradient, Problem
from ..solvers import NIHT, RGD

BUDGET = {"tiny": 2, "quick": 4, "paper": 12}  # candidates per method
PROTOCOL = 3  # 2: eight candidates, of which some won at the end of their grid, and a setting for each size
Max = RelativeMax
Pairs = Iterable[tuple[Any, float]]


@dataclass(frozen=True)
class CanonicalStep:
    """The step formula of RGD, ``|xi|_F^2 / |A xi|^2``, on a preconditioned direction and for measurements of variance 1/m.

    A hypothesis on the paper's adaptive PRGD: the formula is the exact step for the canonical metric only. With a fixed epsilon
    in units of the squared gradient it tends to the exact step over sqrt(epsilon).
    """

    def __call__(self, problem: Problem, xi: Tangent, G: Gradient, weights: Weights) -> float:
        curvature = G.squared_image_norm(xi)
        return problem.operator_scale * xi.norm() ** 2 / curvature if curvature > 0 else 0.0


@dataclass(frozen=True)
class UnitVariance:
    """The metric of PRGD with a fixed epsilon for measurements of variance 1/m."""

    epsilon: float

    def start(self, G: Gradient) -> None:
        return None

    def weights(self, G: Gradient, memory: None) -> tuple[Weights, None]:
        epsilon = self.epsilon * G.problem.operator_scale**2
        return RowColumn(Fixed(epsilon)).weights(G, epsilon)[0], None


def _constant(metric: Any, pairs: Pairs) -> tuple[RGD, ...]:
    """Constant steps: pairs of epsilon and a factor."""
    return tuple(RGD(metric(epsilon), Constant(factor), safeguard=None) for epsilon, factor in pairs)


def _exact(metric: Any, pairs: Pairs) -> tuple[RGD, ...]:
    """Fractions of exact steps: pairs of epsilon and a relaxation."""
    return tuple(RGD(metric(epsilon), Exact(relaxation), safeguard=None) for epsilon, relaxation in pairs)


def _canonical(_: Any) -> Canonical:
    return Canonical()


def _every(factors: Iterable[float]) -> Pairs:
    return [(None, factor) for factor in factors]


# The likely best first: the others are stopped after more iterations than it needed. Constant steps of RGD start with the
# longest: steps that are too long diverge immediately.
_ADAPTIVE: tuple[Any, ...] = (Max(1e-4), Median(), Max(1e-2), Max(1.0), Median(0.1), Median(0.01), Max(1e-3), Theory())
_ADAPTIVE += (Median(10.0), Max(0.1), Max(10.0), Max(1e-5))
_RELAXED = (
    *((Median(0.01), 0.8), (Max(1e-4), 0.9), (Median(), 0.8), (Median(), 0.7), (Median(0.01), 0.9), (Median(0.1), 0.8)),
    *((Max(1e-4), 0.97), (Median(), 0.6), (Median(0.01), 0.7), (Max(1e-4), 0.8), (Median(), 0.9), (Max(1e-2), 0.8)),
)
_SHAMPOO = (
    *((Max(1.0), 0.7), (Max(1.0), 1.1), (Max(1e-2), 0.7), (Max(1e-2), 1.1), (Median(), 0.7), (Median(), 1.1)),
    *((Max(1.0), 1.5), (Max(10.0), 0.7), (Max(1.0), 0.5), (Max(10.0), 1.1), (Median(), 1.5), (Max(100.0), 0.7)),
)
_SHAMPOO_EPSILON: tuple[Any, ...] = (Max(1.0), Median(), Max(0.1), Median(0.1), Max(10.0), Max(1e-2), Median(0.01), Max(1e-3))
_SHAMPOO_EPSILON += (Max(100.0), Median(10.0), Max(1e-4), Median(100.0))
HYPOTHESIS = (1.5, 2.0, 1.2, 3.0, 1.0, 5.0, 10.0, 1.7, 2.5, 4.0, 7.0, 20.0)  # epsilon
_SHARED = {
    "adaptive-prgd": _exact(RowColumn, [(epsilon, 1.0) for epsilon in _ADAPTIVE]),
    "prgd-relaxed": _exact(RowColumn, _RELAXED),
    "adaptive-rgd": _exact(_canonical, _every([1.0])),
    "rgd-relaxed": _exact(_canonical, _every((0.8, 0.9, 0.7, 0.97, 0.6, 0.85, 0.95, 0.5, 0.75, 0.65, 0.55, 0.4))),
}
COMPLETION = _SHARED | {
    "prgd": _constant(
        RowColumn,
        (
            *((Median(), 0.7), (Median(0.1), 0.7), (Max(1e-3), 0.7), (Max(1e-4), 0.7), (Median(0.1), 0.5), (Max(1e-2), 1.0)),
            *((Max(1e-3), 0.5), (Max(0.1), 1.0), (Median(), 1.0), (Median(0.01), 0.7), (Median(), 0.5), (Median(0.1), 0.35)),
        ),
    ),
    "rgd": _constant(_canonical, _every((1.4, 1.0, 0.8, 0.7, 0.5, 0.4, 0.35, 0.2, 0.14, 0.1, 0.04, 0.02))),
    "shampoo": _constant(
        Shampoo,
        (
            *((Median(), 1.0), (Max(1.0), 0.2), (Max(0.1), 0.3), (Max(1.0), 0.7), (Median(), 0.5), (Max(1.0), 0.1)),
            *((Median(0.1), 1.0), (Max(10.0), 0.7), (Median(), 2.0), (Max(1.0), 1.5), (Max(10.0), 0.2), (Max(1.0), 0.05)),
        ),
    ),
    "adaptive-shampoo": _exact(Shampoo, [(epsilon, 1.0) for epsilon in _SHAMPOO_EPSILON]),
    "niht": (*(NIHT(k, safeguard=None) for k in (0.3, 0.5, 1.0, 0.7, 0.2, 0.85, 0.1, 0.4, 0.6, 1.4, 0.05)), NIHT()),
}
OTHERS = _SHARED | {  # sensing and phase retrieval
    "prgd": _constant(
        RowColumn,
        (
            *((Median(), 0.7), (Max(1e-4), 0.7), (Median(), 0.9), (Max(1.0), 0.7), (Max(1.0), 0.9), (Max(1.0), 1.1)),
            *((Median(), 0.5), (Median(), 1.1), (Median(), 0.3), (Max(1.0), 1.4), (Max(1e-4), 0.5), (Median(), 0.2)),
        ),
    ),
    "prgd-canonical-step": tuple(RGD(UnitVariance(epsilon), CanonicalStep(), safeguard=None) for epsilon in HYPOTHESIS),
    "rgd": _constant(_canonical, _every((0.7, 0.5, 0.9, 0.3, 1.1, 0.6, 0.8, 0.4, 0.2, 1.3, 0.14, 0.1))),
    "shampoo": _constant(Shampoo, _SHAMPOO),
    "full-shampoo": _constant(FullShampoo, _SHAMPOO),
    "niht": tuple(NIHT(k, safeguard=None) for k in (1.0, 0.7, 0.5, 0.85, 0.95, 0.6, 0.4, 0.3, 0.2, 1.2, 1.4, 0.1)),
    "rcg": ("rcg",),
}


def thinned(grid: tuple[Any, ...], scale: str) -> tuple[Any, ...]:
    """Candidates at a scale: evenly spaced ones of the grid."""
    budget = BUDGET[scale]
    return grid[:: max(1, len(grid) // budget)][:budget]


def completion_methods(scale: str, niht_seconds: float | None = None) -> tuple[Method, ...]:
    """The paper's methods, their variants and lorank's untuned solvers; NIHT, whose iterations cost more, has a time limit."""
    tuned = (Method(name, thinned(grid, scale), niht_seconds if name == "niht" else None) for name, grid in COMPLETION.items())
    return *tuned, Method("prgd-guarded", ("prgd",)), Method("auto", ("auto",))


def methods(scale: str, *names: str) -> tuple[Method, ...]:
    """Methods of sensing and phase retrieval by name."""
    return tuple(Method(name, thinned(OTHERS[name], scale)) for name in names)
