"""Theorem 1: PRGD with the policy of its proof contracts the error by a factor of at most 0.995 in each step.

Within the assumptions: measurements with the largest restricted isometry constant that the theorem admits, ``delta = 1 / (50
+ 100 sqrt(r) kappa)``. By construction ``A* A = I + delta S`` with S symmetric, with eigenvalues 1 and -1 in a random order
in the basis of the cosine transform: ``| |A Z|^2 - |Z|^2 | <= delta |Z|^2`` for all Z.

Outside the assumptions: Gaussian measurements of variance 1/m. Their constant is at least 2.6, 1.6 and 1.1 with 5, 10 and 20
measurements per degree of freedom (shown by a matrix of rank 6), so the theorem does not apply.

The start is one step of iterative hard thresholding from zero in both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.fft import dctn, idctn

from .. import metrics
from ..datasets import random_sensing
from ..experiments import Experiment, Instance, Method, Point
from ..geometry import FixedRank
from ..loop import steps
from ..problems import Sensing
from ..solvers import RGD
from .methods import PROTOCOL

METHODS = (Method("prgd", (RGD(metrics.RowColumn(metrics.Theory()), steps.Theory(), safeguard=None),)),)
INSIDE = ((2, 1.0), (2, 10.0), (5, 10.0))  # ranks and condition numbers


def premise(rank: int, kappa: float) -> float:
    """The largest restricted isometry constant that the theorem admits."""
    return 1 / (50 + 100 * math.sqrt(rank) * kappa)


def near_isometry(truth: FixedRank, delta: float, rng: np.random.Generator) -> Sensing:
    """Measurements of ``truth`` by an A with ``A* A = I + delta S``, S symmetric and orthogonal."""
    shape = truth.shape
    root = np.sqrt(1 + delta * rng.choice([-1.0, 1.0], shape))

    def forward(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return (root * dctn(left @ right.T, norm="ortho")).ravel()

    def adjoint(p: np.ndarray) -> np.ndarray:
        found: np.ndarray = idctn(root * p.reshape(shape), norm="ortho")
        return found

    y = forward(np.asarray(truth.U * truth.s), np.asarray(truth.V))
    return Sensing.from_functions(forward, adjoint, y, shape, operator_scale=1.0)  # type: ignore[return-value]


class Theorem(Experiment):
    """60 x 60, ranks 2 and 5, to a relative error of 1e-10."""

    name = "theorem"
    title = "Theorem 1: contraction per step"
    protocol = PROTOCOL
    tol = 1e-10

    def points(self, scale: str) -> Sequence[Point]:
        n, rank = (15, 1) if scale == "tiny" else (60, 2)
        factors, tests = {"tiny": ((10,), 2), "quick": ((5, 10, 20), 2)}.get(scale, ((5, 10, 20), 5))
        beyond = [self._point(n, rank, round(factor * (2 * n - rank) * rank), tests) for factor in factors]
        inside = INSIDE[:1] if scale == "tiny" else INSIDE
        return [*(self._point(n, r, n * n, tests, kappa) for r, kappa in inside), *beyond]

    def _point(self, n: int, rank: int, m: int, tests: int, kappa: float | None = None) -> Point:
        params = {"n1": n, "n2": n, "rank": rank, "oversampling": m / ((2 * n - rank) * rank), "m": m}
        if kappa is not None:
            params["field"] = f"inside the premise, \N{GREEK SMALL LETTER KAPPA} = {kappa:g}"  # type: ignore[assignment]
        return Point(params, METHODS, seeds=range(tests), max_iter=500, traced=range(tests), extra=kappa)

    def instance(self, point: Point, seed: int) -> Instance:
        p, kappa = point.params, point.extra
        n, rank = p["n1"], p["rank"]
        if kappa is None:
            problem, truth = random_sensing(n, n, rank, m=p["m"], normalized=True, seed=seed)
            return Instance(problem, rank, truth)
        rng = np.random.default_rng(seed)
        u, v = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for _ in range(2))
        truth = FixedRank(u, np.geomspace(kappa, 1.0, rank), v)
        return Instance(near_isometry(truth, premise(rank, kappa), rng), rank, truth)
