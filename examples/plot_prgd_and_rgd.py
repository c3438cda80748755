"""
PRGD and RGD: effect of row and column weights
==============================================

PRGD weights rows and columns by the norms of the gradient. After a spectral start on factors with a large mean, a few rows of
the gradient are much larger than the others; then the weights halve the number of iterations in this example, and reduce it
further at larger sizes (:doc:`/reproduction/README`). With Gaussian factors the norms are similar, and exact steps in the
canonical metric are as fast or faster.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr
from lorank.loop.callbacks import TruthError
from lorank.loop.steps import Constant, Exact
from lorank.metrics import Canonical, RowColumn

# %%
# Two matrices of rank 10, with five observations per degree of freedom.

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
# Row norms of the first gradient.

spread = {}
for kind, (problem, _) in problems.items():
    G = problem.gradient(lr.starts.Spectral()(problem, rank, np.random.default_rng(0)))
    norms = np.sqrt(G.squared_norms[0])
    spread[kind] = np.sort(norms / np.median(norms))[::-1]
    print(f"{kind} factors: largest row norm of the first gradient / median {spread[kind][0]:.1f}")

# %%

figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.4), layout="constrained")
for axis, kind in zip(axes, problems, strict=False):
    for name in solvers:
        axis.semilogy(curves[kind, name], label=name)
    axis.set(title=f"{kind.capitalize()} factors", xlabel="iteration", ylim=(1e-5, 3))
    axis.legend()
axes[0].set_ylabel("relative error")
for kind, norms in spread.items():
    axes[2].loglog(np.arange(1, n + 1), norms, label=kind)
axes[2].set(title="Row norms, first gradient", xlabel="row, in decreasing order", ylabel="norm / median")
axes[2].legend()
plt.show()
