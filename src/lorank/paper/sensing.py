"""Gaussian sensing: iterations and time against the oversampling 1/q, and success rates (the paper's Figures 6 and 7).

At 150 x 150 the measurement matrices take half a gigabyte, and an iteration reads them twice. They are stored in single
precision, which suffices for an error of 1e-4, and settings are selected on matrices of half the size and rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..datasets import random_sensing
from ..experiments import TUNING_SEEDS, Experiment, Instance, Method, Point
from .methods import PROTOCOL, methods

METHODS = (
    *("adaptive-prgd", "prgd", "prgd-canonical-step", "prgd-relaxed", "adaptive-rgd", "rgd", "rgd-relaxed"),
    *("shampoo", "full-shampoo", "niht", "rcg"),
)
SECONDS = 240.0  # time limit of a run at paper scale


class _Sensing(Experiment):
    """Gaussian measurement matrices, large ones in single precision."""

    protocol = PROTOCOL

    def instance(self, point: Point, seed: int) -> Instance:
        p = point.params
        dtype = "float32" if p["n1"] > 100 else "float64"
        problem, truth = random_sensing(p["n1"], p["n2"], p["rank"], m=p["m"], dtype=dtype, seed=seed)
        return Instance(problem, p["rank"], truth)


class SensingOversampling(_Sensing):
    """150 x 150, rank 10, 1/q from 1.2 to 2."""

    name = "sensing-oversampling"
    title = "Sensing: iterations and time against oversampling"

    def points(self, scale: str) -> Sequence[Point]:
        compared = methods(scale, *METHODS)
        if scale == "tiny":
            return [Point(_params(12, 1, 3.0), compared, seeds=(0, 1), max_iter=200, max_seconds=5.0)]
        ratios = (1.2, 1.4, 1.6, 1.8, 2.0)
        limits: dict[str, Any] = {"max_iter": 3000, "max_seconds": 20.0}
        if scale == "quick":
            tuned = {1.2: 1.2, 1.4: 1.2}  # the others use the settings at 2
            points = [
                Point(
                    _params(40, 3, k),
                    compared,
                    seeds=(0, 1),
                    tuning_seeds=TUNING_SEEDS[:1],
                    tuned_at=None if k in (1.2, 2.0) else _params(40, 3, tuned.get(k, 2.0)),
                    **limits,
                )
                for k in ratios
            ]
            return sorted(points, key=lambda point: point.tuned_at is not None)
        small = {k: Point(_params(75, 5, k), compared, seeds=(), max_iter=3000, max_seconds=60.0) for k in ratios}
        limits["max_seconds"] = SECONDS
        large = [Point(_params(150, 10, k), compared, tuned_at=small[k].params, **limits) for k in ratios]
        return [*small.values(), *large]


def _params(n: int, rank: int, oversampling: float) -> dict[str, float]:
    m = round(oversampling * (2 * n - rank) * rank)
    return {"n1": n, "n2": n, "rank": rank, "oversampling": oversampling, "m": m}


SUCCESS_METHODS = ("adaptive-rgd", "prgd", "adaptive-prgd", "rgd", "rgd-relaxed", "prgd-relaxed", "rcg")
TUNED_AT = {"n1": 50, "n2": 50, "rank": 4, "m": 600}


class SensingSuccess(_Sensing):
    """50 x 50, ranks 2 to 12: success is a relative error of 1e-4 within 500 iterations.

    Settings are selected once, at a point where recovery sometimes succeeds. With fewer measurements than degrees of freedom
    recovery is impossible, so two trials replace ten.
    """

    name = "sensing-success"
    title = "Sensing: success rates"

    def points(self, scale: str) -> Sequence[Point]:
        compared = methods(scale, *SUCCESS_METHODS)
        if scale == "tiny":
            base = {"n1": 12, "n2": 12, "rank": 1, "m": 80}
            points = [Point({**base, "m": m}, compared, seeds=(0, 1), max_iter=100, tuned_at=base) for m in (20, 60)]
            return [Point(base, compared, seeds=(), max_iter=100), *points]
        quick = scale == "quick"
        ranks, trials = ((2, 8), 2) if quick else (range(2, 13, 2), 10)
        counts = range(400, 1001, 200) if quick else range(100, 1001, 100)
        tuning = Point(TUNED_AT, compared, seeds=(), max_iter=500)
        return [tuning, *(self._point(rank, m, trials, compared) for rank in ranks for m in counts)]

    def _point(self, rank: int, m: int, trials: int, compared: Sequence[Method]) -> Point:
        hopeless = m < (100 - rank) * rank
        params = {"n1": 50, "n2": 50, "rank": rank, "m": m}
        return Point(params, compared, seeds=range(2 if hopeless else trials), max_iter=500, tuned_at=TUNED_AT)
