"""Iterations and time to a relative error of 1e-4 against the number of observations (the paper's Figure 2).

Oversampling is the paper's 1/q: observations for each degree of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence

from .base import TUNING_SEEDS, Experiment, Instance, Point
from .completion_size import completion_instance, completion_params
from .methods import completion_methods

SCALES = {  # n, rank, oversampling, tests, iterations and seconds at most, NIHT's seconds, seconds of a tuning run
    "tiny": (50, 1, (5, 8), 2, 100, 20.0, 20.0, 20.0),
    "quick": (2000, 10, (3, 5, 9, 15), 2, 600, 5.0, 4.0, 2.0),
    "paper": (10_000, 10, tuple(range(3, 16)), 5, 2000, 60.0, 30.0, 10.0),
}
TUNED = (3, 4, 6, 9, 12)


class CompletionOversampling(Experiment):
    """n = 10 000, rank 10, 1/q = 3 .. 15."""

    name = "completion-oversampling"
    title = "Completion: iterations and time against oversampling"
    kept = 10  # a few dozen megabytes each

    def points(self, scale: str) -> Sequence[Point]:
        """Settings are chosen at some of the points; the others, between them, take those of the nearest."""
        n, rank, oversampling, tests, max_iter, seconds, niht_seconds, tuning_seconds = SCALES[scale]
        tuned = [k for k in oversampling if k in TUNED] if scale == "paper" else oversampling

        def nearest(k: int) -> int:
            return min(tuned, key=lambda other: abs(other - k))

        return [
            Point(
                completion_params(n, rank, k),
                completion_methods(niht_seconds),
                seeds=range(tests),
                max_iter=max_iter,
                max_seconds=seconds,
                tuning_seeds=TUNING_SEEDS if scale == "paper" else TUNING_SEEDS[:1],
                tuning_seconds=tuning_seconds,
                tuned_at=None if k in tuned else completion_params(n, rank, nearest(k)),
                traced=(0,) if k == oversampling[0] else (),
            )
            for k in sorted(oversampling, key=lambda k: (k not in tuned, k))  # settings first, then those who borrow them
        ]

    def instance(self, point: Point, seed: int) -> Instance:
        return completion_instance(point, seed)


EXPERIMENT = CompletionOversampling()
