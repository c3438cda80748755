"""
Phase retrieval of an image with coded diffraction patterns
===========================================================

A detector measures the intensities of a Fourier transform without phases. With random masks in front of the object, a few
exposures determine the image. The measurement operator is applied by FFTs, so no matrix is stored.

The photograph comes with scikit-learn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import lorank as lr

# %%
# Four exposures with masks of entries 1, -1, i, -i.

image = load_sample_image("flower.jpg")[100:356:2, 180:436:2].mean(axis=2) / 255
rng = np.random.default_rng(0)
masks = rng.choice([1, -1, 1j, -1j], (4, *image.shape))
intensities = np.abs(np.fft.fft2(masks * image)) ** 2

# %%
# The solver does not assume that the image is real.

problem = lr.PhaseRetrieval.coded_diffraction(masks, intensities)
result = lr.solve(problem, rank=1, tol=1e-8)
found = result.signal
phase = np.vdot(found, image)
found = (found * phase / abs(phase)).real  # the global phase is not determined
error = lr.phase.phase_distance(result.signal, image + 0j)
print(f"{result.status} after {result.n_iter} iterations, relative error {error:.1e}")

# %%
# With two exposures there are as many intensities as unknown real numbers, and recovery fails.

few = lr.PhaseRetrieval.coded_diffraction(masks[:2], intensities[:2])
lost = lr.solve(few, rank=1, stop=lr.stopping.RelativeResidual(1e-8), max_iter=150)
distance = lr.phase.phase_distance(lost.signal, image + 0j)
print(f"two masks: {lost.status}, relative error {distance:.1e}")

# %%

figure, axes = plt.subplots(1, 4, figsize=(9.6, 2.7), layout="constrained", width_ratios=[1, 1, 1, 1.2])
axes[0].imshow(np.fft.fftshift(np.log1p(intensities[0])), cmap="magma")
axes[0].set_title("One exposure (log)")
axes[1].imshow(found, cmap="gray", vmin=0, vmax=1)
axes[1].set_title("From four exposures")
axes[2].imshow(np.abs(lost.signal), cmap="gray", vmin=0, vmax=1)
axes[2].set_title("From two exposures")
for axis in axes[:3]:
    axis.axis("off")
axes[3].semilogy(result.history.residual, label="four masks")
axes[3].semilogy(lost.history.residual, label="two masks")
axes[3].set(xlabel="iteration", title="Relative residual")
axes[3].legend()
plt.show()
