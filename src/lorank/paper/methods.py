"""The methods of the paper's comparisons, each with the grid that its setting is chosen from: completion, then the others.

The paper's Section 4 gives neither epsilon_t nor alpha_t; these grids cover what was found to work. Steps are in units of
1 / p, with p the share of observed entries; "max" is the largest squared norm of a row or column of the first gradient,
"median" the median of them.

The methods are the paper's: none has a safeguard. PRGD's fastest constant steps then diverge on some problems, so it is
tuned on more seeds than the others; and lorank's own ``prgd``, untuned, with a safeguard that acts on such problems alone, runs
beside it as "prgd-guarded".

======== ==========================================================================================================
PRGD     epsilon = median, 0.1 median, 1e-3 max or 1e-4 max, steps 0.7; 0.1 median, steps 0.5; 1e-2 max, steps 1
RGD      the exact line search; constant steps 0.5, 0.35, 0.2, 0.1 (which diverge, or crawl, on large matrices)
Shampoo  epsilon = max with the exact line search; max, steps 0.7 and 0.2; median, steps 1; 0.1 max, steps 0.3
NIHT     its normalised step times 0.3, 0.5 and 1; and times 1 with a safeguard, which shortens a step after which the residual
         grows (without one it often wanders at 1)
======== ==========================================================================================================

Two sets are smaller, so that tuning does not take longer than the runs. ``LARGE``, for n above 10 000, leaves out what came
last at n = 4 000. ``HIGH``, for ranks 50 and 100, where far more entries are observed, has longer steps in their stead.

On sensing and phase retrieval, too, none has a safeguard, and constant steps are in units of 1 / gain, with gain the mean of
``|A Z|^2 / |Z|^2``.

============== ===============================================================================================
adaptive-prgd  epsilon = 1e-4, 1e-2 or 1 of the largest squared row or column norm of the first gradient, their
               median, or the theory's; exact line search
adaptive-rgd   exact line search
prgd           epsilon = the median, 1e-4 or 1 of the largest; constant steps 0.5, 0.7, 0.9, 1.1
rgd            constant steps 0.3, 0.5, 0.7, 0.9, 1.1
shampoo        epsilon = 1 or 0.01 of the largest squared norm, constant steps 0.7, 1.1; full Shampoo, 0.7 and 1.1
niht           its own step, normalised, times 1, 0.7, 0.5
prgd-relaxed   adaptive-prgd with 0.8 or 0.7 or 0.6 of the exact step
rgd-relaxed    adaptive-rgd with 0.8 or 0.7 or 0.6 of the exact step
rcg            lorank's Riemannian conjugate gradients; nothing to tune
============== ===============================================================================================

The relaxed ones and rcg are not in the paper: they tell what shorter steps and conjugacy bring from what weights bring.
"""

from __future__ import annotations

from typing import Any

from ..experiments import Method
from ..metrics import Canonical, FullShampoo, Median, RelativeMax, RowColumn, Shampoo, Theory
from ..solvers import NIHT, RGD
from ..steps import Constant, Exact


def _prgd(epsilon: Any, factor: float) -> RGD:
    return RGD(RowColumn(epsilon), Constant(factor), safeguard=None)


def _shampoo(epsilon: Any, factor: float | None) -> RGD:
    return RGD(Shampoo(epsilon), Exact() if factor is None else Constant(factor), safeguard=None)


def _rgd(factor: float | None) -> RGD:
    return RGD(Canonical(), Exact() if factor is None else Constant(factor), safeguard=None)


def _niht(factor: float) -> NIHT:
    return NIHT(factor, safeguard=None)


MORE_SEEDS = tuple(range(1002, 1006))  # for PRGD: some settings diverge on one problem in ten, which two seeds seldom show
OWN = (Method("prgd-guarded", ("prgd",)), Method("auto", ("auto",)))  # lorank's own: nothing to tune

# The likely best first: the others are stopped when they have fallen behind it.
FULL = {
    "prgd": (
        _prgd(Median(), 0.7),
        _prgd(Median(0.1), 0.7),
        _prgd(RelativeMax(1e-3), 0.7),
        _prgd(RelativeMax(1e-4), 0.7),
        _prgd(Median(0.1), 0.5),
        _prgd(RelativeMax(1e-2), 1.0),
    ),
    "rgd": (_rgd(None), _rgd(0.5), _rgd(0.35), _rgd(0.2), _rgd(0.1)),
    "shampoo": (
        _shampoo(RelativeMax(1.0), None),
        _shampoo(RelativeMax(1.0), 0.7),
        _shampoo(Median(), 1.0),
        _shampoo(RelativeMax(0.1), 0.3),
        _shampoo(RelativeMax(1.0), 0.2),
    ),
    "niht": (_niht(0.3), _niht(0.5), _niht(1.0), NIHT()),
}
LARGE = {
    "prgd": FULL["prgd"][:5],
    "rgd": (_rgd(None), _rgd(0.2)),
    "shampoo": (_shampoo(RelativeMax(1.0), None), _shampoo(Median(), 1.0)),
    "niht": (_niht(0.3), _niht(0.5)),
}
HIGH = {
    "prgd": (
        _prgd(RelativeMax(1e-2), 1.0),
        _prgd(Median(), 0.7),
        _prgd(RelativeMax(0.1), 1.0),
        _prgd(Median(0.1), 0.7),
    ),
    "rgd": (_rgd(None), _rgd(0.5), _rgd(0.7)),
    "shampoo": (_shampoo(RelativeMax(1.0), None), _shampoo(RelativeMax(10.0), 0.7), _shampoo(RelativeMax(1.0), 0.7)),
    "niht": (_niht(0.5), _niht(1.0)),
}


def completion_methods(
    niht_seconds: float | None = None, grids: dict[str, tuple[Any, ...]] = FULL, *, own: bool = True
) -> tuple[Method, ...]:
    """PRGD, RGD, Shampoo and NIHT, and the library's own beside them.

    Parameters
    ----------
    niht_seconds : float, optional
        A cap for NIHT, whose iterations cost several times those of the others.
    grids : dict
        ``FULL``, ``LARGE`` or ``HIGH``.
    own : bool
        Whether lorank's own, guarded PRGD and the default, run, too. They need no tuning.
    """
    caps = {"niht": niht_seconds}
    more = {"prgd": MORE_SEEDS}
    papers = tuple(Method(name, grid, caps.get(name), more.get(name, ())) for name, grid in grids.items())
    return (*papers, *OWN) if own else papers


# -- sensing and phase retrieval ---------------------------------------------------------------------------------------
RELAXATIONS = (0.7, 0.8, 0.6)

ADAPTIVE_PRGD = Method(
    "adaptive-prgd",
    tuple(
        RGD(RowColumn(epsilon), Exact(), safeguard=None)
        for epsilon in (RelativeMax(1e-4), Median(), RelativeMax(1e-2), RelativeMax(1.0), Theory())
    ),
)
ADAPTIVE_RGD = Method("adaptive-rgd", (RGD(Canonical(), Exact(), safeguard=None),))
PRGD = Method(
    "prgd",
    tuple(
        RGD(RowColumn(epsilon), Constant(factor), safeguard=None)
        for factor, epsilons in (
            (0.7, (Median(), RelativeMax(1e-4), RelativeMax(1.0))),
            (0.9, (Median(), RelativeMax(1.0))),
            (1.1, (Median(), RelativeMax(1.0))),
            (0.5, (Median(), RelativeMax(1e-4))),
        )
        for epsilon in epsilons
    ),
)
RGD_CONSTANT = Method("rgd", tuple(RGD(Canonical(), Constant(factor), safeguard=None) for factor in (0.7, 0.9, 1.1, 0.5, 0.3)))
SHAMPOO = Method(
    "shampoo",
    (
        *(RGD(Shampoo(RelativeMax(1.0)), Constant(factor), safeguard=None) for factor in (0.7, 1.1)),
        *(RGD(Shampoo(RelativeMax(1e-2)), Constant(factor), safeguard=None) for factor in (0.7, 1.1)),
        *(RGD(FullShampoo(RelativeMax(1.0)), Constant(factor), safeguard=None) for factor in (0.7, 1.1)),
    ),
)
NIHT_NORMALISED = Method("niht", tuple(NIHT(factor, safeguard=None) for factor in (1.0, 0.7, 0.5)))
PRGD_RELAXED = Method("prgd-relaxed", tuple(RGD(RowColumn(), Exact(factor), safeguard=None) for factor in RELAXATIONS))
RGD_RELAXED = Method("rgd-relaxed", tuple(RGD(Canonical(), Exact(factor), safeguard=None) for factor in RELAXATIONS))
RCG = Method("rcg", ("rcg",))
