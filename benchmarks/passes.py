"""The passes over the observations: nanoseconds and GFLOP/s, in float64 and mixed precision, beside the machine's own gathers.

    python benchmarks/passes.py [--sizes 3000 10000 40000 100000] [--rank 10] [--oversampling 5] [--rounds 9] [--tiles 2 4 8]

One thread, each instruction set that the machine has; medians of rounds (CPU time of the thread, so that neighbours do not
count). The yardstick (benchmarks/gather.cpp, compiled here if there is a compiler) gathers rows of the same length from a table
of the same size and only adds them up: no pass can be faster than that unless it gathers less.

Tiles are a trial: the same gradient pass with columns in so many groups, one after the other, so that the rows gathered at a
time stay in the second-level cache. (The pattern is that of a matrix with n1 rows for each group: the other factor's copies are
packed with it, and the groups' sums are not added up.)
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import lorank as lr
from common import versions
from lorank import _kernels


def median_ns(function: Callable[[], object], m: int, rounds: int) -> float:
    function()
    spent = []
    for _ in range(rounds):
        begin = time.thread_time()
        function()
        spent.append(time.thread_time() - begin)
    return 1e9 * float(np.median(spent)) / m


def yardstick(folder: str) -> Path | None:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        return None
    program = Path(folder) / "gather"
    source = Path(__file__).parent / "gather.cpp"
    subprocess.run([compiler, "-O3", "-march=native", str(source), "-o", str(program)], check=True)
    return program


def measure(problem: lr.Completion, truth: lr.FixedRank, mixed: bool, rounds: int) -> str:
    """A line on the three passes."""
    observed, pattern, m = problem.observations, problem.observations.pattern, problem.m
    u, v, s = np.ascontiguousarray(truth.U), np.ascontiguousarray(truth.V), 1.01 * truth.s
    sums, squares, none = np.empty_like(u), np.empty(len(u)), observed.values[:0]
    passes = {
        "rows": lambda: pattern.gradient(False, u, s, v, observed.values, sums, squares, mixed),
        "columns": lambda: pattern.gradient(True, v, s, u, observed.column_values, sums, squares, mixed),
        "line search": lambda: pattern.sample(u, v, u, v, none, none.copy(), mixed),
    }
    found = {key: median_ns(function, m, rounds) for key, function in passes.items()}
    text = ", ".join(f"{key} {ns:.2f} ns/obs ({4 * truth.rank / ns:.1f} GFLOP/s)" for key, ns in found.items())
    return f"{text}; fused gradient {found['rows'] + found['columns']:.2f} ns/obs"


def measure_others(problem: lr.Completion, truth: lr.FixedRank, rounds: int) -> str:
    """A line on the weighted gradient, the outer products, and the normal equations of alternating least squares."""
    observed, m, k = problem.observations, problem.m, truth.rank
    u, v, s, P, h = np.ascontiguousarray(truth.U), np.ascontiguousarray(truth.V), 1.01 * truth.s, np.eye(k), np.zeros(k)
    weighted = observed.with_weights(np.linspace(0.5, 1.5, m))
    moments = np.tile(np.eye(k)[np.triu_indices(k)], (problem.shape[1], 1))
    passes = {
        "weighted rows": lambda: weighted.gradient_rows(u, s, v),
        "outer products": lambda: observed.blocks(0, v),
        "normal equations": lambda: observed.normal_equations(False, v, P, h),
        "with covariances": lambda: observed.normal_equations(False, v, P, h, covariance=True),
        "of both sides": lambda: observed.normal_equations(False, v, P, h, moments=moments, covariance=True),
    }
    return ", ".join(f"{key} {median_ns(function, m, rounds):.2f}" for key, function in passes.items()) + " ns/obs"


def tiled(problem: lr.Completion, truth: lr.FixedRank, tiles: int, mixed: bool, rounds: int) -> float:
    """Nanoseconds an observation of the pass over rows, with columns in tiles."""
    (n1, n2), m = problem.shape, problem.m
    rows = problem.cols.astype(np.int64) * tiles // n2 * n1 + problem.rows
    order = np.lexsort((problem.cols, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=tiles * n1))])
    pattern = _kernels.Pattern(indptr, problem.cols[order], n2)
    u, v = np.tile(truth.U, (tiles, 1)), np.ascontiguousarray(truth.V)
    s, values, sums, squares = 1.01 * truth.s, problem.y[order], np.empty_like(u), np.empty(len(u))
    return median_ns(lambda: pattern.gradient(False, u, s, v, values, sums, squares, mixed), m, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[3_000, 10_000, 40_000, 100_000])
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--oversampling", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tiles", type=int, nargs="*", default=[2, 4, 8])
    args = parser.parse_args()
    r, before = args.rank, _kernels.instruction_set()
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        program = yardstick(folder)
        print(f"{versions()}; rank {r}, {args.oversampling:g} dof, seed 0")
        print("fused gradient: residual, G V and row norms, then G^H U and column norms, two passes; line search at 2r columns")
        for n in args.sizes:
            problem, truth = lr.datasets.random_completion(n, n, r, oversampling=args.oversampling, seed=0)
            print(f"\nn = {n:,}, {problem.m:,} observations")
            if program is not None:
                for width in (-(-r // 4) * 4, -(-2 * r // 4) * 4):  # as the kernels pad short rows
                    out = subprocess.run(
                        [program, str(n), str(width), str(problem.m)], capture_output=True, text=True, check=True
                    )
                    ns, rate, _ = map(float, out.stdout.split())
                    print(f"  gathering rows of {width} doubles alone: {ns:.2f} ns each, {rate:.1f} GB/s")
            for name in _kernels.instruction_sets():
                _kernels.use_instruction_set(name)
                for mixed in (False, True):
                    print(f"  {name:>8} {'mixed' if mixed else 'float64':>8}: {measure(problem, truth, mixed, args.rounds)}")
                print(f"  {name:>8} {'float64':>8}: {measure_others(problem, truth, args.rounds)}")
            _kernels.use_instruction_set(before)
            for mixed in (False, True):
                found = (f"{count} {tiled(problem, truth, count, mixed, args.rounds):.2f}" for count in (1, *args.tiles))
                print(
                    f"  columns in tiles, rows alone, {'mixed' if mixed else 'float64'}, ns/obs: {', '.join(found)}", flush=True
                )


if __name__ == "__main__":
    main()
