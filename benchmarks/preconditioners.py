"""Iterations by metric on every model of the library: writes the table of docs/preconditioners.md.

python benchmarks/preconditioners.py [--instances 3] [--only train]   with --only, prints the rows of models with that word

Riemannian gradient descent with exact steps in each metric, from the initial point of the solver, and Gauss-Newton, to a
relative residual of 1e-6 (counts: until the objective is stationary). Medians over seeds. Seconds are not measured.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lorank as lr
from lorank.loop.solver import Solver

PAGE = Path(__file__).resolve().parents[1] / "docs" / "preconditioners.md"
BEGIN, END = "<!-- table: written by benchmarks/preconditioners.py -->", "<!-- end of table -->"
FIRST, MAX_ITER = 5000, 1000


def uneven(seed: int) -> lr.Problem:
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random((400, 300)) < np.outer(np.geomspace(0.1, 1, 400), np.geomspace(0.1, 1, 300)))
    truth = lr.FixedRank.from_factors(rng.standard_normal((400, 4)), rng.standard_normal((300, 4)))
    return lr.Completion(rows, cols, truth.entries(rows, cols), (400, 300))


def ill_conditioned(seed: int) -> lr.Problem:
    rng = np.random.default_rng(seed)
    q1, q2 = (np.linalg.qr(rng.standard_normal((n, 4)))[0] for n in (400, 300))
    rows, cols = lr.datasets.sample_pattern(rng, (400, 300), 5 * 4 * 696)
    return lr.Completion(rows, cols, lr.FixedRank(q1, np.geomspace(100, 1, 4), q2).entries(rows, cols), (400, 300))


def counts(seed: int) -> lr.Problem:
    rng = np.random.default_rng(seed)
    return lr.CountTable(rng.poisson(2 * np.exp(0.5 * rng.standard_normal((80, 2)) @ rng.standard_normal((2, 60)))))


def random_train(seed: int, powers: float) -> lr.Problem:
    return lr.datasets.random_tensor((20,) * 4, 3, oversampling=20, powers=powers, seed=seed, format="train")[0]


MODELS: dict[str, tuple[Callable[[int], Any], int]] = {
    "completion, uniform factors": (lambda s: lr.datasets.random_completion(400, 300, 4, oversampling=5, seed=s)[0], 4),
    "completion, Gaussian factors": (
        lambda s: lr.datasets.random_completion(400, 300, 4, oversampling=5, factors="gaussian", seed=s)[0],
        4,
    ),
    "completion, rows of different size": (
        lambda s: lr.datasets.random_completion(400, 300, 4, oversampling=5, factors="ill-scaled", spread=1.0, seed=s)[0],
        4,
    ),
    "completion, condition number 100": (ill_conditioned, 4),
    "completion, uneven sampling": (uneven, 4),
    "sensing, Gaussian": (lambda s: lr.datasets.random_sensing(40, 30, 2, oversampling=3, seed=s)[0], 2),
    "phase retrieval, Gaussian": (lambda s: lr.datasets.random_phase(100, oversampling=6, seed=s)[0], 1),
    "count table": (counts, 2),
    "tensor, even sampling": (lambda s: lr.datasets.random_tensor((60, 50, 40), 3, oversampling=15, seed=s)[0], 3),
    "tensor, uneven sampling": (
        lambda s: lr.datasets.random_tensor((60, 50, 40), 3, oversampling=15, powers=0.6, seed=s)[0],
        3,
    ),
    "tensor train, even sampling": (lambda s: random_train(s, 0.0), 3),
    "tensor train, uneven sampling": (lambda s: random_train(s, 0.6), 3),
    "Hankel, 10 samples per exponential": (lambda s: lr.datasets.random_hankel(1000, 6, samples=60, seed=s)[0], 6),
    "Hankel, damped": (lambda s: lr.datasets.random_hankel(1000, 6, samples=120, damping=4.0, seed=s)[0], 6),
    "Pauli, pure state": (lambda s: lr.datasets.random_pauli(6, 1, oversampling=3, seed=s)[0], 1),
    "Pauli, rank 3": (lambda s: lr.datasets.random_pauli(6, 3, oversampling=3, seed=s)[0], 3),
}


def descent(metric: Any) -> Solver:
    return lr.solvers.RGD(metric, lr.steps.Exact())


SOLVERS: dict[str, Solver] = {
    "canonical": descent(lr.metrics.Canonical()),
    "rows and columns": descent(lr.metrics.RowColumn()),
    "Shampoo": descent(lr.metrics.Shampoo(lr.metrics.RelativeMax(1.0))),
    "counts": descent(lr.metrics.Counts()),
    "blocks": descent(lr.metrics.Blocks()),
    "whitened": descent(lr.phase.Whitened()),
    "Gauss-Newton": lr.solvers.GaussNewton(),
}


def cell(make: Callable[[int], Any], rank: int, solver: Solver, instances: int) -> str:
    iterations = []
    for seed in range(FIRST, FIRST + instances):
        try:
            result = lr.solve(make(seed), rank, solver, start=None, max_iter=MAX_ITER)
        except lr.ParameterError:
            return ""
        iterations.append(result.n_iter if result.converged else MAX_ITER + 1)
    middle = statistics.median_low(iterations)
    return f"{middle}" if middle <= MAX_ITER else "no"


def table(instances: int, only: str) -> str:
    lines = ["| model | " + " | ".join(SOLVERS) + " |", "|" + "---|" * (len(SOLVERS) + 1)]
    for name, (make, rank) in ((name, model) for name, model in MODELS.items() if only in name):
        cells = [cell(make, rank, solver, instances) for solver in SOLVERS.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = table(arguments.instances, arguments.only)
    if not arguments.only:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n\n{found}\n\n{END}{after}", encoding="utf-8")
