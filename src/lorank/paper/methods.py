"""Methods of the paper's comparisons with their grids of settings; claims.toml describes them.

The paper's Section 4 gives neither epsilon_t nor alpha_t, so each method is tuned. All methods have the same budget: the step
rule of their name (constant, adaptive: exact line search, relaxed: a fraction of the exact step), the policies for epsilon
where they have one, and the same number of candidates (:data:`BUDGET`) on the same tuning seeds. Methods without parameters
(adaptive RGD, RCG, auto) are not tuned. Only ``prgd-guarded``, which is lorank's ``prgd``, and ``auto`` have a safeguard.

Constant steps are in units of 1 / gain, for completion 1 / p with p the share of observed entries. "Max" is the largest
squared norm of a row or column of the first gradient, "Median" their median.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..experiments import Method
from ..loop.steps import Constant, Exact
from ..metrics import Canonical, FullShampoo, Median, RelativeMax, RowColumn, Shampoo, Theory
from ..solvers import NIHT, RGD

BUDGET = {"tiny": 2, "quick": 4, "paper": 8}  # candidates per method
PROTOCOL = 2  # 1: RGD and Shampoo with exact steps alone, PRGD with constant ones alone, grids of different sizes
Max = RelativeMax
RELAXATIONS = (0.8, 0.9, 0.7, 0.97, 0.6, 0.85, 0.95, 0.5)


def _constant(metric: Any, factor: float) -> RGD:
    return RGD(metric, Constant(factor), safeguard=None)


def _exact(metric: Any, relaxation: float = 1.0) -> RGD:
    return RGD(metric, Exact(relaxation), safeguard=None)


def _niht(factor: float) -> NIHT:
    return NIHT(factor, safeguard=None)


# The likely best first: the others are stopped after more iterations than it needed. The constant steps of RGD start with the
# longest: steps that are too long diverge immediately.
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

_SHAMPOO = (
    *((Max(1.0), 0.7), (Max(1.0), 1.1), (Max(1e-2), 0.7), (Max(1e-2), 1.1)),
    *((Median(), 0.7), (Median(), 1.1), (Max(1.0), 1.5), (Max(10.0), 0.7)),
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
    "shampoo": tuple(_constant(Shampoo(epsilon), factor) for epsilon, factor in _SHAMPOO),
    "full-shampoo": tuple(_constant(FullShampoo(epsilon), factor) for epsilon, factor in _SHAMPOO),
    "niht": tuple(map(_niht, (1.0, 0.7, 0.5, 0.85, 0.95, 0.6, 0.4, 0.3))),
    "rcg": ("rcg",),
}
VARIANTS = ("adaptive-prgd", "prgd-relaxed", "rgd-relaxed", "adaptive-shampoo")  # variants that the paper does not run
OWN = (Method("prgd-guarded", ("prgd",)), Method("auto", ("auto",)))  # lorank's solvers, untuned


def completion_methods(
    scale: str, niht_seconds: float | None = None, variants_at: Mapping[str, Any] | None = None
) -> tuple[Method, ...]:
    """The paper's methods, their variants and lorank's solvers.

    Parameters
    ----------
    scale : {"tiny", "quick", "paper"}
    niht_seconds : float, optional
        Time limit of NIHT, whose iterations cost several times those of the others.
    variants_at : mapping, optional
        The parameters of the point at which the settings of the variants are selected.
    """
    caps = {"niht": niht_seconds}
    places = dict.fromkeys(VARIANTS, variants_at)
    return (
        *(Method(name, grid[: BUDGET[scale]], caps.get(name), tuned_at=places.get(name)) for name, grid in COMPLETION.items()),
        *OWN,
    )


def methods(scale: str, *names: str) -> tuple[Method, ...]:
    """Methods of sensing and phase retrieval by name."""
    return tuple(Method(name, OTHERS[name][: BUDGET[scale]]) for name in names)
