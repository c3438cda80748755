"""Seconds to a relative error of 1e-4 on the paper's problem, start included: the solvers take turns, medians over rounds.

python benchmarks/solve.py [--n 10000] [--rank 10] [--oversampling 5] [--threads 1 2] [--rounds 5] [--seed 11]
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np
from threadpoolctl import threadpool_limits

import lorank as lr
from common import versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--oversampling", type=float, default=5.0)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--solvers", nargs="*", default=["auto", "prgd", "rgd", "adaptive-rgd", "shampoo"])
    args = parser.parse_args()
    problem, truth = lr.datasets.random_completion(args.n, args.n, args.rank, oversampling=args.oversampling, seed=args.seed)
    print(f"n = {args.n}, rank {args.rank}, {problem.m:,} observations, uniform factors, seed {args.seed}")
    for threads in args.threads:
        with threadpool_limits(threads, user_api="openmp"):
            print(f"\n{versions()}")
            seconds, iterations = defaultdict(list), {}
            for turn in range(args.rounds + 1):
                for solver in args.solvers:
                    vars(problem).pop("_balanced", None)  # what a problem keeps from one run to the next
                    result = lr.solve(problem, args.rank, solver, stop=lr.stopping.TruthDistance(truth), max_iter=500)
                    iterations[solver] = f"{result.n_iter}" if result.converged else "not reached"
                    if turn:  # the first round warms up
                        seconds[solver].append(result.seconds)
            for solver in args.solvers:
                low, mid, high = np.percentile(seconds[solver], [0, 50, 100])
                print(f"{solver:>14}  {iterations[solver]:>12} iterations  {mid:7.3f} s  ({low:.3f} .. {high:.3f})")


if __name__ == "__main__":
    main()
