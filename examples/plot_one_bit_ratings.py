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


for name, p in predicted.items():
    error = np.sqrt(np.mean((p - chance[where]) ** 2))
    outside = np.mean((p < 0) | (p > 1))
    print(f"{name}: log loss of held-out answers {log_loss(p):.3f}, RMSE {error:.3f}, outside [0, 1] {outside:.1%}")
print(f"with the true probabilities: log loss {log_loss(chance[where]):.3f}")

# %%
# Calibration: observed frequency against predicted probability. Calibrated predictions lie on the diagonal.

figure, axis = plt.subplots(figsize=(5, 4), layout="constrained")
edges = np.linspace(-0.3, 1.3, 17)
for name, p in predicted.items():
    bins = np.digitize(p, edges)
    seen = [k for k in range(1, len(edges)) if (bins == k).sum() > 50]
    axis.plot([p[bins == k].mean() for k in seen], [answers[where][bins == k].mean() for k in seen], "o-", label=name)
axis.plot([0, 1], [0, 1], color="0.55", zorder=0)
axis.set(xlabel="predicted", ylabel="observed frequency", title="held-out answers")
axis.legend()
plt.show()
