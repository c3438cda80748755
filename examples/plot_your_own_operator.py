"""
Custom operators: pooled samples
================================

Sixty laboratories test eighty substances; each test mixes eight random samples and gives their weighted sum. If the table is
of low rank, far fewer tests than cells suffice. lorank has no such model; two functions define one: the measurement of a
matrix given by its factors, and the adjoint, a sparse matrix.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import lorank as lr

# %%
# Pools of eight cells with weights.

rng = np.random.default_rng(0)
shape, rank, size = (60, 80), 2, 8
cells = np.prod(shape)


def pools(tests):
    rows, cols = rng.integers(0, shape[0], (tests, size)), rng.integers(0, shape[1], (tests, size))
    return rows, cols, rng.uniform(0.5, 1.5, (tests, size))


def measured(rows, cols, weights, y):
    def forward(left, right):
        return (weights * np.einsum("tsk,tsk->ts", left[rows], right[cols].conj())).sum(1)

    def adjoint(p):
        return sp.csr_array(((p[:, None] * weights).ravel(), (rows.ravel(), cols.ravel())), shape)

    return lr.Sensing.from_functions(forward, adjoint, y, shape, check=True)


# %%
# Relative error against the number of tests.

truth = lr.FixedRank.from_factors(rng.random((shape[0], rank)), rng.random((shape[1], rank)))
table = truth.to_dense()
numbers, errors = (280, 300, 320, 350, 400, 500, 600), []
for tests in numbers:
    rows, cols, weights = pools(tests)
    y = (weights * table[rows, cols]).sum(1)
    result = lr.solve(measured(rows, cols, weights, y), rank, stop=lr.stopping.RelativeResidual(1e-7), max_iter=150)
    errors.append(truth.distance(result.X) / truth.norm())
    print(f"{tests} tests for {cells} cells: {result.status}, relative error {errors[-1]:.1e}")

# %%

figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
axis.semilogy(numbers, errors, "o-")
axis.axvline(rank * (sum(shape) - rank), color="0.55", ls="--")
axis.annotate("degrees of freedom ", (rank * (sum(shape) - rank), 1e-4), rotation=90, ha="right", va="center", color="0.55")
axis.set_xlim(240, None)
axis.set(xlabel=f"pooled tests ({cells} cells)", ylabel="relative error", title="60 x 80, rank 2")
plt.show()
