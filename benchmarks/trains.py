"""Completion in the tensor-train format: recovered instances by solver and metric, and seconds beside teneva.

python benchmarks/trains.py recovery [--instances 5] [--shapes 20^4 20^5 10^6] [--cores uniform gaussian] [--per-dof 3 5 8]
python benchmarks/trains.py speed [--instances 3] [--quick]     CPU seconds to 1e-6, initial point included

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

FIRST, TOL = 7000, 1e-6  # seed; relative residual
EXACT = 1e-3  # relative error of a recovered tensor
SHAPES = {"20^4": ((20,) * 4, 4), "20^5": ((20,) * 5, 3), "10^6": ((10,) * 6, 3)}
SPEED = (
    ((20,) * 4, 4, "uniform", 8),
    ((20,) * 4, 4, "gaussian", 10),
    ((10,) * 6, 3, "uniform", 8),
    ((50,) * 5, 5, "uniform", 10),
)
SOLVERS = {
    "auto (ALS)": "auto",
    "RCG, counts": lr.solvers.RCG(lr.metrics.Counts()),
    "RCG": lr.solvers.RCG(lr.metrics.Canonical()),
    "RGD": lr.solvers.RGD(lr.metrics.Canonical(), lr.steps.Exact()),
    "RGD, PRGD weights": lr.solvers.RGD(lr.metrics.RowColumn(), lr.steps.Exact()),
}


def instance(shape, rank, kind, oversampling, seed):
    return lr.datasets.random_tensor(shape, rank, oversampling=oversampling, factors=kind, seed=seed, format="train")


def teneva(problem, rank, start="rand"):
    """Its ALS from a random or its ANOVA point, with a smaller ridge than its default, which limits the accuracy to 1e-3."""
    import teneva as peer

    norm, info, indices, y = np.linalg.norm(problem.y), {}, problem.indices, problem.y

    def reached(Y, info, options):
        return np.linalg.norm(peer.get_many(Y, indices) - y) < TOL * norm

    begin = peer.rand(problem.shape, rank, seed=0) if start == "rand" else peer.anova(indices, y, r=rank, seed=0)
    Y = peer.als(indices, y, begin, nswp=150, e=1e-12, lamb=1e-10, info=info, cb=reached)
    return lr.TensorTrain(Y), info["nswp"]


def error(X, truth):
    return truth.distance(X) / truth.norm() if X.is_finite() else np.inf


def recovery(options):
    """Recovered instances; all solvers of the library begin at the same point, that of the default."""
    peers = ["rand", "anova"] if importlib.util.find_spec("teneva") else []
    names = [*SOLVERS, *(f"teneva, {start}" for start in peers)]
    print(
        f"| shape, rank | cores | observations per dof | {' | '.join(names)} |\n|---|---|---|{'---|' * len(names)}", flush=True
    )
    for name, kind, oversampling in [(n, k, o) for n in options.shapes for k in options.cores for o in options.per_dof]:
        (shape, rank), found = SHAPES[name], dict.fromkeys(names, 0)
        for seed in range(FIRST, FIRST + options.instances):
            problem, truth = instance(shape, rank, kind, oversampling, seed)
            start = lr.tensors.TrainStart()(problem, truth.rank, np.random.default_rng(0))
            points = {name: lr.solve(problem, rank, solver, start=start, max_iter=300).X for name, solver in SOLVERS.items()}
            points |= {f"teneva, {start}": teneva(problem, rank, start)[0] for start in peers}
            for one, X in points.items():
                found[one] += error(X, truth) < EXACT
        print(f"| {name}, {rank} | {kind} | {oversampling:g} | {' | '.join(map(str, found.values()))} |", flush=True)


def lorank(problem, rank):
    result = lr.solve(problem, rank)
    return result.X, result.n_iter


def speed(options):
    print(
        "| shape, rank, cores, per dof | observations | method | CPU seconds, median | sweeps | relative error |\n"
        + "|---" * 6
        + "|"
    )
    for shape, *case in SPEED[:3] if options.quick else SPEED:
        for method in (lorank, teneva):
            found = []
            for seed in range(FIRST, FIRST + 1 + options.instances):  # the first warms up
                problem, truth = instance(shape, *case, seed)
                began = time.process_time()
                X, sweeps = method(problem, case[0])
                found.append((time.process_time() - began, sweeps, error(X, truth)))
            seconds, sweeps, off = (statistics.median(one) for one in zip(*found[1:], strict=True))
            what = f"{shape[0]}^{len(shape)}, {', '.join(map(str, case))} | {problem.m:,} | {method.__name__}"
            print(f"| {what} | {seconds:.3f} | {sweeps:g} | {off:.1e} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["recovery", "speed"])
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--cores", nargs="+", default=["uniform", "gaussian"], choices=["uniform", "gaussian"])
    parser.add_argument("--per-dof", nargs="+", type=float, default=[3, 5, 8])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"lorank {lr.__version__}, NumPy {np.__version__}, seeds from {FIRST}")
    {"recovery": recovery, "speed": speed}[options.what](options)


if __name__ == "__main__":
    main()
