"""
Multi-task regression
=====================

Many small regressions whose coefficients are combinations of a few common directions: the matrix of coefficients, features x
tasks, is of low rank. Fitted together they need fewer samples each than regressions on their own, and than a ridge penalty with
the best strength.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV

import lorank as lr

# %%
# Sample i belongs to task ``task[i]``: ``y_i = a_i^T W[:, task_i]``.


def regressions(A, task, y, tasks):
    def forward(left, right):
        return ((A @ left) * right[task]).sum(1)

    def adjoint(p):
        W = np.zeros((tasks, A.shape[1]))
        np.add.at(W, task, p[:, None] * A)
        return W.T

    return lr.Sensing.from_functions(forward, adjoint, y, (A.shape[1], tasks), check=True)


# %%
# 80 tasks with 40 features and coefficients of rank 3; noise of half the standard deviation of the responses. The errors are
# those of the coefficients.

rng = np.random.default_rng(0)
features, tasks, rank, noise = 40, 80, 3, 0.5
W = rng.standard_normal((features, rank)) @ rng.standard_normal((rank, tasks)) / np.sqrt(rank * features)
sizes = (14, 20, 30, 50, 80)
errors = {"low rank, all tasks together": [], "ridge, each task": [], "ridge, one model for all": []}
for samples in sizes:
    task = np.repeat(np.arange(tasks), samples)
    A = rng.standard_normal((len(task), features))
    y = (A * W[:, task].T).sum(1) + noise * rng.standard_normal(len(task))
    result = lr.solve(regressions(A, task, y, tasks), rank)
    strengths = np.logspace(-2, 4, 25)
    each = [RidgeCV(strengths, fit_intercept=False).fit(A[task == t], y[task == t]).coef_ for t in range(tasks)]
    common = RidgeCV(strengths, fit_intercept=False).fit(A, y).coef_
    for label, found in zip(errors, (result.X.to_dense(), np.array(each).T, common[:, None]), strict=True):
        errors[label].append(np.linalg.norm(found - W) / np.linalg.norm(W))
    print(
        f"{samples} samples per task: "
        + ", ".join(f"{label} {e[-1]:.2f}" for label, e in errors.items())
        + f"; {result.status}"
    )

# %%
# A matrix of rank 3 has 351 degrees of freedom, 4.4 per task, where a regression on its own has 40.

figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for (label, e), mark in zip(errors.items(), "os^", strict=True):
    axis.semilogx(sizes, e, mark + "-", label=label)
axis.axvline(features, color="0.6", ls="--", lw=1)
axis.annotate("samples = features", (features * 0.98, 0.24), rotation=90, ha="right", va="bottom", color="0.45", fontsize=9)
axis.set(
    xlabel="samples per task",
    ylabel="relative error of the coefficients",
    title="Coefficients of 80 regressions",
    ylim=(0, 1.05),
)
axis.set_xticks(sizes, [str(k) for k in sizes])
axis.minorticks_off()
axis.legend(fontsize=9, loc="lower left")
plt.show()
