"""
Binary ratings with the logistic loss
=====================================

Binary data, such as liked or not, bought or not, passed or not, need probabilities. ``loss="logistic"`` fits a low-rank matrix
of logits: the probability of a 1 is ``1 / (1 + exp(-X))``. Least squares on zeros and ones predict values outside [0, 1].

The data are synthetic, so the true probabilities are known.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# 300 people, 200 questions, a third of all answers, logits of rank 2.

rng = np.random.default_rng(0)
people, questions, rank = 300, 200, 2
logits = 1.6 * rng.standard_normal((people, rank)) @ rng.standard_normal((rank, questions))
chance = 1 / (1 + np.exp(-logits))
answers = (rng.random(chance.shape) < chance).astype(float)
rows, cols = np.nonzero(rng.random(chance.shape) < 1 / 3)
hidden = np.ones(chance.shape, bool)
hidden[rows, cols] = False

# %%
# The same observations with both losses.

fits = {
    "logistic": lr.solve(lr.Completion(rows, cols, answers[rows, cols], chance.shape, loss="logistic"), rank),
    "squares": lr.solve(lr.Completion(rows, cols, answers[rows, cols] - 0.5, chance.shape), rank),
}
where = np.nonzero(hidden)
predicted = {"logistic": fits["logistic"].predict(*where), "squares": fits["squares"].X.entries(*where) + 0.5}


def log_loss(p):
    p, yes = np.clip(p, 0.01, 0.99), answers[where]
    return -np.mean(yes * np.log(p) + (1 - yes) * np.log(1 - p))


rmse = {name: np.sqrt(np.mean((p - chance[where]) ** 2)) for name, p in predicted.items()}
for name, p in predicted.items():
    outside = np.mean((p < 0) | (p > 1))
    print(f"{name}: log loss of held-out answers {log_loss(p):.3f}, RMSE {rmse[name]:.3f}, outside [0, 1] {outside:.1%}")
print(f"with the true probabilities: log loss {log_loss(chance[where]):.3f}")

# %%
# Left and middle: predicted against true probabilities of the unobserved answers, shaded where no probability can be. Right:
# the observed frequency of ones against the predicted probability. Calibrated predictions lie on the diagonal.

figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.5), layout="constrained")
edges = np.linspace(-0.3, 1.3, 17)
for k, (axis, (name, p)) in enumerate(zip(axes, predicted.items(), strict=False)):
    axis.plot(chance[where][::8], p[::8], ".", ms=2, alpha=0.4, color=f"C{k}")
    axis.axhspan(-0.6, 0, color="0.5", alpha=0.25, lw=0)
    axis.axhspan(1, 1.6, color="0.5", alpha=0.25, lw=0)
    axis.set(title=f"{name.capitalize()}: RMSE {rmse[name]:.3f}", xlabel="true probability", ylim=(-0.4, 1.4))
    bins = np.digitize(p, edges)
    seen = [b for b in range(1, len(edges)) if (bins == b).sum() > 50]
    axes[2].plot([p[bins == b].mean() for b in seen], [answers[where][bins == b].mean() for b in seen], "o-", label=name)
axes[0].set_ylabel("predicted probability")
axes[2].plot([0, 1], [0, 1], color="0.55", lw=1, ls="-", zorder=0)
axes[2].set(title="Calibration", xlabel="predicted probability", ylabel="observed frequency of ones")
axes[2].legend()
plt.show()
