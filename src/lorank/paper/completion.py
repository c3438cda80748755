"""Matrix completion: iterations and time against size, oversampling and noise (the paper's Figures 1 to 4).

Factors are uniform on [0, 1]. Runs end at a relative error of 1e-4, with noise at a relative change of X below 1e-5. The
paper's captions say "q = 5"; by its definition this is 1/q = 5 observations per degree of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..datasets import random_completion
from ..experiments import TUNING_SEEDS, Experiment, Instance, Outcome, Point
from ..loop.stopping import RelativeChange, Rule
from .methods import PROTOCOL, completion_methods

MAX_ITER = 10_000
SECONDS = 120.0  # time limit of a run
NIHT_SECONDS = 60.0
TUNING_SECONDS = {10: 10.0, 50: 20.0, 100: 30.0}  # by rank
MORE_SEEDS = range(1000, 1004)  # some constant steps diverge on one problem in ten, which two seeds rarely show
TRACED = {"tiny": 60, "quick": 4000, "paper": 10_000}  # n whose first test is stored iteration by iteration


def completion_params(n: int, rank: int, oversampling: float, noise: float | None = None) -> dict[str, float]:
    """The parameters of a square completion problem in the tables."""
    params = {"n1": n, "n2": n, "rank": rank, "oversampling": float(oversampling)}
    params["m"] = min(round(oversampling * (2 * n - rank) * rank), n * n)
    return params if noise is None else params | {"noise": noise}


class _Completion(Experiment):
    """The paper's random problem: uniform factors and uniformly sampled entries."""

    protocol = PROTOCOL
    instances_kept = 10  # a few dozen megabytes each

    def instance(self, point: Point, seed: int) -> Instance:
        p = point.params
        noise = p.get("noise", 0.0)
        problem, truth = random_completion(p["n1"], p["n2"], p["rank"], oversampling=p["oversampling"], noise=noise, seed=seed)
        return Instance(problem, p["rank"], truth)


# Rank, oversampling, n, tests, and the n at which the settings of the paper's methods and of their variants are selected.
PAPER = (
    *((10, 5, n, 5, n, n) for n in (10_000, 4000, 1000)),
    *((10, 5, n, 5, n, 10_000) for n in (20_000, 15_000, 8000)),
    *((10, 5, n, 5, n, 4000) for n in (6000, 2000)),
    (50, 6, 2000, 5, 2000, 2000),
    (50, 6, 4000, 5, 4000, 2000),
    (50, 6, 8000, 2, 4000, 2000),
    (50, 6, 12_000, 2, 4000, 2000),
    (100, 7, 3000, 2, 3000, 3000),
    (100, 7, 5000, 2, 3000, 3000),
    (100, 7, 8000, 2, 3000, 3000),
)
QUICK = ((10, 5, 500), (10, 5, 1000), (10, 5, 2000), (10, 5, 4000), (50, 6, 1000))
TINY = ((1, 5, 40), (1, 5, 60))


class CompletionSize(_Completion):
    """n up to 20 000 at rank 10, up to 12 000 at rank 50 and 8 000 at rank 100."""

    name = "completion-size"
    title = "Completion: iterations and time against matrix size"

    def points(self, scale: str) -> Sequence[Point]:
        if scale == "paper":
            return [self._paper(*row) for row in PAPER]
        cases, max_iter, seconds = (TINY, 100, 20.0) if scale == "tiny" else (QUICK, 600, 4.0)
        return [
            Point(
                completion_params(n, rank, oversampling),
                completion_methods(scale),
                seeds=(0, 1),
                max_iter=max_iter,
                max_seconds=seconds,
                tuning_seeds=TUNING_SEEDS,
                tuning_seconds=seconds / 4,
                traced=(0,) if n == TRACED[scale] else (),
            )
            for rank, oversampling, n in cases
        ]

    def _paper(self, rank: int, oversampling: int, n: int, tests: int, tuned: int, tuned_variants: int) -> Point:
        return Point(
            completion_params(n, rank, oversampling),
            completion_methods("paper", NIHT_SECONDS, completion_params(tuned_variants, rank, oversampling)),
            seeds=range(tests),
            max_iter=MAX_ITER,
            max_seconds=SECONDS,
            tuning_seeds=MORE_SEEDS if rank == 10 else TUNING_SEEDS[:1],
            tuning_seconds=TUNING_SECONDS[rank],
            tuned_at=None if tuned == n else completion_params(tuned, rank, oversampling),
            traced=(0,) if n == TRACED["paper"] else (),
        )


OVERSAMPLING = {  # n, rank, oversampling, tests, limits: iterations, seconds, seconds of NIHT, seconds of a tuning run
    "tiny": (50, 1, (5, 8), 2, 100, 20.0, 20.0, 20.0),
    "quick": (2000, 10, (3, 5, 9, 15), 2, 600, 5.0, 4.0, 1.0),
    "paper": (10_000, 10, tuple(range(3, 16)), 5, 6000, 60.0, 30.0, 10.0),
}
TUNED_OVERSAMPLING = (3, 4, 6, 9, 12)


class CompletionOversampling(_Completion):
    """n = 10 000, rank 10, 1/q = 3 .. 15."""

    name = "completion-oversampling"
    title = "Completion: iterations and time against oversampling"

    def points(self, scale: str) -> Sequence[Point]:
        """Settings are selected at some of the points; the others use those of the nearest one."""
        n, rank, oversampling, tests, max_iter, seconds, niht_seconds, tuning_seconds = OVERSAMPLING[scale]
        tuned = [k for k in oversampling if k in TUNED_OVERSAMPLING] if scale == "paper" else oversampling

        def nearest(k: int) -> int:
            return min(tuned, key=lambda other: abs(other - k))

        return [
            Point(
                completion_params(n, rank, k),
                completion_methods(scale, niht_seconds),
                seeds=range(tests),
                max_iter=max_iter,
                max_seconds=seconds,
                tuning_seeds=MORE_SEEDS if scale == "paper" else TUNING_SEEDS,
                tuning_seconds=tuning_seconds,
                tuned_at=None if k in tuned else completion_params(n, rank, nearest(k)),
                traced=(0,) if k == oversampling[0] else (),
            )
            for k in sorted(oversampling, key=lambda k: (k not in tuned, k))  # points with tuning first
        ]


CHANGE = 1e-5
LEVELS = tuple(float(f"{level:.4g}") for level in np.logspace(-4, -1, 8))
# n, rank, levels, levels with tuning, tests, limits: iterations, seconds, seconds of NIHT, seconds of a tuning run
NOISE = {
    "tiny": (60, 2, LEVELS[::7], LEVELS[::7], 2, 150, 20.0, 20.0, 20.0),
    "quick": (1000, 10, LEVELS[1::2], LEVELS[1::4], 2, 600, 5.0, 4.0, 1.0),
    "paper": (10_000, 10, LEVELS, (LEVELS[0], LEVELS[4], LEVELS[7]), 5, 3000, 60.0, 20.0, 10.0),
}
SLACK = 1.1  # errors within this factor count as the same


class CompletionNoise(_Completion):
    """n = 10 000, rank 10, 1/q = 5, noise from 1e-4 to 1e-1, relative to the norm of the observed entries.

    A short step may stop a run far from the solution, so the setting with the fewest iterations is selected among those whose
    error is within 10 % of the best.
    """

    name = "completion-noise"
    title = "Completion: error, iterations and time against noise"
    stop_slower_candidates = False  # a run with few iterations may have stopped too early

    def points(self, scale: str) -> Sequence[Point]:
        n, rank, levels, tuned, tests, max_iter, seconds, niht_seconds, tuning_seconds = NOISE[scale]

        def nearest(level: float) -> float:
            return min(tuned, key=lambda other: abs(np.log(other / level)))

        # Settings of the variants are selected at one noise level.
        middle = completion_params(n, rank, 5, tuned[len(tuned) // 2])
        points = [
            Point(
                completion_params(n, rank, 5, level),
                completion_methods(scale, niht_seconds, middle),
                seeds=range(tests),
                max_iter=max_iter,
                max_seconds=seconds,
                tuning_seeds=MORE_SEEDS if scale == "paper" else TUNING_SEEDS[:1],
                tuning_seconds=tuning_seconds,
                tuned_at=None if level in tuned else completion_params(n, rank, 5, nearest(level)),
            )
            for level in levels
        ]
        # Points with tuning first.
        return sorted(points, key=lambda point: (point.tuned_at is not None, point.params != middle))

    def stop(self, point: Point, instance: Instance) -> Rule:
        return RelativeChange(CHANGE)

    def better(self, new: Sequence[Outcome], best: Sequence[Outcome]) -> bool:
        missed = [(any(o.failed for o in outcomes), sum(not o.reached for o in outcomes)) for outcomes in (new, best)]
        if missed[0] != missed[1]:
            return missed[0] < missed[1]
        errors = [max(outcome.merit for outcome in outcomes) for outcomes in (new, best)]
        if max(errors) > SLACK * min(errors):
            return errors[0] < errors[1]
        return sum(outcome.iterations for outcome in new) < sum(outcome.iterations for outcome in best)
