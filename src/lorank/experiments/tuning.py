"""Every method at its best: its setting is chosen from a small grid, on seeds that are not reported on.

The candidates run one after another on the tuning seeds. One that fails on a seed (it diverges, or stands still) is not tried
on the next; one that is cut short by a cap is, unless it is behind the best so far. The best fails on no seed and recovers the
most of them with the fewest iterations; where some are cut short, the smallest error decides (:meth:`Experiment.better`). What
all candidates of a method may cost, its budget, is stored with the choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .experiment import Experiment, Instance, Method, Outcome, Point

Run = Callable[[Any, int, Instance, int], Outcome]  # of a candidate, its seed, the instance, and a cap on iterations


def tune(
    experiment: Experiment, point: Point, method: Method, instance: Callable[[Point, int], Instance], run: Run
) -> dict[str, Any]:
    """Choose from the method's grid: ``chosen``, the setting as text, its ``budget``, and ``candidates``, one entry a run.

    ``instance`` gives the instance for a point and a seed; ``run`` makes one run.
    """
    seeds = (*point.tuning_seeds, *method.more_seeds)
    found: dict[str, list[Outcome]] = {}
    best: str | None = None
    for candidate in method.grid:
        left = point.max_iter * len(seeds)  # iterations, over all seeds, in which it can still beat the best
        won = found[best] if best is not None else []
        if experiment.stop_slower_candidates and len(won) == len(seeds) and all(outcome.reached for outcome in won):
            left = sum(outcome.iterations for outcome in won)
        outcomes: list[Outcome] = []
        beaten = False
        for seed in seeds:
            latest = run(candidate, seed, instance(point, seed), min(left, point.max_iter))
            outcomes.append(latest)
            left -= latest.iterations
            # One that was cut short is compared on the seeds so far: it has cost its full time, and may do so on each seed.
            rival = won if latest.reached or any(outcome.failed for outcome in won) else won[: len(outcomes)]
            beaten = best is not None and not experiment.better(outcomes, rival)
            if latest.failed or beaten:
                break
        name = outcomes[0].setting
        found[name] = outcomes
        if not beaten:
            best = name
    return {
        "chosen": best,
        "budget": {
            "grid": len(method.grid),
            "seeds": len(seeds),
            "max_iter": point.max_iter,
            "max_seconds": point.cap(method, tuning=True),
        },
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
