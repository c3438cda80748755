"""Methods that take a number of sweeps and give no sight of what happens in between: find just enough, then time those."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from data import Data

Fit = Callable[[int], tuple[np.ndarray, np.ndarray]]  # a number of sweeps -> left and right factors


def search(fit: Fit, data: Data, tolerances: list[float], budget: float, repeats: int, first: int = 4) -> dict:
    """The fewest sweeps that reach each tolerance, and the seconds of a fit with so many.

    Sweeps double until the tolerance is met or the budget is spent, then are bisected: no stopping rule of the method's own is
    asked to find them, so a method is timed as if it knew when to stop.
    """
    seen: dict[int, tuple[float, float]] = {}  # sweeps -> (error, seconds)
    begin = time.perf_counter()

    def error(sweeps: int) -> float:
        if sweeps not in seen:
            start = time.perf_counter()
            left, right = fit(sweeps)
            seconds = time.perf_counter() - start
            seen[sweeps] = (
                data.error(left, right) if np.isfinite(left).all() and np.isfinite(right).all() else np.inf,
                seconds,
            )
        return seen[sweeps][0]

    enough: dict[float, int | None] = {}
    for tol in tolerances:
        low, high = 0, first
        while error(high) > tol:
            pace = seen[high][1]
            if time.perf_counter() - begin + 2 * pace > budget:
                break
            low, high = high, 2 * high
        if error(high) > tol:
            enough[tol] = None
            continue
        while high - low > max(1, high // 32):
            middle = (low + high) // 2
            low, high = (low, middle) if error(middle) <= tol else (middle, high)
        enough[tol] = high
    runs: list[dict] = []
    for _ in range(repeats):
        if runs and time.perf_counter() - begin > 2 * budget:
            break  # one repeat of what is slow is enough
        run = {}
        for tol, sweeps in enough.items():
            if sweeps is None:
                run[str(tol)] = None
                continue
            start = time.perf_counter()
            fit(sweeps)
            run[str(tol)] = {"seconds": time.perf_counter() - start, "steps": sweeps}
        runs.append(run)
    finite = [error for error, _ in seen.values() if np.isfinite(error)]
    return {"runs": runs, "best": min(finite, default=np.inf), "effort": max(seconds for _, seconds in seen.values())}
