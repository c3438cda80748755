"""
Hyperspectral unmixing with missing channels
============================================

A thousand pixels, each with the spectrum of a mixture; the rank of the matrix is the number of substances. Two thirds of the
channels are missing at each pixel, and some are hit by cosmic rays. The robust loss identifies these outliers, ``rank="auto"``
selects the number of substances, and all channels are recovered.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# Four substances with a few bands each, in amounts that vary smoothly over the image.

rng = np.random.default_rng(0)
side, channels, substances = 32, 120, 4
wave = np.linspace(0, 1, channels)
spectra = np.stack(
    [sum(rng.uniform(0.3, 1) * np.exp(-(((wave - rng.random()) / 0.04) ** 2)) for _ in range(4)) for _ in range(substances)]
)
y, x = np.mgrid[:side, :side] / side
amounts = np.stack(
    [np.exp(-((x - a) ** 2 + (y - b) ** 2) / 0.08) for a, b in ((0.2, 0.3), (0.8, 0.2), (0.5, 0.8), (0.8, 0.75))]
).reshape(substances, -1)
truth = amounts.T @ spectra
measured = truth + 0.01 * rng.standard_normal(truth.shape)
seen = rng.random(truth.shape) < 1 / 3
struck = seen & (rng.random(truth.shape) < 0.01)
measured[struck] += rng.uniform(1, 5, struck.sum())

# %%
# First identify outliers with a sufficiently large rank, then select the rank without them.

table = np.where(seen, measured, np.nan)
first = lr.solve(lr.Completion.from_dense(table, loss="robust"), rank=6)
mask = np.zeros(truth.shape, bool)
mask[seen] = first.outliers.mask
print(f"outliers: {mask[struck].mean():.0%} identified, {mask[seen & ~struck].mean():.2%} false positives")
clean = lr.Completion.from_dense(np.where(mask, np.nan, table))
result = lr.solve(clean, rank="auto")
found = result.X.to_dense()
print(f"rank {result.X.rank}; noise {result.noise:.4f} (0.01 was added)")
print(f"relative error of all channels: {np.linalg.norm(found - truth) / np.linalg.norm(truth):.3f}")

# %%
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9.6, 3.6), layout="constrained", width_ratios=[1, 1.5, 1.05])
trials = result.rank_path
left.semilogy([one.rank for one in trials], [one.held_out for one in trials], "o-", label="held out")
left.semilogy([one.rank for one in trials], [one.residual for one in trials], "s-", color="0.55", label="fitted")
left.set(title="Error by rank", xlabel="rank (number of substances)", ylabel="relative error")
left.legend()

pixel = int(np.argmax(struck.sum(1)))
top = 1.25 * truth[pixel].max()
outliers = np.flatnonzero(mask[pixel])
regular = np.where(mask, np.nan, table)[pixel]
middle.plot(wave, truth[pixel], color="0.55", lw=4, alpha=0.6, label="true")
middle.plot(wave, found[pixel], color="C0", label="recovered")
middle.plot(wave, regular, "o", ms=4, color="C2", label="measured")
middle.plot(wave[outliers], np.full(len(outliers), 0.97 * top), "^", color="C1", label="outliers, far above")
middle.set(title="Spectrum of one pixel", xlabel="wavelength (relative)", ylabel="intensity", ylim=(-0.05, 1.5 * top))
middle.legend(fontsize=9, ncols=2, loc="upper center")

image = right.imshow(found[:, int(np.argmax(spectra[0]))].reshape(side, side), cmap="viridis")
right.set(title="One channel, recovered", xticks=[], yticks=[])
right.spines[:].set_visible(False)
figure.colorbar(image, ax=right, label="intensity", shrink=0.7)
plt.show()
