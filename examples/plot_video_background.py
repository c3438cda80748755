"""
Background subtraction in a video
=================================

With a static camera and one frame per column, the background of a video is a matrix of low rank, and moving objects are sparse
outliers. ``loss="robust"`` separates them: X is the background, and ``result.outliers`` marks the covered pixels.

The video is synthetic: a wall in changing light, a ball, and a person who walks by.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# 80 frames of 48 x 64 pixels. Two lamps with different flicker give a background of rank 2.

rng = np.random.default_rng(0)
height, width, frames = 48, 64, 80
y, x = np.mgrid[:height, :width]
lamps = [np.exp(-((x - a) ** 2 + (y - b) ** 2) / 900.0) for a, b in ((15, 10), (50, 30))]
light = np.stack([1 + 0.2 * np.sin(0.3 * np.arange(frames)), 0.8 + 0.3 * np.cos(0.17 * np.arange(frames))])
background = np.stack([lamp.ravel() for lamp in lamps], axis=1) @ light

clip, moving = background.copy(), np.zeros(background.shape, bool)
for k in range(frames):
    ball = (x - (5 + 0.8 * k)) ** 2 + (y - (24 + 14 * np.sin(k / 6))) ** 2 < 25
    person = (abs(x - (70 - 1.1 * k)) < 3) & (y > 22)
    moving[:, k] = (ball | person).ravel()
    clip[ball.ravel(), k], clip[person.ravel(), k] = 1.6, 0.05
clip += 0.005 * rng.standard_normal(clip.shape)

# %%
# All pixels are observed.

result = lr.solve(lr.Completion.from_dense(clip, loss="robust"), rank=2)
found, still = result.outliers.mask.reshape(clip.shape), result.X.to_dense()
squares = np.linalg.svd(clip, full_matrices=False)
squares = (squares[0][:, :2] * squares[1][:2]) @ squares[2][:2]


def background_error(estimate):
    return np.linalg.norm(estimate - background) / np.linalg.norm(background)


print(f"error of the background: robust {background_error(still):.1e}, least squares (SVD) {background_error(squares):.1e}")
share, others = found[moving].mean(), found[~moving].mean()
print(f"covered pixels: {moving.mean():.1%} of all; {share:.1%} identified, {others:.2%} false positives")

# %%
# One frame, its background by least squares (with ghosts) and by the robust loss, and the outliers.

k = 36
panels = {
    "Frame": clip[:, k],
    "Least squares": squares[:, k],
    "Robust": still[:, k],
    "Outliers": found[:, k],
}
figure, axes = plt.subplots(1, 4, figsize=(9.6, 2.3), layout="constrained")
for axis, (title, picture) in zip(axes, panels.items(), strict=True):
    axis.imshow(picture.reshape(height, width), cmap="gray", vmin=0, vmax=1.0 if picture.dtype == bool else 1.6)
    axis.set_title(title)
    axis.axis("off")
plt.show()
