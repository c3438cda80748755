"""lorank as it comes: ``lr.solve(lr.Completion(rows, cols, values, shape), rank)``."""

from __future__ import annotations

import time

import numpy as np
from data import Data
from threadpoolctl import threadpool_limits

import lorank as lr

GRID = [{}]


def version() -> str:
    return f"lorank {lr.__version__}"


def run(data: Data, setting: dict, threads: int, tolerances: list[float], budget: float, repeats: int) -> dict:
    truth = lr.FixedRank.from_factors(data.left, data.right)
    out: dict = {"runs": [], "best": np.inf, "effort": 0.0}
    with threadpool_limits(threads, user_api="openmp"):
        for _ in range(repeats):
            reached = {}
            for tol in tolerances:
                begin = time.perf_counter()
                problem = lr.Completion(data.rows, data.cols, data.values, data.shape)
                build = time.perf_counter() - begin
                stop = lr.stopping.TruthDistance(truth, tol)
                result = lr.solve(problem, data.rank, setting.get("solver", "auto"), stop=stop)
                error = data.error(result.X.U * result.X.s, result.X.V)
                seconds = build + result.seconds
                reached[str(tol)] = (
                    {"seconds": seconds, "steps": result.n_iter, "build": build} if error <= 1.0001 * tol else None
                )
                out["best"], out["effort"] = min((out["best"], out["effort"]), (error, seconds))
            out["runs"].append(reached)
    return out
