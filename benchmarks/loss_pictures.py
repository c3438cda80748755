"""The pictures of docs/losses.md: the shapes of the losses, gross errors, and the stars' thresholds.

python benchmarks/loss_pictures.py docs/images
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import lorank as lr
from lorank.io.figures import use_style
from lorank.losses import Absolute, Cauchy, Huber, Logistic, Ordinal, Poisson, Tukey

INK = {"squares": "C4", "absolute": "C3", "huber": "C2", "cauchy": "C1", "tukey": "C0"}


def shapes(path: Path) -> None:
    """Losses of a residual, and the weight that an observation is left with."""
    d = np.linspace(-8, 8, 401)
    losses = {
        "absolute": Absolute(scale=1.0),
        "huber": Huber(scale=1.0),
        "cauchy": Cauchy(scale=1.0),
        "tukey": Tukey(scale=1.0),
    }
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.4), constrained_layout=True)
    axes[0].plot(d, d**2 / 2, color=INK["squares"], label="squares")
    axes[1].plot(d, 0 * d + 1, color=INK["squares"])
    for name, loss in losses.items():
        axes[0].plot(d, loss.value(np, d, d), color=INK[name], label=name)
        axes[1].plot(d, loss.curvature(np, d, d), color=INK[name])
    axes[0].set(ylim=(0, 12), xlabel="residual / noise", title="Loss")
    axes[1].set(xlabel="residual", title="Weight of an observation")
    axes[0].legend(frameon=False)
    z = np.linspace(-5, 5, 201)
    ordinal = Ordinal((1.0, 2.0, 3.0, 4.0, 5.0), (-2.5, -1.0, 0.3, 2.2))
    for k in range(5):
        axes[2].plot(
            z, ordinal.probabilities(z)[:, k], color=plt.cm.viridis(0.15 + 0.2 * k), label=f"{k + 1} star{'s' if k else ''}"
        )
    axes[2].plot(z, Logistic().mean(z), ":", color="0.5", label="yes (logistic)")
    axes[2].plot(z, Poisson().mean(z) / 20, "--", color="0.5", lw=1, label="count / 20 (Poisson)")
    axes[2].set(ylim=(0, 1), xlabel="entry z of the matrix", title="What an entry means")
    axes[2].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, dpi=110)


def outliers(path: Path) -> None:
    """The error of a fit against the share of gross errors, medians of five seeds."""
    shares = np.array([0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2])
    figure, axis = plt.subplots(figsize=(6, 3.6), constrained_layout=True)
    for name, ink in INK.items():
        errors = []
        for share in shares:
            found = []
            for seed in range(5):
                rng = np.random.default_rng(seed)
                truth = lr.FixedRank.from_factors(rng.standard_normal((200, 3)), rng.standard_normal((150, 3)))
                rows, cols = np.nonzero(rng.random((200, 150)) < 0.35)
                y = truth.entries(rows, cols) + 0.1 * rng.standard_normal(len(rows))
                wrong = rng.random(len(y)) < share
                y[wrong] += 15 * rng.standard_normal(wrong.sum())
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = lr.solve(lr.Completion(rows, cols, y, (200, 150), loss=name), 3, max_iter=200)
                found.append(truth.distance(result.X) / truth.norm())
            errors.append(np.median(found))
        axis.semilogy(100 * shares, errors, "o-", color=ink, label=name)
        print(name, [f"{e:.3f}" for e in errors], flush=True)
    axis.set(xlabel="gross errors, % of the observations", ylabel="relative error of the matrix")
    axis.legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    use_style()
    folder = Path(sys.argv[1])
    shapes(folder / "losses-shapes.png")
    outliers(folder / "losses-outliers.png")
