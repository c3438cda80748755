"""Gaussian sensing: iterations and time to a relative error of 1e-4 against the oversampling 1/q (the paper's Figure 6).

At 150 x 150 a table of all measuring matrices takes half a gigabyte, and an iteration reads it twice: it is kept in single
precision, which an error of 1e-4 does not notice, and settings are chosen on matrices of half the size and rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..datasets import random_sensing
from .base import Experiment, Instance, Method, Point
from .sensing_methods import (
    ADAPTIVE_PRGD,
    ADAPTIVE_RGD,
    NIHT_NORMALISED,
    PRGD,
    RCG,
    RGD_RELAXED,
    SHAMPOO,
)

METHODS = (ADAPTIVE_PRGD, PRGD, ADAPTIVE_RGD, NIHT_NORMALISED, SHAMPOO, RGD_RELAXED, RCG)
SECONDS = 120.0  # for one run at paper scale
TESTS = {1.2: 2}  # where iterations are by the thousand; elsewhere five


class SensingOversampling(Experiment):
    """150 x 150, rank 10, 1/q from 1.2 to 2."""

    name = "sensing-oversampling"
    title = "Sensing: iterations and time against the oversampling"

    def points(self, scale: str) -> Sequence[Point]:
        if scale == "tiny":
            return [self._point(12, 1, 3.0, (0, 1), 200, 5.0, METHODS)]
        if scale == "quick":
            return [self._point(40, 3, oversampling, (0, 1), 3000, 20.0, METHODS) for oversampling in (1.2, 1.4, 1.6, 1.8, 2.0)]
        points = []
        for oversampling in (2.0, 1.8, 1.6, 1.2, 1.4):
            small = self._point(75, 5, oversampling, (), 3000, 60.0, METHODS)
            seeds = range(TESTS.get(oversampling, 5))
            large = self._point(150, 10, oversampling, seeds, 3000, SECONDS, METHODS)
            points += [small, replace(large, tuned_at=small.params)]
        return points

    def _point(
        self, n: int, rank: int, oversampling: float, seeds: Sequence[int], most: int, cap: float, methods: Sequence[Method]
    ) -> Point:
        m = round(oversampling * (2 * n - rank) * rank)
        params = {"n1": n, "n2": n, "rank": rank, "oversampling": oversampling, "m": m}
        return Point(params, methods, seeds=seeds, max_iter=most, max_seconds=cap)

    def instance(self, point: Point, seed: int) -> Instance:
        p = point.params
        dtype = "float32" if p["n1"] > 100 else "float64"
        problem, truth = random_sensing(p["n1"], p["n2"], p["rank"], m=p["m"], dtype=dtype, seed=seed)
        return Instance(problem, p["rank"], truth)


EXPERIMENT = SensingOversampling()
