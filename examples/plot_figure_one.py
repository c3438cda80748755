"""
Figure 1 of the paper at small scale
====================================

Iterations of RGD and PRGD against the size of the matrix, from five observations per degree of freedom. The paper's matrices
have rank 10 and factors uniform on [0, 1], up to n = 20 000; this example ends at n = 3 000 and takes seconds. ``lorank
reproduce completion-size --scale paper`` runs the full experiment: :doc:`/reproduction/README`.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr
from lorank.loop.steps import Constant, Exact
from lorank.metrics import Canonical, RowColumn

# %%
# The paper's two methods, with constant and with exact ("adaptive") steps, and lorank's default. The constant steps are
# those of ``solver="prgd"`` and ``solver="rgd"``, not tuned for these problems.

solvers = {
    "PRGD": lr.solvers.RGD(RowColumn(), Constant(0.7)),
    "adaptive PRGD": lr.solvers.RGD(RowColumn(), Exact()),
    "RGD": lr.solvers.RGD(Canonical(), Constant(0.5)),
    "adaptive RGD": lr.solvers.RGD(Canonical(), Exact()),
    "auto": lr.plans.Auto(),
}
sizes, limit = (500, 1000, 2000, 3000), 300
iterations = {name: [] for name in solvers}
for n in sizes:
    problem, truth = lr.datasets.random_completion(n, n, rank=10, oversampling=5, seed=1)
    for name, solver in solvers.items():
        stop = lr.stopping.TruthDistance(truth, 1e-4)
        result = lr.solve(problem, rank=10, solver=solver, stop=stop, max_iter=limit)
        iterations[name].append(result.n_iter if result.converged else np.nan)
        if n == sizes[-1]:
            print(f"{name:>14}, n = {n}: {result.status} after {result.n_iter} iterations")

# %%
# The results are of a single seed. A line ends where the method did not converge in 300 iterations.

figure, axis = plt.subplots(figsize=(8, 4.4), layout="constrained")
for name, counts in iterations.items():
    axis.loglog(sizes, counts, "o-", label=name)
axis.set(
    xlabel="n",
    ylabel=f"iterations to 1e-4 (at most {limit})",
    title="Rank 10, 5 observations per degree of freedom",
)
axis.set_xticks(sizes, sizes)
axis.minorticks_off()
axis.set_ylim(3, 700)
axis.legend(ncols=3, loc="upper left", fontsize=9)
plt.show()
