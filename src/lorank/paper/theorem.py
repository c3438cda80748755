"""Theorem 1: PRGD with the policy of its proof contracts the error by a factor of at most 0.995 in each step.

Gaussian sensing, measuring matrices with entries of variance 1/m, as the restricted isometry property asks; the start is one
step of iterative hard thresholding from zero. The more measurements, the closer to an isometry.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import metrics, steps
from ..datasets import random_sensing
from ..experiments import Experiment, Instance, Method, Point
from ..solvers import RGD

METHODS = (Method("prgd", (RGD(metrics.RowColumn(metrics.Theory()), steps.Theory(), safeguard=None),)),)


class Theorem(Experiment):
    """60 x 60, rank 2, down to an error of 1e-10."""

    name = "theorem"
    title = "Theorem 1: the contraction of each step"
    tol = 1e-10

    def points(self, scale: str) -> Sequence[Point]:
        n, rank = (15, 1) if scale == "tiny" else (60, 2)
        factors, tests = {"tiny": ((10,), 2), "quick": ((5, 10, 20), 2)}.get(scale, ((5, 10, 20), 5))
        return [self._point(n, rank, float(factor), tests) for factor in factors]

    def _point(self, n: int, rank: int, oversampling: float, tests: int) -> Point:
        m = round(oversampling * (2 * n - rank) * rank)
        params = {"n1": n, "n2": n, "rank": rank, "oversampling": oversampling, "m": m}
        return Point(params, METHODS, seeds=range(tests), max_iter=500, traced=range(tests))

    def instance(self, point: Point, seed: int) -> Instance:
        p = point.params
        problem, truth = random_sensing(p["n1"], p["n2"], p["rank"], m=p["m"], normalized=True, seed=seed)
        return Instance(problem, p["rank"], truth)
