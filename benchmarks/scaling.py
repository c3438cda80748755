"""How the default solver scales: two threads against one, a growing n, and a hundred thousand rows and columns.

    python benchmarks/scaling.py [threads] [size] [large]        all three by default

Uniform factors, rank 10, to a relative error of 1e-4, start included; every run in turn, medians over rounds and ranges. The
peak is the process's resident set, Python, libraries and the data included (Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict

import numpy as np
from threadpoolctl import threadpool_limits

import lorank as lr
from common import versions

SEED = 21


def solve(problem: lr.Completion, truth: lr.FixedRank, rank: int) -> lr.Result:
    vars(problem).pop("_balanced", None)  # what a problem keeps from one run to the next
    result = lr.solve(problem, rank, stop=lr.stopping.TruthDistance(truth, 1e-4))
    assert result.converged, result.status
    return result


def spread(values: list[float]) -> str:
    low, mid, high = np.percentile(values, [0, 50, 100])
    return f"{mid:.3f} s ({low:.3f} .. {high:.3f})"


def threads(n: int = 20_000, rank: int = 10, rounds: int = 9) -> None:
    """Two threads against one; the passes' share on each."""
    problem, truth = lr.datasets.random_completion(n, n, rank, oversampling=5, seed=SEED)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"two threads against one: n = {n:,}, {problem.m:,} observations, seed {SEED}, {cores} cores")
    seconds = defaultdict(list)
    for turn in range(rounds + 1):
        for count in (1, 2):
            with threadpool_limits(count, user_api="openmp"):
                result = solve(problem, truth, rank)
            if turn:
                seconds[count].append(result.seconds)
    ratios = np.array(seconds[1]) / np.array(seconds[2])
    for count in (1, 2):
        print(f"  {count} thread(s): {result.n_iter} iterations, {spread(seconds[count])}")
    print(f"  ratio, round by round: median {np.median(ratios):.2f}, range {ratios.min():.2f} .. {ratios.max():.2f}")


def size(sizes: tuple[int, ...] = (10_000, 20_000, 40_000, 80_000), rank: int = 10, rounds: int = 5) -> None:
    """Time an observation and iterations against n, one thread."""
    print(f"growing n: rank {rank}, 5 dof, one thread, seed {SEED}")
    first = None
    for n in sizes:
        problem, truth = lr.datasets.random_completion(n, n, rank, oversampling=5, seed=SEED)
        with threadpool_limits(1, user_api="openmp"):
            results = [solve(problem, truth, rank) for _ in range(rounds + 1)][1:]
        spent = [r.seconds for r in results]
        each = float(np.median(spent)) / problem.m
        first = first or each
        print(
            f"  n = {n:>6,}: {results[0].n_iter} iterations, {spread(spent)}, {1e9 * each:.0f} ns an observation,"
            f" {each / first:.2f} of the first",
            flush=True,
        )


def large() -> None:
    """100 000 x 100 000, 0.12 % observed, in a process of its own."""
    print("100,000 x 100,000, rank 10, 0.12 % observed", flush=True)
    for count in (1, 2):
        environment = os.environ | {"OMP_NUM_THREADS": str(count)}
        out = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, check=True)
        found = json.loads(out.stdout)
        print(
            f"  {count} thread(s): {found['iterations']} iterations, error {found['error']:.1e}, making the problem"
            f" {found['build']:.2f} s, solving {found['seconds']:.2f} s, peak {found['peak'] / 1e9:.2f} GB with the data",
            flush=True,
        )


CHILD = f"""
import json, resource, time
import numpy as np
import lorank as lr
n, rank = 100_000, 10
rng = np.random.default_rng({SEED})
left, right = rng.random((n, rank)), rng.random((n, rank))
rows, cols = lr.datasets.sample_pattern(rng, (n, n), 12_000_000)
rows, cols = rows.astype(np.int32), cols.astype(np.int32)
values = np.empty(len(rows))
for k in range(0, len(rows), 100_000):
    part = slice(k, k + 100_000)
    values[part] = np.einsum("ij,ij->i", left[rows[part]], right[cols[part]])
small, known = lr.datasets.random_completion(300, 300, 3, seed=0)
lr.solve(small, 3)  # what libraries need for themselves
truth = lr.FixedRank.from_factors(left, right)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts anew
begin = time.perf_counter()
problem = lr.Completion(rows, cols, values, (n, n))
build = time.perf_counter() - begin
result = lr.solve(problem, rank, stop=lr.stopping.TruthDistance(truth, 1e-4))
peak = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
error = truth.distance(result.X) / truth.norm()
print(json.dumps(dict(build=build, seconds=result.seconds, iterations=result.n_iter, error=error, peak=peak)))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="threads, size, large")
    what = parser.parse_args().what or ["threads", "size", "large"]
    print(versions())
    for name, function in (("threads", threads), ("size", size), ("large", large)):
        if name in what:
            function()


if __name__ == "__main__":
    main()
