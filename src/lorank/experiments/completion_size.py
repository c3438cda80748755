"""Iterations and time to a relative error of 1e-4 against the size of the matrix (the paper's Figure 1).

Uniform [0, 1] factors. The paper's captions say "q = 5"; by its own definition that is 1/q = 5 observations for each degree of
freedom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..datasets import random_completion
from .base import TUNING_SEEDS, Experiment, Instance, Point
from .methods import FULL, HIGH, LARGE, completion_methods

MAX_ITER = 2000
SECONDS = {10: 120.0, 50: 240.0, 100: 240.0}  # at most, for one run, by rank
NIHT_SECONDS = 60.0
TUNING_SECONDS = 20.0
TRACED = {"tiny": 60, "quick": 4000, "paper": 10_000}  # the n whose first test is stored iteration by iteration


def completion_params(n: int, rank: int, oversampling: float, noise: float | None = None) -> dict[str, float]:
    """The parameters of a square completion problem as the tables hold them."""
    params = {"n1": n, "n2": n, "rank": rank, "oversampling": float(oversampling)}
    params["m"] = min(round(oversampling * (2 * n - rank) * rank), n * n)
    return params if noise is None else params | {"noise": noise}


def completion_instance(point: Point, seed: int) -> Instance:
    """The paper's random problem: uniform factors, entries observed uniformly at random."""
    p = point.params
    problem, truth = random_completion(
        p["n1"], p["n2"], p["rank"], oversampling=p["oversampling"], noise=p.get("noise", 0.0), seed=seed
    )
    return Instance(problem, p["rank"], truth)


def _grids(n: int, rank: int) -> dict[str, tuple[Any, ...]]:
    return HIGH if rank >= 50 else LARGE if n > 10_000 else FULL


PAPER = (  # rank, oversampling, n, tests, the n whose settings are used
    *((10, 5, n, 5, n) for n in (1000, 2000, 4000, 6000, 8000, 10_000, 15_000, 20_000)),
    (50, 6, 2000, 5, 2000),
    (50, 6, 4000, 5, 4000),
    (50, 6, 8000, 2, 4000),
    (50, 6, 12_000, 2, 4000),
    (100, 7, 3000, 2, 3000),
    (100, 7, 5000, 2, 3000),
    (100, 7, 8000, 2, 3000),
)
QUICK = ((10, 5, 500), (10, 5, 1000), (10, 5, 2000), (10, 5, 4000), (50, 6, 1000))
TINY = ((1, 5, 40), (1, 5, 60))


class CompletionSize(Experiment):
    """n up to 20 000 at rank 10, and as far as time allows at ranks 50 and 100."""

    name = "completion-size"
    title = "Completion: iterations and time against the size of the matrix"
    kept = 10  # at rank 10 less than 100 MB each; at rank 100 there are few

    def points(self, scale: str) -> Sequence[Point]:
        if scale == "paper":
            return [self._paper(*row) for row in PAPER]
        cases, max_iter, seconds = (TINY, 100, 20.0) if scale == "tiny" else (QUICK, 600, 4.0)
        return [
            Point(
                completion_params(n, rank, oversampling),
                completion_methods(grids=_grids(n, rank)),
                seeds=(0, 1),
                max_iter=max_iter,
                max_seconds=seconds,
                tuning_seeds=TUNING_SEEDS[:1],
                tuning_seconds=seconds / 2,
                traced=(0,) if n == TRACED[scale] else (),
            )
            for rank, oversampling, n in cases
        ]

    def _paper(self, rank: int, oversampling: int, n: int, tests: int, tuned: int) -> Point:
        return Point(
            completion_params(n, rank, oversampling),
            completion_methods(NIHT_SECONDS, _grids(n, rank)),
            seeds=range(tests),
            max_iter=MAX_ITER,
            max_seconds=SECONDS[rank],
            tuning_seeds=TUNING_SEEDS if rank == 10 and n <= 10_000 else TUNING_SEEDS[:1],
            tuning_seconds=TUNING_SECONDS,
            tuned_at=None if tuned == n else completion_params(tuned, rank, oversampling),
            traced=(0,) if n == TRACED["paper"] else (),
        )

    def instance(self, point: Point, seed: int) -> Instance:
        return completion_instance(point, seed)


EXPERIMENT = CompletionSize()
