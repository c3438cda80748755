"""
Uneven sampling and the counts metric
=====================================

In real data few rows and columns have most of the observations. Gradient descent then converges fast in directions with many
observations and slowly in the others. Weights by the numbers of observations balance the directions; ``auto`` uses them by
default. :doc:`/metrics` explains the metric.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr
from lorank.metrics import Canonical, Counts

# %%
# The same matrix with three sampling patterns; conjugate gradients in the canonical metric and in the counts metric.

rng = np.random.default_rng(0)
shape, rank, m = (1500, 800), 4, 80_000
truth = lr.FixedRank.from_factors(*(rng.standard_normal((n, rank)) for n in shape))
patterns = {"even": (0.0, 0.0), "mild": (0.5, 0.7), "steep": (0.6, 0.8)}
solvers = {"canonical": lr.solvers.RCG(metric=Canonical()), "counts": lr.solvers.RCG(metric=Counts()), "auto": lr.plans.Auto()}
counts, curves = {}, {}
for pattern, powers in patterns.items():
    rows, cols = lr.datasets.uneven_pattern(rng, shape, m, powers=powers, least=2 * rank)
    counts[pattern] = np.sort(np.bincount(rows))[::-1]
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), shape)
    for name, solver in solvers.items():
        stop = lr.stopping.RelativeResidual(1e-6)
        result = lr.solve(problem, rank, solver, start="staged", stop=stop, max_iter=150)
        curves[pattern, name] = result.history.residual
        print(f"{pattern:>6}, {name:>9}: {result.n_iter:3d} iterations, {result.status}")

# %%

figure, axes = plt.subplots(2, 2, figsize=(9, 5.6), layout="constrained")
axes = axes.ravel()
for pattern, numbers in counts.items():
    axes[0].loglog(np.arange(1, len(numbers) + 1), numbers, label=pattern)
axes[0].set(title="Observations per row", xlabel="row, in decreasing order", ylabel="observations")
axes[0].legend()
for axis, pattern in zip(axes[1:], patterns, strict=True):
    for name in solvers:
        axis.semilogy(curves[pattern, name], label=name)
    axis.set(title=f"{pattern.capitalize()} sampling", xlabel="iteration", ylabel="relative residual", ylim=(5e-7, 2))
axes[1].legend()
plt.show()
