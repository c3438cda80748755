"""Problems for tests of solvers against dense computations."""

from __future__ import annotations

import numpy as np

import lorank as lr
from lorank.loop.state import State
from lorank.plans.registry import SOLVERS, named_solver
from lorank.problems.capabilities import TightFrame

OF_ENTRIES = [name for name in SOLVERS if TightFrame in named_solver(name).needs]  # the others run on any model of matrices
BY_TRUNCATED_SVD = ("niht", "iht", "cgiht", "softimpute", "irls")  # reproducible to the accuracy of that
OF_ANY_MATRIX = [name for name in SOLVERS if name not in OF_ENTRIES]


def ill_conditioned(n=60, rank=3, kappa=10.0, oversampling=5, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for _ in range(2))
    truth = lr.FixedRank(U, n * np.geomspace(1, 1 / kappa, rank), V)
    chosen = rng.choice(n * n, int(oversampling * rank * (2 * n - rank)), replace=False)
    rows, cols = chosen // n, chosen % n
    return lr.Completion(rows, cols, truth.entries(rows, cols), (n, n)), truth


def dense_case(seed=0, oversampling=5):
    """A problem, a point, its factors, the mask and the data as dense arrays."""
    problem, _ = ill_conditioned(20, 2, oversampling=oversampling, seed=seed)
    rng = np.random.default_rng(seed)
    X = lr.FixedRank.from_factors(rng.standard_normal((20, 2)), rng.standard_normal((20, 2)))
    mask, data = np.zeros((20, 20)), np.zeros((20, 20))
    mask[problem.rows, problem.cols], data[problem.rows, problem.cols] = 1, problem.y
    return problem, X, X.U * X.s**0.5, X.V * X.s**0.5, mask, data


def steps(solver, problem, X, count):
    state = State.at(problem, X)
    state = state.with_memory(solver.start(problem, state))
    for _ in range(count):
        state = solver.step(problem, state)
    return state.X.to_dense()
