"""Tuning: selection of a method's setting from a small grid, on seeds that are not reported.

The candidates run one after another on the tuning seeds, at one point or at several (``tuned_on``). A candidate that diverges
or stagnates is not continued; one that is stopped by a limit is, unless it is worse than the best so far.
:meth:`Experiment.better` defines the order. The budget of the method, the same for all, is stored with the selection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .experiment import Experiment, Instance, Method, Outcome, Point

Run = Callable[[Any, int, Instance, int], Outcome]  # of a candidate, seed, instance and maximum number of iterations


def tune(
    experiment: Experiment, point: Point, method: Method, instance: Callable[[Point, int], Instance], run: Run
) -> dict[str, Any]:
    """Select a setting from the method's grid.

    Parameters
    ----------
    instance : callable
        Gives the instance for a point and a seed.
    run : callable
        Makes one run.

    Returns
    -------
    dict
        ``chosen``, the setting as text; its ``budget``; and ``candidates``, one entry a run.
    """
    places = [replace(point, params=params) for params in point.tuned_on] or [point]
    seeds = [(place, seed) for seed in (*point.tuning_seeds, *method.more_seeds) for place in places]
    found: dict[str, list[Outcome]] = {}
    best: str | None = None
    for candidate in method.grid:
        left = point.max_iter * len(seeds)  # iterations, over all seeds, within which it can still be the best
        won = found[best] if best is not None else []
        if experiment.stop_slower_candidates and len(won) == len(seeds) and all(outcome.reached for outcome in won):
            left = sum(outcome.iterations for outcome in won)
        outcomes: list[Outcome] = []
        beaten = False
        for place, seed in seeds:
            latest = run(candidate, seed, instance(place, seed), min(left, point.max_iter))
            outcomes.append(latest)
            left -= latest.iterations
            # A candidate stopped by a limit is compared on the seeds so far: it may need its full time on every seed.
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
                **({"at": dict(place.params)} if point.tuned_on else {}),
                "iterations": outcome.iterations,
                "seconds": outcome.seconds,
                "error": outcome.merit,
                "reached": outcome.reached,
                "status": outcome.status,
                "chosen": name == best,
                **outcome.extra,
            }
            for name, outcomes in found.items()
            for (place, seed), outcome in zip(seeds, outcomes, strict=False)
        ],
    }
