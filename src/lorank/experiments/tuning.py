"""Every method at its best: its setting is chosen from a small grid, on seeds that are not reported on.

The candidates run one after another on the tuning seeds. One that fails on a seed is not tried on the next; one that needs
more iterations than the best so far is stopped there. The best recovers the most seeds with the fewest iterations; where
none recovers any, the one with the smallest error is taken (:meth:`Experiment.better`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .experiment import Experiment, Instance, Method, Outcome, Point

Run = Callable[[Any, int, Instance, int], Outcome]  # of a candidate, its seed, the instance, and a cap on iterations


def tune(
    experiment: Experiment, point: Point, method: Method, instance: Callable[[Point, int], Instance], run: Run
) -> dict[str, Any]:
    """Choose from the method's grid: ``chosen``, the setting as text, and ``candidates``, one entry a run.

    ``instance`` gives the instance for a point and a seed; ``run`` makes one run.
    """
    seeds = (*point.tuning_seeds, *method.more_seeds)
    found: dict[str, list[Outcome]] = {}
    best: str | None = None
    for candidate in method.grid:
        left = point.max_iter * len(seeds)  # iterations, over all seeds, in which it can still beat the best
        won = found[best] if best is not None and experiment.stop_slower_candidates else []
        if len(won) == len(seeds) and all(outcome.reached for outcome in won):
            left = sum(outcome.iterations for outcome in won)
        outcomes: list[Outcome] = []
        for seed in seeds:
            outcomes.append(run(candidate, seed, instance(point, seed), min(left, point.max_iter)))
            left -= outcomes[-1].iterations
            if not outcomes[-1].reached or left <= 0:
                break
        name = outcomes[0].setting
        found[name] = outcomes
        if best is None or experiment.better(outcomes, found[best]):
            best = name
    return {
        "chosen": best,
        "candidates": [
            {
                "candidate": name,
                "seed": seed,
                "iterations": outcome.iterations,
                "seconds": outcome.seconds,
                "error": outcome.merit,
                "reached": outcome.reached,
                "status": outcome.status,
                "chosen": name == best,
                **outcome.extra,
            }
            for name, outcomes in found.items()
            for seed, outcome in zip(seeds, outcomes, strict=False)
        ],
    }
