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
numbers, errors, recovered = (280, 300, 320, 350, 400, 500, 600), [], table
for tests in numbers:
    rows, cols, weights = pools(tests)
    y = (weights * table[rows, cols]).sum(1)
    result = lr.solve(measured(rows, cols, weights, y), rank, stop=lr.stopping.RelativeResidual(1e-7), max_iter=150)
    errors.append(truth.distance(result.X) / truth.norm())
    recovered = result.X.to_dense() if tests == 400 else recovered
    print(f"{tests} tests for {cells} cells: {result.status}, relative error {errors[-1]:.1e}")

# %%

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9.6, 3.5), layout="constrained", width_ratios=[1, 1, 1.2])
left.imshow(table, cmap="Greys", vmin=0, vmax=2 * table.max(), origin="lower", aspect="auto")
rows, cols, _ = pools(3)
for k, mark in enumerate("os^"):
    left.plot(cols[k], rows[k], mark, color=f"C{k}", ms=6)
left.set(title="Three tests of eight cells", xlabel="substance", ylabel="laboratory")
middle.plot(table.ravel(), recovered.ravel(), ".", ms=2)
middle.set(title="Cells from 400 tests", xlabel="true value", ylabel="recovered value")
right.semilogy(numbers, errors, "o-")
free = rank * (sum(shape) - rank)
right.axvline(free, color="0.55", ls="--", lw=1)
right.annotate(f"{free} degrees of freedom", (free + 36, 1e-2), va="center", color="0.55")
right.set(title="Tests needed", xlabel=f"tests ({cells} cells)", ylabel="relative error", xlim=(240, None))
plt.show()
