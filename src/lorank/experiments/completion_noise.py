"""Error, iterations and time against the noise in the observed entries (the paper's Figures 3 and 4).

``noise`` is the paper's sigma, the norm of the noise relative to that of the observed entries. Runs end when a step changes X
by less than 1e-5 of its norm. A short step may do that far from the solution, so the setting with the fewest iterations is
chosen among those whose error is within a tenth of the best.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..stopping import RelativeChange, Rule
from .base import TUNING_SEEDS, Experiment, Instance, Outcome, Point
from .completion_size import completion_instance, completion_params
from .methods import completion_methods

CHANGE = 1e-5
LEVELS = tuple(float(f"{level:.4g}") for level in np.logspace(-4, -1, 8))
# n, rank, levels, those at which settings are chosen, tests, iterations and seconds at most, NIHT's seconds, of a tuning run
SCALES = {
    "tiny": (60, 2, LEVELS[::7], LEVELS[::7], 2, 150, 20.0, 20.0, 20.0),
    "quick": (1000, 10, LEVELS[1::2], LEVELS[1::4], 2, 600, 5.0, 4.0, 2.0),
    "paper": (10_000, 10, LEVELS, (LEVELS[0], LEVELS[4], LEVELS[7]), 5, 1000, 60.0, 20.0, 10.0),
}
SLACK = 1.1  # errors within this factor count as the same


class CompletionNoise(Experiment):
    """n = 10 000, rank 10, 1/q = 5, noise from 1e-4 to 1e-1."""

    name = "completion-noise"
    title = "Completion: error, iterations and time against noise"
    kept = 10  # a few dozen megabytes each
    race = False  # a run that ends early may have ended too early

    def points(self, scale: str) -> Sequence[Point]:
        n, rank, levels, tuned, tests, max_iter, seconds, niht_seconds, tuning_seconds = SCALES[scale]

        def nearest(level: float) -> float:
            return min(tuned, key=lambda other: abs(np.log(other / level)))

        points = [
            Point(
                completion_params(n, rank, 5, level),
                completion_methods(niht_seconds),
                seeds=range(tests),
                max_iter=max_iter,
                max_seconds=seconds,
                tuning_seeds=TUNING_SEEDS[:1],
                tuning_seconds=tuning_seconds,
                tuned_at=None if level in tuned else completion_params(n, rank, 5, nearest(level)),
            )
            for level in levels
        ]
        return sorted(points, key=lambda point: point.tuned_at is not None)  # settings first, then those who borrow them

    def instance(self, point: Point, seed: int) -> Instance:
        return completion_instance(point, seed)

    def stop(self, point: Point, instance: Instance) -> Rule:
        return RelativeChange(CHANGE)

    def better(self, new: Sequence[Outcome], best: Sequence[Outcome]) -> bool:
        settled = [sum(outcome.reached for outcome in outcomes) for outcomes in (new, best)]
        if settled[0] != settled[1]:
            return settled[0] > settled[1]
        errors = [max(outcome.merit for outcome in outcomes) for outcomes in (new, best)]
        if max(errors) > SLACK * min(errors):
            return errors[0] < errors[1]
        return sum(outcome.iterations for outcome in new) < sum(outcome.iterations for outcome in best)


EXPERIMENT = CompletionNoise()
