"""Gaussian phase retrieval, real and complex: residual against iterations and time (the paper's Figure 8).

The paper forms the gradient to compute its row norms, so that its PRGD needs few iterations but much time. The methods whose
names end in "probes" estimate the norms from 16 random probes, batched with a product that is computed anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..datasets import random_phase
from ..experiments import Experiment, Instance, Method, Outcome, Point
from ..geometry import FixedRank
from ..loop.stopping import RelativeResidual, Rule
from .methods import PROTOCOL, methods

PROBES = 16


@dataclass(frozen=True)
class Probed:
    """A solver on the problem with row norms from probes."""

    solver: Any
    probes: int = PROBES


def probed(method: Method) -> Method:
    """A method with row norms from probes."""
    return replace(method, name=f"{method.name}-probes", grid=tuple(Probed(solver) for solver in method.grid))


METHODS = ("adaptive-prgd", "prgd", "prgd-relaxed", "adaptive-rgd", "rgd", "rgd-relaxed", "rcg")


class PhaseReal(Experiment):
    """n = 128, m = 6 n, to a relative residual of 1e-8."""

    name = "phase-real"
    title = "Phase retrieval, real: residual against iterations and time"
    protocol = PROTOCOL
    field: str = "real"
    dtype: Any = np.float64

    def points(self, scale: str) -> Sequence[Point]:
        n, tests = (32, 2) if scale == "tiny" else (128, 2 if scale == "quick" else 5)
        params = {"n1": n, "n2": n, "rank": 1, "oversampling": 6.0, "m": 6 * n, "field": self.field}
        compared = methods(scale, *METHODS)
        compared += tuple(probed(method) for method in methods(scale, "adaptive-prgd", "prgd", "prgd-relaxed"))
        return [Point(params, compared, seeds=range(tests), max_iter=3000, traced=range(tests))]

    def instance(self, point: Point, seed: int) -> Instance:
        p = point.params
        problem, x = random_phase(p["n1"], m=p["m"], dtype=self.dtype, seed=seed, row_norms="exact")
        return Instance(problem, 1, FixedRank.semidefinite(x[:, None]), extra=problem.with_row_norms(PROBES, seed))

    def stop(self, point: Point, instance: Instance) -> Rule:
        return RelativeResidual(1e-8)

    def setting(self, solver: Any) -> str:
        return repr(solver) if isinstance(solver, Probed) else super().setting(solver)

    def run(self, point: Point, instance: Instance, solver: Any, **options: Any) -> Outcome:
        if not isinstance(solver, Probed):
            return super().run(point, instance, solver, **options)
        outcome = super().run(point, replace(instance, problem=instance.extra), solver.solver, **options)
        return replace(outcome, setting=repr(solver))


class PhaseComplex(PhaseReal):
    """The same experiment with a complex signal and complex A."""

    name = "phase-complex"
    title = "Phase retrieval, complex: residual against iterations and time"
    field, dtype = "complex", np.complex128
