"""
Watching PRGD and RGD: where weights win, and where they do not
===============================================================

PRGD weights rows and columns by the norms of the gradient there. Where a few rows of the gradient are far larger than the
others, as they are after a spectral start on factors with a large mean, that saves half of the iterations here, and more at
larger sizes (:doc:`/reproduction/README`). With Gaussian factors there is less to balance: exact steps in the plain metric do
as well or better.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr
from lorank.loop.callbacks import TruthError
from lorank.loop.steps import Constant, Exact
from lorank.metrics import Canonical, RowColumn

# %%
# Two matrices of rank 10, from five observations for each degree of freedom.

n, rank = 1000, 10
problems = {
    kind: lr.datasets.random_completion(n, n, rank, oversampling=5, factors=kind, seed=1) for kind in ("uniform", "gaussian")
}
solvers = {
    "PRGD": lr.solvers.RGD(RowColumn(), Constant(0.7)),
    "RGD": lr.solvers.RGD(Canonical(), Constant(0.5)),
    "RGD, exact steps": lr.solvers.RGD(Canonical(), Exact()),
}
curves = {}
for kind, (problem, truth) in problems.items():
    for name, solver in solvers.items():
        errors = TruthError(truth)
        stop = lr.stopping.TruthDistance(truth, 1e-5)
        result = lr.solve(problem, rank, solver, start="spectral", stop=stop, callbacks=[errors], max_iter=200)
        curves[kind, name] = np.array(errors.error)
        print(f"{kind:>9} factors, {name}: {result.n_iter} iterations, {result.status}")

# %%
# How uneven are the rows of the first gradient?

spread = {}
for kind, (problem, _) in problems.items():
    G = problem.gradient(lr.starts.Spectral()(problem, rank, np.random.default_rng(0)))
    norms = np.sqrt(G.row_squares)
    spread[kind] = np.sort(norms / np.median(norms))[::-1]
    print(f"{kind} factors: the largest row of the first gradient is {spread[kind][0]:.1f} times the median one")

# %%

figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
for axis, kind in zip(axes, problems, strict=False):
    for name in solvers:
        axis.semilogy(curves[kind, name], label=name)
    axis.set(title=f"{kind} factors", xlabel="iteration", ylim=(1e-5, 3))
    axis.legend()
axes[0].set_ylabel("relative error")
for kind, norms in spread.items():
    axes[2].loglog(np.arange(1, n + 1), norms, label=kind)
axes[2].set(title="norms of the first gradient's rows", xlabel="rows, the largest first", ylabel="over their median")
axes[2].legend()
plt.show()
