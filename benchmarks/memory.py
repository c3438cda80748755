"""Peak memory of a solve over its input arrays, against the bound 4 x (rows, cols, values) + 20 (n1 + n2) r doubles.

Each case runs in a process of its own; the peak is the process's resident set (Linux, macOS).
"""

from __future__ import annotations

import json
import subprocess
import sys

CASES = [  # n1, n2, observations, rank, iterations
    (10_000, 10_000, 999_500, 10, 20),
    (3_000, 3_000, 300_000, 30, 20),
    (100_000, 100_000, 12_000_000, 10, 3),
    (2_000_000, 1_500_000, 200_000, 2, 3),
]
SOLVERS = ("auto", "prgd", "adaptive-prgd", "rgd", "shampoo", "niht")

CHILD = """
import json, resource, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
n1, n2, m, rank, iterations, solver = json.loads(sys.argv[1])
import lorank as lr
import scipy.linalg, scipy.sparse
rng = np.random.default_rng(0)
rows, cols = lr.datasets.sample_pattern(rng, (n1, n2), m)
left, right = rng.random((n1, rank), np.float32), rng.random((n2, rank), np.float32)
values = np.empty(m)
for k in range(0, m, 100_000):
    part = slice(k, k + 100_000)
    values[part] = np.einsum("ij,ij->i", left[rows[part]], right[cols[part]])
del left, right
small = lr.datasets.random_completion(50, 40, 2, seed=0)[0]
lr.solve(small, 2, solver, stop=lr.stopping.Iterations(2))  # what libraries need for themselves
scale = 1 if sys.platform == "darwin" else 1024
def now():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()
# Fill up to the peak that making the data left behind, so that the next peak is ours alone.
before = now()
ballast = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale - before
ballast = np.ones(max(ballast, 0) // 8)
floor = now()
lr.solve(lr.Completion(rows, cols, values, (n1, n2)), rank, solver, stop=lr.stopping.Iterations(iterations))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale - floor
print(json.dumps(dict(peak=peak, data=rows.nbytes + cols.nbytes + values.nbytes)))
"""


def measure(case: tuple[int, int, int, int, int], solver: str) -> tuple[float, float]:
    """Peak bytes over the input, and the bound."""
    out = subprocess.run([sys.executable, "-c", CHILD, json.dumps([*case, solver])], capture_output=True, text=True, check=True)
    found = json.loads(out.stdout)
    n1, n2, _, rank, _ = case
    return found["peak"], 4 * found["data"] + 20 * (n1 + n2) * rank * 8


def main() -> None:
    print(f"{'n1 x n2':>22} {'observed':>12} {'rank':>4} {'solver':>14} {'peak MB':>9} {'bound MB':>9} {'share':>6}")
    for case in CASES:
        for solver in SOLVERS if case[2] < 5_000_000 else SOLVERS[:1]:
            peak, bound = measure(case, solver)
            n1, n2, m, rank, _ = case
            print(f"{n1:>10,} x {n2:>9,} {m:>12,} {rank:>4} {solver:>14}", end=" ")
            print(f"{peak / 1e6:>9.1f} {bound / 1e6:>9.1f} {peak / bound:>6.0%}", flush=True)


if __name__ == "__main__":
    main()
