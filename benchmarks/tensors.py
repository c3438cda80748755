"""Tensor completion: recovery, iterations on unevenly sampled modes, and seconds.

python benchmarks/tensors.py recovery [--instances 20]   how many of random 100 x 100 x 100 tensors of rank 5 are recovered
python benchmarks/tensors.py metrics [--instances 5]     iterations by metric, evenly and unevenly sampled
python benchmarks/tensors.py speed                       seconds, start included, on an idle machine

One thread: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import numpy as np

import lorank as lr
from lorank.tensors.start import spectral

FIRST = 7000  # seed
EXACT = 1e-3  # relative error of a recovered tensor


def recovery(instances: int) -> None:
    print("| factors | observations per degree of freedom | m / (2 r n^1.5) | recovered | iterations, median |")
    print("|---|---|---|---|---|")
    n, r = 100, 5
    for kind, oversampling in (
        ("gaussian", 4),
        ("gaussian", 4.5),
        ("gaussian", 5),
        ("uniform", 2.5),
        ("uniform", 3),
        ("uniform", 5),
    ):
        found, iterations = 0, []
        for seed in range(FIRST, FIRST + instances):
            problem, truth = lr.datasets.random_tensor((n,) * 3, r, oversampling=oversampling, factors=kind, seed=seed)
            result = lr.solve(problem, r)
            good = truth.distance(result.X) < EXACT * truth.norm()
            found += good
            iterations += [result.n_iter] if good else []
        middle = statistics.median(iterations) if iterations else "-"
        print(
            f"| {kind} | {oversampling:g} | {problem.m / (2 * r * n**1.5):.2f} | {found} of {instances} | {middle} |",
            flush=True,
        )


def metrics(instances: int) -> None:
    chosen = {
        "RGD": lr.solvers.RGD(lr.metrics.Canonical(), lr.steps.Exact()),
        "PRGD weights": lr.solvers.RGD(lr.metrics.RowColumn(), lr.steps.Exact()),
        "RGD, counts": lr.solvers.RGD(lr.metrics.Counts(), lr.steps.Exact()),
        "RCG": lr.solvers.RCG(),
        "RCG, counts": lr.solvers.RCG(lr.metrics.Counts()),
    }
    print(f"| sampling | {' | '.join(chosen)} |")
    print("|---|" + "---|" * len(chosen))
    for powers in (0.0, 0.4, 0.7):
        taken: dict[str, list[int]] = {name: [] for name in chosen}
        for seed in range(FIRST, FIRST + instances):
            problem, _ = lr.datasets.random_tensor((100,) * 3, 5, oversampling=20, powers=powers, seed=seed)
            start = spectral(problem, (5, 5, 5))
            for name, solver in chosen.items():
                result = lr.solve(problem, 5, solver, start=start, max_iter=500)
                taken[name].append(result.n_iter if result.converged else 500)
        line = " | ".join(f"{statistics.median(counts):g} ({min(counts)} to {max(counts)})" for counts in taken.values())
        print(f"| frequencies k^-{powers:g} | {line} |", flush=True)


def speed() -> None:
    print("| shape, rank | observations | iterations | seconds, median of 3 | relative error |")
    print("|---|---|---|---|---|")
    for n, r, oversampling in ((100, 5, 10), (100, 5, 20), (300, 5, 15), (1000, 10, 15)):
        seconds, errors, iterations = [], [], []
        for seed in range(FIRST, FIRST + 4):  # the first warms up
            problem, truth = lr.datasets.random_tensor((n,) * 3, r, oversampling=oversampling, seed=seed)
            began = time.perf_counter()
            result = lr.solve(problem, r)
            seconds.append(time.perf_counter() - began)
            errors.append(truth.distance(result.X) / truth.norm())
            iterations.append(result.n_iter)
        print(
            f"| {n}³, {r} | {problem.m:,} | {statistics.median(iterations[1:]):g} | {statistics.median(seconds[1:]):.3f} | "
            f"{np.median(errors[1:]):.1e} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["recovery", "metrics", "speed"])
    parser.add_argument("--instances", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore", lr.ConvergenceWarning)
    print(f"lorank {lr.__version__}, NumPy {np.__version__}, seeds from {FIRST}")
    if options.what == "speed":
        speed()
    else:
        {"recovery": recovery, "metrics": metrics}[options.what](options.instances)


if __name__ == "__main__":
    main()
