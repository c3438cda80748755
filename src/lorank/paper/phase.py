"""Gaussian phase retrieval, real and complex: residual against iterations and time (the paper's Figure 8).

The paper forms the gradient to compute its row norms, so that its PRGD needs few iterations but much time. The methods whose
names end in "probes" estimate the norms from 16 random probes, batched with a product that is computed anyway. lorank keeps X
semidefinite and shortens a start that fits worse than zero; the methods whose names end in "literal" do neither, as in the
paper: X is symmetric of rank 1, and X_0 is H_r(A* y).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..datasets import random_phase
from ..experiments import TUNING_SEEDS, Experiment, Instance, Method, Outcome, Point
from ..geometry import FixedRank
from ..loop.stopping import RelativeResidual, Rule
from ..phase import PhaseRetrieval
from ..problems import Sensing
from ..starts import Spectral
from .methods import PROTOCOL, methods

PROBES = 16


@dataclass(frozen=True)
class Probed:
    """A solver on the problem with row norms from probes."""

    solver: Any
    probes: int = PROBES


@dataclass(frozen=True)
class Literal:
    """A solver on symmetric matrices of rank 1 that need not be semidefinite, from a spectral start without shrinkage."""

    solver: Any


def variant(kind: Any, method: Method) -> Method:
    """A method on a variant of the problem."""
    name = {Probed: "probes", Literal: "literal"}[kind]
    return replace(method, name=f"{method.name}-{name}", grid=tuple(kind(solver) for solver in method.grid))


def literal_problem(A: np.ndarray, y: np.ndarray, operator_scale: float) -> Sensing:
    """The measurements ``a_i^H X a_i`` of matrices that need not be semidefinite."""

    def forward(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.einsum("ij,ij->i", A @ left, (A @ right).conj()).real
        return found

    def adjoint(p: np.ndarray) -> np.ndarray:
        found: np.ndarray = (A.conj().T * p) @ A
        return found

    shape = A.shape[1], A.shape[1]
    return Sensing.from_functions(forward, adjoint, y, shape, operator_scale=operator_scale)  # type: ignore[return-value]


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
        compared += tuple(variant(Probed, method) for method in methods(scale, "adaptive-prgd", "prgd", "prgd-relaxed"))
        if self.field == "real":  # measurements of complex matrices that are not Hermitian would be complex
            compared += tuple(variant(Literal, method) for method in methods(scale, "adaptive-prgd", "adaptive-rgd"))
        seeds = TUNING_SEEDS if scale == "paper" else TUNING_SEEDS[:1]
        return [Point(params, compared, seeds=range(tests), max_iter=3000, traced=range(tests), tuning_seeds=seeds)]

    def instance(self, point: Point, seed: int) -> Instance:
        p = point.params
        problem, x = random_phase(p["n1"], m=p["m"], dtype=self.dtype, seed=seed, row_norms="exact")
        extra: dict[Any, Any] = {Probed: problem.with_row_norms(PROBES, seed)}
        if self.field == "real":
            extra[Literal] = literal_problem(measurement_matrix(problem), problem.y, problem.operator_scale)
        return Instance(problem, 1, FixedRank.semidefinite(x[:, None]), extra=extra)

    def stop(self, point: Point, instance: Instance) -> Rule:
        return RelativeResidual(1e-8)

    def setting(self, solver: Any) -> str:
        return repr(solver) if isinstance(solver, (Probed, Literal)) else super().setting(solver)

    def run(self, point: Point, instance: Instance, solver: Any, **options: Any) -> Outcome:
        if not isinstance(solver, (Probed, Literal)):
            return super().run(point, instance, solver, **options)
        if isinstance(solver, Literal):
            options["start"] = Spectral(tol=1e-12, restarts=50, rescaled=False)  # exact: both factors stay alike
        changed = replace(instance, problem=instance.extra[type(solver)])
        return replace(super().run(point, changed, solver.solver, **options), setting=repr(solver))


def measurement_matrix(problem: PhaseRetrieval) -> np.ndarray:
    """The matrix A."""
    return np.asarray(problem.linear_map.apply(np.eye(problem.linear_map.n)))


class PhaseComplex(PhaseReal):
    """The same experiment with a complex signal and complex A."""

    name = "phase-complex"
    title = "Phase retrieval, complex: residual against iterations and time"
    field, dtype = "complex", np.complex128
