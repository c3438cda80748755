"""
Robust completion with outliers
===============================

Least squares are sensitive to single gross errors. ``loss="robust"`` identifies outliers and excludes them, up to a share that
depends on the number of observations per degree of freedom. ``loss="huber"`` bounds the influence of outliers, which suffices
if they are few.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# A matrix of rank 3 with little noise, eight observations per degree of freedom, and an increasing share of outliers.

rng = np.random.default_rng(0)
shape, rank = (200, 150), 3
truth = lr.FixedRank.from_factors(*(rng.standard_normal((n, rank)) for n in shape))
m = 8 * rank * (sum(shape) - rank)
rows, cols = lr.datasets.sample_pattern(rng, shape, m)
clean = truth.entries(rows, cols) + 0.02 * rng.standard_normal(m)
shares, losses = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5), ("squares", "huber", "robust")
errors = {loss: [] for loss in losses}
for share in shares:
    wrong = rng.random(m) < share
    values = np.where(wrong, rng.uniform(-20, 20, m), clean)
    for loss in losses:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of outliers and of slow convergence
            result = lr.solve(lr.Completion(rows, cols, values, shape, loss=loss), rank, max_iter=200)
        errors[loss].append(truth.distance(result.X) / truth.norm())
        if loss == "robust" and share in (0.2, 0.4, 0.5):
            mask = result.outliers.mask
            print(f"{share:.0%} outliers: {mask[wrong].mean():.1%} identified, {mask[~wrong].mean():.2%} false positives")

# %%

figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
for loss in losses:
    axis.semilogy([100 * share for share in shares], errors[loss], "o-", label=loss)
axis.set(
    xlabel="outliers among the observations, %",
    ylabel="relative error of the matrix",
    title="200 x 150 matrix of rank 3 with outliers",
)
axis.legend()
plt.show()
