"""
Robust completion of an unevenly sampled matrix
===============================================

A matrix of rank 4 is recovered from 15 % of its entries. Rows and columns are sampled unevenly, and 5 % of the observations
are corrupted. ``loss="robust"`` recovers the matrix and identifies the corrupted observations.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# Smooth factors, so that the structure of the matrix is visible.

rng = np.random.default_rng(3)
n, rank = 300, 4
t = np.linspace(0, 1, n)
left = np.stack([np.sin((k + 1) * np.pi * t + rng.uniform(0, 6)) for k in range(rank)], axis=1)
right = np.stack([np.cos((k + 1.5) * np.pi * t + rng.uniform(0, 6)) for k in range(rank)], axis=1)
truth = left * np.linspace(2, 1, rank) @ right.T

# %%
# Uneven sampling, noise, and corrupted entries.

often = rng.permutation(np.geomspace(1, 0.3, n))
rows, cols = np.nonzero(rng.random((n, n)) < 0.15 * np.outer(often, often) / np.mean(often) ** 2)
values = truth[rows, cols] + 0.01 * rng.standard_normal(len(rows))
wrong = rng.random(len(rows)) < 0.05
values[wrong] = rng.uniform(-5, 5, wrong.sum())

result = lr.solve(lr.Completion(rows, cols, values, truth.shape, loss="robust"), rank)
found = result.X.to_dense()
error = np.linalg.norm(found - truth) / np.linalg.norm(truth)
print(f"{len(rows):,} of {n * n:,} entries, {wrong.sum()} of them corrupted")
print(f"relative error {error:.1e}; {result.outliers.mask[wrong].mean():.0%} of the corrupted entries were identified")

# %%

seen = np.full(truth.shape, np.nan)
seen[rows, cols] = values
figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.5), layout="constrained")
for axis, picture, title in zip(
    axes, (seen, found, truth), ("Observed entries", "Recovered matrix", "True matrix"), strict=True
):
    axis.imshow(picture, cmap="RdBu_r", vmin=-4, vmax=4, interpolation="nearest")
    axis.set(title=title, xticks=[], yticks=[], facecolor="#d9dce0")
    axis.spines[:].set_visible(False)
plt.show()
