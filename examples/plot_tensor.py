"""
Tensor completion by unfolding
==============================

Sea temperatures by latitude, longitude and day form a tensor of order three. lorank has models for matrices only, but a tensor
can be unfolded into a matrix in three ways: one mode gives the rows, the other two the columns. Each unfolding is of low rank
and can be completed. This example compares the three unfoldings, their mean and median, and a combination of their row spaces,
a first step towards a tensor model in ten lines of NumPy.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# A tensor of multilinear rank (4, 4, 4): four patterns along each mode and a core of 64 numbers. It has 476 degrees of
# freedom and 54 000 entries. Clouds cover half of each day; a part of the remaining entries is observed.

rng = np.random.default_rng(3)
shape, rank = (30, 45, 40), 4
waves = [np.cos(np.outer(np.linspace(0, np.pi, n), np.arange(rank)) + rng.uniform(0, 6, rank)) for n in shape]
core = rng.standard_normal((rank,) * 3) / (1 + np.indices((rank,) * 3).sum(0))
truth = np.einsum("abc,ia,jb,kc->ijk", core, *waves)
truth /= truth.std()
measured = truth + 0.02 * rng.standard_normal(shape)

sky = np.fft.rfftn(rng.standard_normal(shape))
sky[10:-9], sky[:, 10:-9], sky[:, :, 10:] = 0, 0, 0  # clouds are smooth and drift from day to day
sky = np.fft.irfftn(sky, shape, axes=(0, 1, 2))
clear = sky > np.median(sky)


def unfold(array, side):
    return np.moveaxis(array, side, 0).reshape(shape[side], -1)


def fold(matrix, side):
    return np.moveaxis(matrix.reshape(shape[side], *(n for k, n in enumerate(shape) if k != side)), 0, side)


# %%
# **Unfoldings.** All have the same entries and the same rank, few rows and many columns. The more rows, the fewer columns,
# and the more observations per column. With about as many observations per column as the rank, or fewer, regularization is
# essential: hence ``MatrixCompletion`` and not ``solve``. (The rank is known in this example.)
#
# **Row spaces.** The four vectors of each mode are well determined even where the columns are not. The observed entries then
# determine the core by least squares.


def complete(seen):
    guesses, spaces = [], []
    warnings.simplefilter("ignore")  # of columns with few observations or none
    for side in range(3):
        matrix = unfold(np.where(seen, measured, np.nan), side)
        known = ~np.isnan(matrix)
        model = lr.MatrixCompletion(rank=rank).fit(np.argwhere(known), matrix[known])
        guess = model.predict(np.argwhere(np.ones(matrix.shape, bool))).reshape(matrix.shape)
        guesses.append(fold(guess, side))
        spaces.append(np.linalg.svd(guess, full_matrices=False)[0][:, :rank])
    i, j, k = np.nonzero(seen)
    products = np.einsum("na,nb,nc->nabc", spaces[0][i], spaces[1][j], spaces[2][k]).reshape(len(i), -1)
    numbers = np.linalg.lstsq(products, measured[seen])[0].reshape((rank,) * 3)
    together = np.einsum("abc,ia,jb,kc->ijk", numbers, *spaces)
    return [*guesses, np.mean(guesses, 0), np.median(guesses, 0), together]


names = ["by latitude", "by longitude", "by day", "mean", "median", "combined row spaces"]
shares, errors = [0.03, 0.05, 0.1, 0.2, 0.4], []
for share in shares:
    seen = clear & (rng.random(shape) < 2 * share)
    results = complete(seen)
    errors.append([np.linalg.norm((one - truth)[~seen]) / np.linalg.norm(truth[~seen]) for one in results])
    print(f"{share:4.0%} observed:", ", ".join(f"{name} {error:.3f}" for name, error in zip(names, errors[-1], strict=True)))
    if share == 0.1:
        shown = seen, results

# %%
# Each unfolding ignores the structure of its columns and has ten to fifteen times as many degrees of freedom as the tensor.
# From 10 % of the entries on, the median is more accurate than any single unfolding, since their largest errors are in
# different places; the combined row spaces are three to twenty times more accurate than the median. At 5 % the row spaces
# are wrong, with five entries per degree of freedom; a solver that updates row spaces and core together would be needed.
# :doc:`/project/contributing` describes what a manifold of tensors has to implement.

degrees = rank**3 + sum(rank * (n - rank) for n in shape)
unfolded = [rank * (n + truth.size // n - rank) for n in shape]
print(f"degrees of freedom: {degrees} of the tensor; {', '.join(map(str, unfolded))} of its unfoldings")

seen, results = shown
day = int(np.argmax(np.abs(truth[:, :, 1:]).mean((0, 1)))) + 1
figure, axes = plt.subplot_mosaic("abe;cde", figsize=(11, 4.6), layout="constrained", width_ratios=[1, 1, 1.25])
pictures = {
    f"day {day}: observed (10 %)": np.where(seen, measured, np.nan),
    names[1]: results[1],
    names[4]: results[4],
    names[5]: results[5],
}
for place, (title, picture) in zip("abcd", pictures.items(), strict=True):
    axes[place].imshow(picture[:, :, day], cmap="turbo", vmin=truth[:, :, day].min(), vmax=truth[:, :, day].max())
    axes[place].set(title=title, xticks=[], yticks=[])
for name, line in zip(names, np.array(errors).T, strict=True):
    axes["e"].loglog(shares, line, "o-", ms=3, label=name, color="0.7" if name.startswith("by") else None)
axes["e"].minorticks_off()
axes["e"].set_xticks(shares, [f"{share:.0%}" for share in shares])
axes["e"].set(title="relative error of unobserved entries", xlabel="observed share")
axes["e"].legend(fontsize=8)
plt.show()
