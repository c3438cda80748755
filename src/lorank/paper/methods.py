"""The methods of the paper's comparisons, under the paper's names, each with the grid that its setting is chosen from.

The paper's Section 4 gives neither epsilon_t nor alpha_t. So each method is a family, and all families are given the same: a
step kind that its name says (constant, adaptive: the exact line search, relaxed: a part of the exact step), the policies for
epsilon where it has one, and the same number of candidates (:data:`BUDGET`) on the same tuning seeds. A method without anything
to choose (adaptive RGD; RCG and auto, which are lorank's own) is run as it is. None has a safeguard, except those named so.

Constant steps are in units of 1 / gain: for completion 1 / p, with p the share of observed entries. "Max" is the largest
squared norm of a row or column of the first gradient, "median" the median of them.

================ =====================================================================================================
prgd             row and column weights, constant steps
adaptive-prgd    row and column weights, exact steps
prgd-relaxed     row and column weights, a part of the exact step
rgd              the canonical metric, constant steps
adaptive-rgd     the canonical metric, exact steps
rgd-relaxed      the canonical metric, a part of the exact step
shampoo          diagonal Shampoo (accumulated squared norms of rows and columns), constant steps
adaptive-shampoo diagonal Shampoo, exact steps
full-shampoo     Shampoo's full matrices, constant steps: for small matrices
niht             normalised iterative hard thresholding, its step times a factor
prgd-guarded     lorank's own ``prgd``, untuned, with a safeguard
rcg, auto        lorank's conjugate gradients and its default; untuned
================ =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..experiments import Method
from ..loop.steps import Constant, Exact
from ..metrics import Canonical, FullShampoo, Median, RelativeMax, RowColumn, Shampoo, Theory
from ..solvers import NIHT, RGD

BUDGET = {"tiny": 2, "quick": 4, "paper": 8}  # candidates of a method
PROTOCOL = 2  # 1: RGD and Shampoo with exact steps alone, PRGD with constant ones alone, grids of different sizes
Max = RelativeMax
RELAXATIONS = (0.8, 0.9, 0.7, 0.97, 0.6, 0.85, 0.95, 0.5)


def _constant(metric: Any, factor: float) -> RGD:
    return RGD(metric, Constant(factor), safeguard=None)


def _exact(metric: Any, relaxation: float = 1.0) -> RGD:
    return RGD(metric, Exact(relaxation), safeguard=None)


def _niht(factor: float) -> NIHT:
    return NIHT(factor, safeguard=None)


# The likely best first: the others are stopped when they have fallen behind it. RGD's constants begin with the longest: those
# that are too long diverge at once, and the larger n, the more of them.
_ADAPTIVE_PRGD = tuple(
    _exact(RowColumn(epsilon))
    for epsilon in (Max(1e-4), Median(), Max(1e-2), Max(1.0), Median(0.1), Median(0.01), Max(1e-3), Theory())
)
_PRGD_RELAXED = tuple(
    _exact(RowColumn(epsilon), relaxation)
    for epsilon, relaxation in (
        *((Median(0.01), 0.8), (Max(1e-4), 0.9), (Median(), 0.8), (Median(), 0.7)),
        *((Median(0.01), 0.9), (Median(0.1), 0.8), (Max(1e-4), 0.97), (Median(), 0.6)),
    )
)
_RGD_RELAXED = tuple(_exact(Canonical(), relaxation) for relaxation in RELAXATIONS)
_ADAPTIVE_SHAMPOO = tuple(
    _exact(Shampoo(epsilon))
    for epsilon in (Max(1.0), Median(), Max(0.1), Median(0.1), Max(10.0), Max(1e-2), Median(0.01), Max(1e-3))
)

COMPLETION = {
    "prgd": tuple(
        _constant(RowColumn(epsilon), factor)
        for epsilon, factor in (
            *((Median(), 0.7), (Median(0.1), 0.7), (Max(1e-3), 0.7), (Max(1e-4), 0.7)),
            *((Median(0.1), 0.5), (Max(1e-2), 1.0), (Max(5e-4), 0.82), (Max(0.1), 1.0)),
        )
    ),
    "adaptive-prgd": _ADAPTIVE_PRGD,
    "prgd-relaxed": _PRGD_RELAXED,
    "rgd": tuple(_constant(Canonical(), factor) for factor in (0.35, 0.2, 0.14, 0.1, 0.057, 0.04, 0.028, 0.02)),
    "adaptive-rgd": (_exact(Canonical()),),
    "rgd-relaxed": _RGD_RELAXED,
    "shampoo": tuple(
        _constant(Shampoo(epsilon), factor)
        for epsilon, factor in (
            *((Median(), 1.0), (Max(1.0), 0.2), (Max(0.1), 0.3), (Max(1.0), 0.7)),
            *((Median(), 0.5), (Max(1.0), 0.1), (Median(0.1), 1.0), (Max(10.0), 0.7)),
        )
    ),
    "adaptive-shampoo": _ADAPTIVE_SHAMPOO,
    "niht": (*map(_niht, (0.3, 0.5, 1.0)), NIHT(), *map(_niht, (0.7, 0.2, 0.85, 0.1))),
}
OTHERS = {  # sensing and phase retrieval
    "prgd": tuple(
        _constant(RowColumn(epsilon), factor)
        for factor, epsilon in (
            *((0.7, Median()), (0.7, Max(1e-4)), (0.9, Median()), (0.7, Max(1.0))),
            *((0.9, Max(1.0)), (1.1, Max(1.0)), (0.5, Median()), (1.1, Median())),
        )
    ),
    "adaptive-prgd": _ADAPTIVE_PRGD,
    "prgd-relaxed": _PRGD_RELAXED,
    "rgd": tuple(_constant(Canonical(), factor) for factor in (0.7, 0.5, 0.9, 0.3, 1.1, 0.6, 0.8, 0.4)),
    "adaptive-rgd": (_exact(Canonical()),),
    "rgd-relaxed": _RGD_RELAXED,
    "shampoo": tuple(
        _constant(Shampoo(epsilon), factor)
        for epsilon, factor in (
            *((Max(1.0), 0.7), (Max(1.0), 1.1), (Max(1e-2), 0.7), (Max(1e-2), 1.1)),
            *((Median(), 0.7), (Median(), 1.1), (Max(1.0), 1.5), (Max(10.0), 0.7)),
        )
    ),
    "full-shampoo": tuple(
        _constant(FullShampoo(epsilon), factor)
        for epsilon, factor in (
            *((Max(1.0), 0.7), (Max(1.0), 1.1), (Max(1e-2), 0.7), (Max(1e-2), 1.1)),
            *((Median(), 0.7), (Median(), 1.1), (Max(1.0), 1.5), (Max(10.0), 0.7)),
        )
    ),
    "niht": tuple(map(_niht, (1.0, 0.7, 0.5, 0.85, 0.95, 0.6, 0.4, 0.3))),
    "rcg": ("rcg",),
}
BESIDE = ("adaptive-prgd", "prgd-relaxed", "rgd-relaxed", "adaptive-shampoo")  # relatives that the paper does not run
OWN = (Method("prgd-guarded", ("prgd",)), Method("auto", ("auto",)))  # lorank's own: nothing to tune


def completion_methods(
    scale: str, niht_seconds: float | None = None, beside_at: Mapping[str, Any] | None = None
) -> tuple[Method, ...]:
    """The paper's methods, their relatives and lorank's own.

    Parameters
    ----------
    scale : {"tiny", "quick", "paper"}
    niht_seconds : float, optional
        A cap for NIHT, whose iterations cost several times those of the others.
    beside_at : mapping, optional
        The parameters of the point whose settings the relatives beside the paper's methods take.
    """
    caps = {"niht": niht_seconds}
    places = dict.fromkeys(BESIDE, beside_at)
    return (
        *(Method(name, grid[: BUDGET[scale]], caps.get(name), tuned_at=places.get(name)) for name, grid in COMPLETION.items()),
        *OWN,
    )


def methods(scale: str, *names: str) -> tuple[Method, ...]:
    """These methods of sensing and phase retrieval."""
    return tuple(Method(name, OTHERS[name][: BUDGET[scale]]) for name in names)
