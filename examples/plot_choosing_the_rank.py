"""
Rank selection
==============

The residual decreases with the rank, even where only noise is left to fit. ``rank="auto"`` compares the errors on held-out
observations and selects the smallest rank whose error is close to the best. With few observations and much noise this need not
be the true rank; then no rank gives an accurate matrix.
"""

import matplotlib.pyplot as plt

import lorank as lr

# %%
# A matrix of rank 4 with different noise levels and numbers of observations.

cases = {
    "many observations, 5 % noise": {"oversampling": 6, "noise": 0.05},
    "many observations, 30 % noise": {"oversampling": 6, "noise": 0.3},
    "few observations, 60 % noise": {"oversampling": 2.5, "noise": 0.6},
}
paths, chosen = {}, {}
for name, options in cases.items():
    problem, truth = lr.datasets.random_completion(300, 250, rank=4, factors="gaussian", seed=2, **options)
    result = lr.solve(problem, rank="auto")
    paths[name], chosen[name] = result.rank_path, result.X.rank
    error = truth.distance(result.X) / truth.norm()
    at_four = truth.distance(lr.solve(problem, rank=4).X) / truth.norm()
    print(f"{name}: rank {result.X.rank}, error of the matrix {error:.3f}; at rank 4 {at_four:.3f}")

# %%
# An alternative for predictions from noisy data is a large rank with learned priors, which shrink the factors that the data
# do not support (``MatrixCompletion``).

figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.2), layout="constrained", sharey=True)
for axis, (name, trials) in zip(axes, paths.items(), strict=True):
    ranks = [one.rank for one in trials]
    axis.semilogy(ranks, [one.residual for one in trials], "s-", color="0.55", label="fitted")
    axis.semilogy(ranks, [one.held_out for one in trials], "o-", label="held out")
    best = next(one for one in trials if one.rank == chosen[name])
    axis.plot(best.rank, best.held_out, "o", ms=12, mfc="none", color="C1", label="selected")
    axis.set(title=name.capitalize().replace(", ", ",\n"), xlabel="rank")
    axis.set_xticks(ranks)
axes[0].set_ylabel("relative error")
axes[0].legend()
plt.show()
