"""
Choosing the rank
=================

The residual falls with every rank, also where there is only noise left to fit. Observations that were held back tell how far
the data go, and of ranks that predict about equally well the smallest is taken. With few observations and much noise that
need not be the true one: there no rank predicts well, and the matrix is not found at either.
"""

import matplotlib.pyplot as plt

import lorank as lr

# %%
# A matrix of rank 4, under three circumstances.

cases = {
    "plenty, 5 % noise": {"oversampling": 6, "noise": 0.05},
    "plenty, 30 % noise": {"oversampling": 6, "noise": 0.3},
    "few, 60 % noise": {"oversampling": 2.5, "noise": 0.6},
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
# For predictions from noisy data there is a second answer: keep the rank large and let learned priors shrink what the data do
# not support (``MatrixCompletion``).

figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained", sharey=True)
for axis, (name, trials) in zip(axes, paths.items(), strict=True):
    ranks = [one.rank for one in trials]
    axis.semilogy(ranks, [one.residual for one in trials], "s-", color="0.6", label="fitted")
    axis.semilogy(ranks, [one.held_out for one in trials], "o-", label="held back")
    best = next(one for one in trials if one.rank == chosen[name])
    axis.plot(best.rank, best.held_out, "o", ms=12, mfc="none", color="tab:red", label="chosen")
    axis.set(title=name, xlabel="rank")
    axis.set_xticks(ranks)
axes[0].set_ylabel("relative error")
axes[0].legend()
plt.show()
