"""The methods of the sensing and phase retrieval comparisons, each with the grid that its setting is chosen from.

As in :mod:`.methods` none has a safeguard, and constant steps are in units of 1 / gain, with gain the mean of
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

from ..metrics import Canonical, FullShampoo, Median, RelativeMax, RowColumn, Shampoo, Theory
from ..solvers import NIHT, RGD
from ..steps import Constant, Exact
from .base import Method

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
