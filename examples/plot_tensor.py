"""
Tensor completion
=================

Sea temperatures by latitude, longitude and day form a tensor of order three. A tensor of low multilinear rank has a few
patterns in each mode and a small core: far fewer degrees of freedom than any of its unfoldings into a matrix. This example
recovers a tensor from 2 to 40 % of its entries with :class:`lorank.TensorCompletion` and compares with an unfolding.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# A tensor of multilinear rank (4, 4, 4): four patterns along each mode and a core of 64 numbers. It has 476 degrees of
# freedom and 54 000 entries. Clouds cover half of each day; a part of the remaining entries is observed, with noise.

rng = np.random.default_rng(3)
shape, rank, noise = (30, 45, 40), 4, 0.02
waves = [np.cos(np.outer(np.linspace(0, np.pi, n), np.arange(rank)) + rng.uniform(0, 6, rank)) for n in shape]
core = rng.standard_normal((rank,) * 3) / (1 + np.indices((rank,) * 3).sum(0))
truth = np.einsum("abc,ia,jb,kc->ijk", core, *waves)
truth /= truth.std()
measured = truth + noise * rng.standard_normal(shape)

sky = np.fft.rfftn(rng.standard_normal(shape))
sky[10:-9], sky[:, 10:-9], sky[:, :, 10:] = 0, 0, 0  # clouds are smooth and drift from day to day
sky = np.fft.irfftn(sky, shape, axes=(0, 1, 2))
clear = sky > np.median(sky)

# %%
# ``TensorCompletion.from_dense`` takes an array with nan for missing entries, and ``solve`` returns a :class:`lorank.Tucker`
# tensor. For comparison, ``MatrixCompletion`` completes the unfolding with longitudes as rows, with its learned priors.

warnings.simplefilter("ignore")  # of days without observations
unfold = np.moveaxis(measured, 1, 0).reshape(shape[1], -1)
shares = [0.02, 0.05, 0.1, 0.2, 0.4]
errors = []
for share in shares:
    seen = clear & (rng.random(shape) < 2 * share)
    problem = lr.TensorCompletion.from_dense(np.where(seen, measured, np.nan))
    result = lr.solve(problem, rank=rank)
    tensor = result.X.to_dense()

    known = np.moveaxis(seen, 1, 0).reshape(shape[1], -1)
    model = lr.MatrixCompletion(rank=rank).fit(np.argwhere(known), unfold[known])
    matrix = model.predict(np.argwhere(np.ones(unfold.shape, bool))).reshape(shape[1], shape[0], shape[2])
    matrix = np.moveaxis(matrix, 0, 1)

    hidden = np.linalg.norm(truth[~seen])
    errors.append([np.linalg.norm((one - truth)[~seen]) / hidden for one in (matrix, tensor)])
    print(f"{share:4.0%} observed, {result.status}: relative error {errors[-1][1]:.4f}, unfolding {errors[-1][0]:.4f}")
    if share == 0.05:
        shown = np.where(seen, measured, np.nan), matrix, tensor

# %%
# The tensor has a tenth of the degrees of freedom of the unfolding, so that 5 % of the entries are enough for an error
# below the noise.

print(f"degrees of freedom: {problem.dof((rank,) * 3)} of the tensor, {rank * (45 + 1200 - rank)} of the unfolding")

day = int(np.argmax(np.abs(truth[:, :, 1:]).mean((0, 1)))) + 1
figure, axes = plt.subplot_mosaic("abe;cde", figsize=(9.6, 4.4), layout="constrained", width_ratios=[1, 1, 1.3])
titles = f"Day {day}: observed (5 %)", "Completed unfolding", "Completed tensor", "True temperature"
colours = plt.get_cmap("cividis").with_extremes(bad="#b8bcc2")
for place, title, picture in zip("abcd", titles, (*shown, truth), strict=True):
    image = axes[place].imshow(
        picture[:, :, day], cmap=colours, vmin=truth[:, :, day].min(), vmax=truth[:, :, day].max(), origin="lower"
    )
    axes[place].set(title=title, xticks=[], yticks=[])
    axes[place].spines[:].set_visible(False)
for place in "ac":
    axes[place].set_ylabel("latitude")
for place in "cd":
    axes[place].set_xlabel("longitude")
figure.colorbar(image, ax=[axes["b"], axes["d"]], label="temperature (standardized)")
for name, line in zip(("unfolding", "tensor"), np.array(errors).T, strict=True):
    axes["e"].loglog(shares, line, "o-", label=name)
axes["e"].axhline(noise, color="0.55", ls=":", label="noise of one observation")
axes["e"].minorticks_off()
axes["e"].set_xticks(shares, [f"{share:.0%}" for share in shares])
axes["e"].set(title="Error of missing entries", xlabel="observed share", ylabel="relative error")
axes["e"].legend()
plt.show()
