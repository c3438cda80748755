"""Completion in the tensor-train format: recovered instances by solver and metric, and seconds beside teneva.

python benchmarks/trains.py recovery [--instances 5] [--quick]   random trains of orders 4 and 6
python benchmarks/trains.py uneven [--instances 5]               iterations by metric on unevenly sampled modes
python benchmarks/trains.py speed [--instances 3] [--quick]      seconds to 1e-6, initial point included; idle machine

One thread: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1. Columns of teneva need that package.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
import warnings

import numpy as np

import lorank as lr
from lorank.tensors.train_start import spectral

FIRST, TOL = 7000, 1e-6  # seed; relative residual
EXACT = 1e-3  # relative error of a recovered tensor
SHAPES = (((20,) * 4, 4), ((10,) * 6, 3))
EXACT_STEP = lr.steps.Exact()
SOLVERS = {
    "auto (ALS)": "auto",
    "RCG, counts": lr.solvers.RCG(lr.metrics.Counts()),
    "RCG": lr.solvers.RCG(lr.metrics.Canonical()),
    "RGD, counts": lr.solvers.RGD(lr.metrics.Counts(), EXACT_STEP),
    "RGD": lr.solvers.RGD(lr.metrics.Canonical(), EXACT_STEP),
    "RGD, PRGD weights": lr.solvers.RGD(lr.metrics.RowColumn(), EXACT_STEP),
}


def lorank(problem, rank, solver="auto"):
    result = lr.solve(problem, rank, solver)
    return result.X, result.n_iter


def teneva(problem, rank):
    """Its ALS from its ANOVA point, with a smaller ridge than its default, which limits the accuracy to about 1e-3."""
    import teneva as peer

    norm = np.linalg.norm(problem.y)

    def reached(Y, info, options):
        return np.linalg.norm(peer.get_many(Y, problem.indices) - problem.y) < TOL * norm

    start, info = peer.anova(problem.indices, problem.y, r=rank, seed=0), {}
    Y = peer.als(problem.indices, problem.y, start, nswp=500, e=1e-12, lamb=1e-10, info=info, cb=reached)
    return lr.TensorTrain(Y), info["nswp"]


def instance(shape, rank, oversampling, kind, seed, **options):
    return lr.datasets.random_tensor(shape, rank, oversampling=oversampling, factors=kind, seed=seed, format="train", **options)


def error(X, truth):
    return truth.distance(X) / truth.norm() if X.is_finite() else np.inf


def recovery(instances, quick):
    methods = {name: lambda p, r, s=s: lorank(p, r, s) for name, s in SOLVERS.items()}
    if importlib.util.find_spec("teneva"):
        methods["teneva"] = teneva
    print(f"| shape, rank | cores | per dof | {' | '.join(methods)} |\n|---|---|---|{'---|' * len(methods)}")
    for shape, rank in SHAPES[:1] if quick else SHAPES:
        more = (30,) if len(shape) == 6 else ()
        for kind, oversampling in [
            (k, o) for k in ("uniform", "gaussian") for o in (3, 5, 8, *(more if k == "gaussian" else ()))
        ]:
            row = []
            for method in methods.values():
                tried = (instance(shape, rank, oversampling, kind, seed) for seed in range(FIRST, FIRST + instances))
                row.append(sum(error(method(p, rank)[0], truth) < EXACT for p, truth in tried))
            print(f"| {shape[0]}^{len(shape)}, {rank} | {kind} | {oversampling} | {' | '.join(map(str, row))} |", flush=True)


def uneven(instances, quick):
    names = [name for name in SOLVERS if name != "auto (ALS)"]
    print(f"| sampling frequencies | ALS | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
    for powers in (0.0, 0.4, 0.7):
        taken = {name: [] for name in ("ALS", *names)}
        for seed in range(FIRST, FIRST + instances):
            problem, _ = instance((20,) * 4, 3, 30, "gaussian", seed, powers=powers)
            start = spectral(problem, (3, 3, 3))
            for name in taken:
                solver = lr.tensors.TrainALS() if name == "ALS" else SOLVERS[name]
                result = lr.solve(problem, 3, solver, start=start)
                taken[name].append(result.n_iter if result.converged else np.inf)
        row = (f"{statistics.median(n):g} ({min(n):g} to {max(n):g})" for n in taken.values())
        print(f"| k^-{powers:g} | {' | '.join(row)} |", flush=True)


def speed(instances, quick):
    print(
        "| shape, rank, cores, per dof | observations | method | seconds, median | sweeps | relative error |\n"
        + "|---" * 6
        + "|"
    )
    cases = [
        ((20,) * 4, 4, "uniform", 8),
        ((20,) * 4, 4, "gaussian", 10),
        ((10,) * 6, 3, "uniform", 8),
        ((50,) * 5, 5, "uniform", 10),
    ]
    for shape, rank, kind, oversampling in cases[:1] if quick else cases:
        for name, method in (("lorank", lorank), ("teneva", teneva)):
            seconds, sweeps, errors = [], [], []
            for seed in range(FIRST, FIRST + 1 + instances):  # the first warms up
                problem, truth = instance(shape, rank, oversampling, kind, seed)
                began = time.perf_counter()
                X, n = method(problem, rank)
                seconds.append(time.perf_counter() - began)
                sweeps.append(n)
                errors.append(error(X, truth))
            middle = [statistics.median(one[1:]) for one in (seconds, sweeps, errors)]
            case = f"{shape[0]}^{len(shape)}, {rank}, {kind}, {oversampling}"
            print(f"| {case} | {problem.m:,} | {name} | {middle[0]:.3f} | {middle[1]:g} | {middle[2]:.1e} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["recovery", "uneven", "speed"])
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"lorank {lr.__version__}, NumPy {np.__version__}, seeds from {FIRST}")
    {"recovery": recovery, "uneven": uneven, "speed": speed}[options.what](options.instances, options.quick)


if __name__ == "__main__":
    main()
