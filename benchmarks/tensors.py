"""Tensor completion: recovery, iterations on unevenly sampled modes, and seconds; tensor_peers.py has other packages.

python benchmarks/tensors.py recovery [--instances 20] [--n 100]   how many random n x n x n tensors of rank 5 are recovered
python benchmarks/tensors.py metrics [--instances 5]               iterations by metric, evenly and unevenly sampled
python benchmarks/tensors.py speed [--instances 3] [--n 1000]      seconds, start included, on an idle machine
    [--device cuda] [--single]                                     on a GPU, in single precision

One thread: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import numpy as np

import lorank as lr
from common import versions
from lorank.tensors.start import spectral

FIRST = 7200  # seed
EXACT = 1e-3  # relative error of a recovered tensor


def recovery(instances: int, n: int) -> None:
    print("| n | factors | observations per degree of freedom | m / (2 r n^1.5) | recovered | iterations, median |")
    print("|---|---|---|---|---|---|")
    r, uniform = 5, (2.5, 3.0, 3.5, 5.0)
    for kind, oversamplings in (("gaussian", (3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 9.0)), ("uniform", uniform if n == 100 else ())):
        for oversampling in oversamplings:
            if kind == "gaussian" and ((n < 100 and oversampling > 6) or (n > 100 and oversampling < 4.5)):
                continue
            found, iterations = 0, []
            for seed in range(FIRST, FIRST + instances):
                problem, truth = lr.datasets.random_tensor((n,) * 3, r, oversampling=oversampling, factors=kind, seed=seed)
                result = lr.solve(problem, r)
                good = truth.distance(result.X) < EXACT * truth.norm()
                found += good
                iterations += [result.n_iter] if good else []
            middle = statistics.median(iterations) if iterations else "-"
            units = problem.m / (2 * r * n**1.5)
            print(f"| {n} | {kind} | {oversampling:g} | {units:.2f} | {found} of {instances} | {middle} |", flush=True)


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


def speed(instances: int, n: int, device: str | None, single: bool) -> None:
    """CPU seconds (on a GPU: seconds) from arrays in memory; of which the initial point takes the second figure."""
    clock = time.process_time if device is None else time.perf_counter
    print("| shape, rank | per degree of freedom | observations | iterations | seconds (range) | initial point | error |")
    print("|---|---|---|---|---|---|---|")
    r, oversamplings = (5, (10, 20)) if n < 300 else (10, (15,))
    backend = "torch:cuda" if device == "cuda" else None
    for oversampling in oversamplings:
        seconds, starts, errors, iterations = [], [], [], []
        for seed in range(FIRST - 1, FIRST + instances):  # the first warms up
            problem, truth = lr.datasets.random_tensor((n,) * 3, r, oversampling=oversampling, seed=seed)
            index, y = problem.indices, np.asarray(problem.y, np.float32 if single else np.float64)
            began = clock()
            problem = lr.TensorCompletion(index, y, (n,) * 3, backend=backend)
            start = lr.tensors.TensorStart()(problem, (r, r, r), np.random.default_rng(0))
            starts.append(clock() - began)
            result = lr.solve(problem, r, start=start)
            seconds.append(clock() - began)
            errors.append(truth.distance(result.X.numpy()) / truth.norm())
            iterations.append(result.n_iter)
        taken = f"{statistics.median(seconds[1:]):.3f} ({min(seconds[1:]):.3f} to {max(seconds[1:]):.3f})"
        print(
            f"| {n}³, {r} | {oversampling} | {problem.m:,} | {statistics.median(iterations[1:]):g} | {taken} | "
            f"{statistics.median(starts[1:]):.3f} | {np.median(errors[1:]):.1e} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["recovery", "metrics", "speed"])
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--device", choices=["cuda"])
    parser.add_argument("--single", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", lr.ConvergenceWarning)
    print(f"{versions()}; seeds from {FIRST}")
    if options.what == "speed":
        speed(options.instances, options.n, options.device, options.single)
    elif options.what == "recovery":
        recovery(options.instances, options.n)
    else:
        metrics(options.instances)


if __name__ == "__main__":
    main()
