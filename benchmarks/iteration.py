"""The cost of one iteration: PRGD beside RGD, and the share and speed of the passes over the observations.

    python benchmarks/iteration.py [--n 10000] [--rank 10] [--oversampling 5] [--threads 1 2]

The solvers take turns, round by round, from the same point; medians over all iterations. The passes are timed from inside the
same iterations.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

import numpy as np
from threadpoolctl import threadpool_limits

import lorank as lr
from common import spread, versions
from lorank.loop.state import State
from lorank.loop.steps import Constant, Exact
from lorank.metrics import Canonical, RowColumn

SOLVERS = {
    "RGD": lr.solvers.RGD(Canonical(), Constant(0.1), None),
    "PRGD": lr.solvers.RGD(RowColumn(), Constant(0.1), None),
    "adaptive-RGD": lr.solvers.RGD(Canonical(), Exact(), None),
    "adaptive-PRGD": lr.solvers.RGD(RowColumn(), Exact(), None),
}
PASSES = ("gradient_rows", "gradient_cols", "line_sums")


class Stopwatch:
    """Wraps the passes of a problem's observations and adds up their time."""

    def __init__(self, observations: object) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        for name in PASSES:
            setattr(observations, name, self._timed(name, getattr(observations, name)))

    def _timed(self, name, function):
        def timed(*arguments):
            begin = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds[name].append(time.perf_counter() - begin)

        return timed

    def total(self) -> float:
        return sum(map(sum, self.seconds.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--oversampling", type=float, default=5.0)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--iterations", type=int, default=10)
    args = parser.parse_args()

    problem, _ = lr.datasets.random_completion(args.n, args.n, args.rank, oversampling=args.oversampling, seed=0)
    watch = Stopwatch(problem.observations)
    X = lr.solve(problem, args.rank, "prgd", stop=lr.stopping.Iterations(5)).X
    print(f"n = {args.n}, rank {args.rank}, {problem.m:,} observations, seed 0")
    for threads in args.threads:
        with threadpool_limits(1, user_api="blas"), threadpool_limits(threads, user_api="openmp"):
            print(f"\n{versions()}")
            measure(problem, X, watch, args)


def measure(problem: lr.Completion, X: lr.FixedRank, watch: Stopwatch, args: argparse.Namespace) -> None:
    times: dict[str, list[float]] = defaultdict(list)
    shares: dict[str, list[float]] = defaultdict(list)
    passes: dict[str, list[float]] = defaultdict(list)
    for turn in range(args.rounds + 1):
        for name, solver in SOLVERS.items():
            state = State.at(problem, X)
            state = state.with_memory(solver.start(problem, state))
            state = solver.step(problem, state)  # so that every timed iteration has the same passes before it
            for _ in range(args.iterations):
                watch.seconds.clear()
                begin = time.perf_counter()
                state = solver.step(problem, state)
                seconds = time.perf_counter() - begin
                if turn:  # the first round warms up
                    times[name].append(seconds)
                    shares[name].append(watch.total() / seconds)
                    for key, spent in watch.seconds.items():
                        passes[key].extend(spent)
    print(f"{'':>14}  ms an iteration: median (range)   passes' share   against RGD")
    base = np.median(times["RGD"])
    for name in SOLVERS:
        print(
            f"{name:>14}  {spread(times[name]):>30}   {np.median(shares[name]):13.0%}   {np.median(times[name]) / base:11.3f}"
        )
    ratios = [b / a for a, b in zip(_by_round(times["RGD"], args), _by_round(times["PRGD"], args), strict=True)]
    print(f"PRGD / RGD, round by round: median {np.median(ratios):.3f}, range {min(ratios):.3f} .. {max(ratios):.3f}")
    flops = 4 * problem.m * args.rank  # each pass: two products of width r, or one of width 2r, an observation
    for key in PASSES:
        median = float(np.median(passes[key]))
        rates = f"{1e9 * median / problem.m:6.2f} ns/obs   {flops / median / 1e9:6.2f} GFLOP/s"
        print(f"{key:>14}  {spread(passes[key]):>30} ms   {rates}")


def _by_round(values: list[float], args: argparse.Namespace) -> list[float]:
    return [float(np.median(chunk)) for chunk in np.split(np.array(values), args.rounds)]


if __name__ == "__main__":
    main()
