"""Iterations to a relative error of 1e-4, out of the box, over kinds of data and sizes.

    python benchmarks/convergence.py [--sizes 1000 3000 10000] [--seeds 11 12 13] [--solvers prgd rgd ...]

The seeds are not those that the defaults were chosen on (1 to 4). Prints a Markdown table: medians over the seeds; where some
runs did not get there, how many did. Iteration counts do not depend on the machine, so none of its other work disturbs them.
"""

from __future__ import annotations

import argparse

import numpy as np

import lorank as lr
from common import versions
from lorank.loop.steps import Constant, Polyak
from lorank.metrics import Canonical, RowColumn

KINDS = {
    "uniform": {"factors": "uniform"},
    "gaussian": {"factors": "gaussian"},
    "ill-scaled, sigma 0.5": {"factors": "ill-scaled", "spread": 0.5},
    "ill-scaled, sigma 1": {"factors": "ill-scaled", "spread": 1.0},
}

COMPOSITIONS = {
    "rgd, constant steps only": lr.solvers.RGD(Canonical(), Constant(0.5), lr.solvers.Safeguard(fallbacks=())),
    "rgd, Polyak steps": lr.solvers.RGD(Canonical(), Polyak(0.7)),
    "prgd, Polyak steps": lr.solvers.RGD(RowColumn(), Polyak(0.7)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 3000, 10_000])
    parser.add_argument("--seeds", type=int, nargs="*", default=[11, 12, 13])
    parser.add_argument("--solvers", nargs="*", default=[*lr.plans.SOLVERS, *COMPOSITIONS])
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--oversampling", type=float, default=5.0)
    parser.add_argument("--max-iter", type=int, default=500)
    args = parser.parse_args()
    print(
        f"{versions()}; rank {args.rank}, 1/q = {args.oversampling}, seeds {args.seeds}, at most {args.max_iter} iterations\n"
    )
    print(f"| n | data | {' | '.join(args.solvers)} |\n|---|---|{'---|' * len(args.solvers)}", flush=True)
    for n in args.sizes:
        for kind, options in KINDS.items():
            problems = [
                lr.datasets.random_completion(n, n, args.rank, oversampling=args.oversampling, seed=seed, **options)
                for seed in args.seeds
            ]
            cells = [cell(problems, solver, args) for solver in args.solvers]
            print(f"| {n} | {kind} | {' | '.join(cells)} |", flush=True)


def cell(problems: list, solver: str, args: argparse.Namespace) -> str:
    """Median iterations, or how far it got."""
    results = [
        (
            lr.solve(
                p, args.rank, COMPOSITIONS.get(solver, solver), stop=lr.stopping.TruthDistance(truth), max_iter=args.max_iter
            ),
            truth,
        )
        for p, truth in problems
    ]
    reached = [r for r, _ in results if r.converged]
    if not reached:
        return f"not reached ({np.median([t.distance(r.X) / t.norm() for r, t in results]):.0e})"
    text = f"{np.median([r.n_iter for r in reached]):.0f}"
    return text if len(reached) == len(results) else f"{text}, {len(reached)} of {len(results)}"


if __name__ == "__main__":
    main()
