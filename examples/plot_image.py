"""
An image with missing pixels
============================

A photograph is approximately of low rank, so scattered missing pixels can be imputed. Learned priors on the factors
(``MatrixCompletion``) are slightly more accurate than a matrix of fixed rank. A missing rectangle is harder: a low-rank model
uses only the rows and columns that cross it.

The photograph comes with scikit-learn.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import lorank as lr

# %%
# 60 % of the pixels are removed; in the second image a rectangle as well.

photo = load_sample_image("china.jpg")[:400:2, 40:640:2].mean(axis=2) / 255
rng = np.random.default_rng(0)
scattered = rng.random(photo.shape) < 0.4
hole = scattered.copy()
hole[60:100, 120:180] = False


def fill(known):
    rows, cols = np.nonzero(known)
    pairs = np.column_stack([rows, cols])
    model = lr.MatrixCompletion(rank=30, regularization="learned", bounds=(0, 1), shape=photo.shape)
    model.fit(pairs, photo[known])
    everywhere = np.column_stack([axis.ravel() for axis in np.indices(photo.shape)])
    return np.where(known, photo, model.predict(everywhere).reshape(photo.shape))


def decibels(picture, where):
    """Peak signal-to-noise ratio at some pixels."""
    return -10 * np.log10(np.mean((picture - photo)[where] ** 2))


# %%
# For comparison, the best matrix of fixed rank.

with warnings.catch_warnings():
    warnings.simplefilter("ignore", lr.ConvergenceWarning)  # photographs are not exactly of low rank
    fixed = lr.solve(lr.Completion.from_dense(np.where(scattered, photo, np.nan)), rank=12, max_iter=60).X.to_dense()
fixed = np.where(scattered, photo, np.clip(fixed, 0, 1))
filled, with_hole = fill(scattered), fill(hole)
mean = np.full(photo.shape, photo[scattered].mean())
for name, picture in (("mean", mean), ("rank 12", fixed), ("learned priors", filled)):
    print(f"{name}: {decibels(picture, ~scattered):.1f} dB at missing pixels")
print(f"in the hole: {decibels(with_hole, (slice(60, 100), slice(120, 180))):.1f} dB")

# %%

pictures = {
    "40 % of the pixels": np.where(scattered, photo, np.nan),
    "Rank 12": fixed,
    "Learned priors": filled,
    "40 % and a hole": np.where(hole, photo, np.nan),
    "Learned priors, with the hole": with_hole,
    "Original": photo,
}
grey = plt.get_cmap("gray").with_extremes(bad="#5b9bd5")  # missing pixels are blue
figure, axes = plt.subplots(2, 3, figsize=(9.6, 4.9), layout="constrained")
for axis, (title, picture) in zip(axes.flat, pictures.items(), strict=True):
    axis.imshow(picture, cmap=grey, vmin=0, vmax=1)
    axis.set_title(title)
    axis.axis("off")
plt.show()
