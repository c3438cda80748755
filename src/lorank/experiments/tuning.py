"""Every method at its best: its setting is chosen from a small grid, on seeds that are not reported on.

The candidates run one after another on the tuning seeds. One that fails on a seed is not tried on the next; one that needs
more iterations than the best so far is stopped there. The best recovers the most seeds with the fewest iterations; where
none recovers any, the one with the smallest error is taken (:meth:`Experiment.better`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import Experiment, Instance, Method, Outcome, Point

Run = Callable[[Any, int, Instance, int], Outcome]  # of a candidate, its seed, the instance, and a cap on iterations


def tune(
    experiment: Experiment, point: Point, method: Method, instance: Callable[[Point, int], Instance], run: Run
) -> dict[str, Any]:
    """Choose from the method's grid.

    Parameters
    ----------
    instance : callable
        The instance for a point and a seed.
    run : callable
        Makes one run.

    Returns
    -------
    dict
        ``chosen``, the setting as text, and ``candidates``, one entry a run.
    """
    seeds = (*point.tuning_seeds, *method.more_seeds)
    most = point.max_iter * len(seeds)
    found: dict[str, list[Outcome]] = {}
    best: str | None = None
    for candidate in method.grid:
        won = best is not None and len(found[best]) == len(seeds) and all(outcome.reached for outcome in found[best])
        # Iterations, over all seeds, in which it can still beat the best.
        left = sum(outcome.iterations for outcome in found[best]) if best is not None and won and experiment.race else most
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
    assert best is not None
    return {
        "chosen": best,
        "candidates": [
            {
                "candidate": name,
                "seed": seed,
                "iterations": o.iterations,
                "seconds": o.seconds,
                "error": o.merit,
                "reached": o.reached,
                "status": o.status,
                "chosen": name == best,
            }
            for name, outcomes in found.items()
            for seed, o in zip(seeds, outcomes, strict=False)
        ],
    }
