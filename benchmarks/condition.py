"""Condition numbers of the misfit's Hessian on the tangent space at the truth, in three metrics: what decides how many steps a
first order method needs near the solution.

    python benchmarks/condition.py [--seeds 1000 1001 1002]

300 x 200, rank 3, Gaussian factors, five observations for each row and column and rank; "rows r+1": a tenth of the rows keeps
rank + 1 of them. Dense matrices of the size of the tangent space; the gradient in a metric is the library's own.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import scipy.linalg

import lorank as lr
from common import markdown
from lorank.geometry import Tangent, riemannian_gradient
from lorank.metrics import Blocks, Canonical, Counts
from uneven import POWERS, make

SHAPE, RANK = (300, 200), 3
METRICS = {"canonical": Canonical(), "counts": Counts(uneven=0), "blocks": Blocks()}


@dataclass
class Product:
    """A matrix known by its products with the singular vectors at X."""

    GV: np.ndarray
    GhU: np.ndarray
    core: np.ndarray


def coordinates(xi: Tangent, outside: np.ndarray) -> np.ndarray:
    """Of xi in the orthonormal basis ``e_i v_a^T``, ``u_a w_k^T``, with w_k the columns of ``outside``, orthogonal to V."""
    return np.concatenate([(xi.X.U @ xi.M + xi.Up).ravel(), (outside.T @ xi.Vp).ravel()])


def conditions(problem: lr.Completion, X: lr.FixedRank) -> dict[str, float]:
    (n1, n2), r = problem.shape, X.rank
    outside = scipy.linalg.null_space(X.V.T)
    rows, cols, size = problem.rows, problem.cols, (n1 + n2 - r) * r
    J = np.zeros((problem.m, size))
    for a in range(r):
        J[np.arange(problem.m), rows * r + a] = X.V[cols, a]
        J[:, n1 * r + a :: r] = X.U[rows, a][:, None] * outside[cols]
    root = scipy.linalg.cholesky(J.T @ J, lower=True)
    at = problem.gradient(X)
    weights = {name: metric.weights(at, metric.start(at))[0] for name, metric in METRICS.items()}
    inverses = {name: np.empty((size, size)) for name in METRICS}
    for k in range(size):  # the inverse metric on each vector of the basis
        e = np.zeros(size)
        e[k] = 1
        left, right = e[: n1 * r].reshape(n1, r), outside @ e[n1 * r :].reshape(n2 - r, r)
        G = Product(left, right + X.V @ (X.U.T @ left).T, X.U.T @ left)
        for name, one in weights.items():
            inverses[name][:, k] = coordinates(riemannian_gradient(X, G, one), outside)
    found = {}
    for name, inverse in inverses.items():
        values = scipy.linalg.eigvalsh(root.T @ inverse @ root)
        found[name] = float(values[-1] / values[0])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1000, 1001, 1002])
    args = parser.parse_args()
    lines = []
    for pattern, trouble in [*((p, "none") for p in POWERS), ("even", "rows r+1"), ("mild", "rows r+1")]:
        found = []
        for seed in args.seeds:
            data = make(pattern, "gaussian", RANK, seed, SHAPE, 5 * RANK * sum(SHAPE), trouble)
            problem = lr.Completion(data.rows, data.cols, data.values, data.shape)
            found.append(conditions(problem, lr.FixedRank.from_factors(data.left, data.right)))
        line = {"pattern": pattern if trouble == "none" else f"{pattern}, {trouble}"}
        lines.append(line | {name: ", ".join(f"{one[name]:.3g}" for one in found) for name in METRICS})
        print(lines[-1], flush=True)
    print("\n".join(markdown(lines)))


if __name__ == "__main__":
    main()
