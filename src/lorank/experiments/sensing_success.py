"""Gaussian sensing: how often a 50 x 50 matrix is recovered, against its rank and the number of measurements (Figure 7).

Success is a relative error of 1e-4 within 500 iterations. Below the degrees of freedom nothing can be recovered for sure:
there, two trials stand for ten.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..datasets import random_sensing
from .base import Experiment, Instance, Point
from .sensing_methods import ADAPTIVE_PRGD, ADAPTIVE_RGD, PRGD, RCG, RGD_RELAXED

METHODS = (ADAPTIVE_RGD, PRGD, ADAPTIVE_PRGD, RGD_RELAXED, RCG)
TUNED_AT = {"n1": 50, "n2": 50, "rank": 4, "m": 600}


class SensingSuccess(Experiment):
    """Settings are chosen once, where recovery is neither sure nor hopeless."""

    name = "sensing-success"
    title = "Sensing: success rates"

    def points(self, scale: str) -> Sequence[Point]:
        if scale == "tiny":
            base = {"n1": 12, "n2": 12, "rank": 1, "m": 80}
            points = [Point({**base, "m": m}, METHODS, seeds=(0, 1), max_iter=100, tuned_at=base) for m in (20, 60)]
            return [Point(base, METHODS, seeds=(), max_iter=100), *points]
        quick = scale == "quick"
        ranks, trials = ((2, 6, 10), 3) if quick else (range(2, 13, 2), 10)
        counts = range(200, 1001, 200) if quick else range(100, 1001, 100)
        tuning = Point(TUNED_AT, METHODS, seeds=(), max_iter=500)
        return [tuning, *(self._point(rank, m, trials) for rank in ranks for m in counts)]

    def _point(self, rank: int, m: int, trials: int) -> Point:
        hopeless = m < (100 - rank) * rank
        params = {"n1": 50, "n2": 50, "rank": rank, "m": m}
        return Point(params, METHODS, seeds=range(2 if hopeless else trials), max_iter=500, tuned_at=TUNED_AT)

    def instance(self, point: Point, seed: int) -> Instance:
        p = point.params
        problem, truth = random_sensing(p["n1"], p["n2"], p["rank"], m=p["m"], seed=seed)
        return Instance(problem, p["rank"], truth)


EXPERIMENT = SensingSuccess()
