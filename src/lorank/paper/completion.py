"""Matrix completion: iterations and time against size, oversampling and noise (the paper's Figures 1 to 4).

Factors are uniform on [0, 1]. Runs end at a relative error of 1e-4, with noise at a relative change of X below 1e-5. The
paper's captions say "q = 5"; by its definition this is 1/q = 5 observations per degree of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..datasets import random_completion
from ..experiments import TUNING_SEEDS, Experiment, Instance, Outcome, Point
from ..loop.stopping import RelativeChange, Rule
from .methods import PROTOCOL, completion_methods

MORE_SEEDS = range(1000, 1004)  # some constant steps diverge on one problem in ten, which two seeds rarely show


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


# Rank, oversampling, sizes, tests; limits: iterations, seconds, seconds of NIHT, seconds of a tuning run; tuning seeds
SIZES: dict[str, tuple[tuple[Any, ...], ...]] = {
    "tiny": ((1, 5, (40, 60), 2, 100, 20.0, 20.0, 5.0, TUNING_SEEDS),),
    "quick": (
        (10, 5, (500, 1000, 2000), 2, 600, 4.0, 2.0, 1.0, TUNING_SEEDS[:1]),
        (50, 6, (1000,), 2, 600, 4.0, 2.0, 1.0, TUNING_SEEDS[:1]),
    ),
    "paper": (
        (10, 5, (1000, 2000, 4000, 6000, 8000, 10_000, 15_000, 20_000), 5, 10_000, 120.0, 60.0, 10.0, MORE_SEEDS),
        (50, 6, (2000, 4000, 8000, 12_000), 5, 10_000, 120.0, 60.0, 20.0, TUNING_SEEDS),
        (100, 7, (3000, 5000, 8000), 5, 10_000, 120.0, 60.0, 30.0, TUNING_SEEDS),
    ),
}
TRACED = (60, 2000, 10_000)  # n whose first test is stored iteration by iteration


class CompletionSize(_Completion):
    """n up to 20 000 at rank 10, up to 12 000 at rank 50 and 8 000 at rank 100.

    One setting for all sizes of a rank: the fastest that never fails.
    """

    name = "completion-size"
    title = "Completion: iterations and time against matrix size"

    def points(self, scale: str) -> Sequence[Point]:
        points = []
        for rank, oversampling, sizes, tests, max_iter, seconds, niht_seconds, tuning_seconds, seeds in SIZES[scale]:
            places = tuple(completion_params(n, rank, oversampling) for n in sizes)
            limits: dict[str, Any] = {"max_iter": max_iter, "max_seconds": seconds, "tuning_seconds": tuning_seconds}
            for params in places:
                tuning: dict[str, Any] = {"tuned_on": places} if params == places[0] else {"tuned_at": places[0]}
                traced = (0,) if params["n1"] in TRACED else ()
                compared = completion_methods(scale, niht_seconds)
                more = {"seeds": range(tests), "traced": traced, "tuning_seeds": seeds}
                points.append(Point(params, compared, **limits, **more, **tuning))
        return points


# n, rank, oversampling, oversampling with tuning, tests, limits: iterations, seconds, seconds of NIHT, of a tuning run
OVERSAMPLING: dict[str, tuple[Any, ...]] = {
    "tiny": (50, 1, (5, 8), (5, 8), 2, 100, 20.0, 20.0, 20.0),
    "quick": (1000, 10, (3, 5, 9, 15), (3, 9), 2, 600, 5.0, 2.0, 1.0),
    "paper": (10_000, 10, tuple(range(3, 16)), (3, 4, 6, 9, 12), 5, 6000, 60.0, 30.0, 10.0),
}


def tuning_seeds(scale: str) -> Sequence[int]:
    """Tuning seeds of the sweeps at a scale."""
    return MORE_SEEDS if scale == "paper" else TUNING_SEEDS[:1]


class CompletionOversampling(_Completion):
    """n = 10 000, rank 10, 1/q = 3 .. 15. Settings are selected at some of the points; the others use the nearest one's."""

    name = "completion-oversampling"
    title = "Completion: iterations and time against oversampling"

    def points(self, scale: str) -> Sequence[Point]:
        n, rank, oversampling, tuned, tests, max_iter, seconds, niht_seconds, tuning_seconds = OVERSAMPLING[scale]
        nearest = {k: min(tuned, key=lambda other: abs(other - k)) for k in oversampling}
        return [
            Point(
                completion_params(n, rank, k),
                completion_methods(scale, niht_seconds),
                seeds=range(tests),
                max_iter=max_iter,
                max_seconds=seconds,
                tuning_seeds=tuning_seeds(scale),
                tuning_seconds=tuning_seconds,
                tuned_at=None if k in tuned else completion_params(n, rank, nearest[k]),
                traced=(0,) if k == oversampling[0] else (),
            )
            for k in sorted(oversampling, key=lambda k: (k not in tuned, k))  # points with tuning first
        ]


CHANGE = 1e-5
LEVELS = tuple(float(f"{level:.4g}") for level in np.logspace(-4, -1, 8))
# n, rank, levels, levels with tuning, tests, limits: iterations, seconds, seconds of NIHT, seconds of a tuning run
NOISE: dict[str, tuple[Any, ...]] = {
    "tiny": (60, 2, LEVELS[::7], LEVELS[::7], 2, 150, 20.0, 20.0, 20.0),
    "quick": (1000, 10, LEVELS[1::2], LEVELS[1::4], 2, 600, 5.0, 2.0, 1.0),
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
        nearest = {level: min(tuned, key=lambda other: abs(np.log(other / level))) for level in levels}
        return [
            Point(
                completion_params(n, rank, 5, level),
                completion_methods(scale, niht_seconds),
                seeds=range(tests),
                max_iter=max_iter,
                max_seconds=seconds,
                tuning_seeds=tuning_seeds(scale),
                tuning_seconds=tuning_seconds,
                tuned_at=None if level in tuned else completion_params(n, rank, 5, nearest[level]),
            )
            for level in sorted(levels, key=lambda level: (level not in tuned, level))  # points with tuning first
        ]

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
