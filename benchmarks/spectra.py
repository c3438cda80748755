"""Hankel completion: recovery, seconds beside FIHT, noise with intervals, and memory.

python benchmarks/spectra.py recovery [--instances 10]   signals of 2 000 samples and 8 exponentials
python benchmarks/spectra.py speed [--instances 5]       seconds of up to a million samples, beside FIHT
python benchmarks/spectra.py noise [--instances 10]      errors, order and intervals of noisy real signals
python benchmarks/spectra.py size                        iterations and peak memory for up to a million samples

FIHT (Cai, Wang, Wei 2019) is Riemannian gradient descent with a constant step on this objective: here by the same transforms.
One thread: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
import warnings

import numpy as np

import lorank as lr
from common import versions

FIRST = 8100  # seed
EXACT = 1e-5  # relative error of a recovered signal
FIHT = lr.solvers.RGD(lr.metrics.Canonical(), lr.steps.Constant(1.0), None)


def error(found: np.ndarray, signal: np.ndarray) -> float:
    return float(np.linalg.norm(found - signal) / np.linalg.norm(signal))


def recovery(instances: int) -> None:
    solvers = {"auto": "auto", "conjugate gradients": "rcg", "FIHT": FIHT}
    print("| samples | damping | " + " | ".join(f"{name}: recovered, iterations" for name in solvers) + " |")
    print("|" + "---|" * (len(solvers) + 2))
    for damping in (0.0, 3.0):
        for samples in (60, 80, 300):
            cells = []
            for solver in solvers.values():
                iterations = []
                for seed in range(FIRST, FIRST + instances):
                    problem, signal = lr.datasets.random_hankel(2000, 8, samples=samples, damping=damping, seed=seed)
                    result = lr.solve(problem, 8, solver, start=None if solver == "auto" else "spectral")
                    iterations += [result.n_iter] if error(result.signal, signal) < EXACT else []
                cells.append(f"{len(iterations)} of {instances}, {statistics.median(iterations) if iterations else '-'}")
            print(f"| {samples} | {damping:g} | {' | '.join(cells)} |", flush=True)


def speed(instances: int) -> None:
    """CPU seconds from samples in memory to a relative residual of 1e-6, with the exponentials of the result."""
    print("| n | samples | auto: seconds (range) | recovered | FIHT: seconds (range) | recovered |")
    print("|---|---|---|---|---|---|")
    for n, samples in ((2_000, 300), (20_000, 1_000), (200_000, 2_000), (1_000_000, 5_000)):
        cells = []
        for solver in ("auto", FIHT):
            taken, found = [], 0
            number = instances if n < 200_000 else 1
            for seed in range(FIRST - (n < 200_000), FIRST + number):  # the first warms up
                problem, signal = lr.datasets.random_hankel(n, 8, samples=samples, seed=seed)
                began = time.process_time()
                problem = lr.HankelCompletion(problem.seen, problem.y, n)
                result = lr.solve(problem, 8, solver, start=None if solver == "auto" else "spectral")
                x = result.signal
                taken.append(time.process_time() - began)
                found += seed >= FIRST and error(x, signal) < EXACT
            taken = taken[-number:]
            cells.append(f"{statistics.median(taken):.3f} ({min(taken):.3f} to {max(taken):.3f}) | {found} of {number}")
        print(f"| {n:,} | {samples:,} | {' | '.join(cells)} |", flush=True)


def noise(instances: int) -> None:
    def coverage(result: lr.Result) -> float:
        low, high = result.interval(0.9)
        return float(np.mean((low < signal) & (signal < high)))

    print("| noise | samples | error, median | order 6 selected | intervals cover | of the selected order | status noise |")
    print("|---|---|---|---|---|---|---|")
    for size in (0.05, 0.2, 0.5):
        for samples in (100, 300):
            errors, orders, covered, ends, selected = [], [], [], [], []
            for seed in range(FIRST, FIRST + instances):
                options = {"samples": samples, "real": True, "noise": size, "damping": 2.0, "seed": seed}
                problem, signal = lr.datasets.random_hankel(1000, 6, **options)
                result, automatic = lr.solve(problem, 6), lr.solve(problem, "auto")
                errors.append(error(result.signal, signal))
                covered.append(coverage(result))
                ends.append(result.status == "noise")
                orders.append(automatic.X.rank)
                selected.append(coverage(automatic))
            others = ", ".join(str(order) for order in orders if order != 6)
            spread = np.std(covered, ddof=1) / instances**0.5 if instances > 1 else 0.0
            print(
                f"| {size:g} | {samples} | {statistics.median(errors):.3f} | {orders.count(6)} of {instances}"
                f"{f' (others: {others})' if others else ''} | {statistics.mean(covered):.0%} ± {spread:.0%} | "
                f"{statistics.mean(selected):.0%} | {sum(ends)} of {instances} |",
                flush=True,
            )


def size(instances: int) -> None:
    print("| n | samples | iterations | error | peak memory, MB |")
    print("|---|---|---|---|---|")
    for n, samples in ((2_000, 300), (20_000, 1_000), (200_000, 2_000), (1_000_000, 5_000)):
        problem, signal = lr.datasets.random_hankel(n, 8, samples=samples, seed=FIRST)
        result = lr.solve(problem, 8)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"| {n:,} | {samples:,} | {result.n_iter} | {error(result.signal, signal):.0e} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["recovery", "speed", "noise", "size"])
    parser.add_argument("--instances", type=int, default=10)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{versions()}; seeds from {FIRST}")
    {"recovery": recovery, "speed": speed, "noise": noise, "size": size}[arguments.what](arguments.instances)
