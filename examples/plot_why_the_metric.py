r"""
Condition numbers of the Hessian in two metrics
===============================================

The convergence rate of descent depends on the condition number of :math:`A^* A` on the tangent space at the solution, the
Hessian of the objective. A metric multiplies the Hessian by the inverse of its weights. At a small size its eigenvalues can be
computed densely; this example compares them for even and uneven sampling, in the canonical metric and with weights by counts.
"""

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr
from lorank.loop.callbacks import TruthError
from lorank.loop.steps import Exact
from lorank.metrics import Canonical, Counts

# %%
# The Hessian in a basis of the tangent space that is orthonormal in the metric.


def eigenvalues(truth, rows, cols, left, right):
    """Eigenvalues of A* A on the tangent space at truth, in the metric <L Z R, Z> with diagonals left and right."""
    (n1, n2), r = truth.shape, truth.rank
    U, V = truth.U, truth.V
    spans = [np.kron(np.eye(n1)[i], V[:, k]) for i in range(n1) for k in range(r)]
    spans += [np.kron(U[:, k], np.eye(n2)[j]) for j in range(n2) for k in range(r)]
    weight = np.sqrt(np.outer(left, right)).ravel()
    basis, values, _ = np.linalg.svd(np.array(spans).T * weight[:, None], full_matrices=False)
    basis = basis[:, values > 1e-9 * values[0]] / weight[:, None]
    seen = basis[rows * n2 + cols]
    return np.linalg.eigvalsh(seen.T @ seen)


# %%
# A 60 x 50 matrix of rank 2, a third of it observed, with even and uneven sampling.

rng = np.random.default_rng(0)
shape, rank = (60, 50), 2
truth = lr.FixedRank.from_factors(*(rng.standard_normal((n, rank)) for n in shape))
spectra = {}
for pattern, powers in {"even": (0.0, 0.0), "uneven": (0.6, 0.8)}.items():
    rows, cols = lr.datasets.uneven_pattern(rng, shape, 1000, powers=powers, least=5)
    plain = np.ones(shape[0]), np.ones(shape[1])
    counts = [np.bincount(index, minlength=n) for index, n in zip((rows, cols), shape, strict=True)]
    weights = [c + 0.5 * np.median(c) for c in counts]
    for name, (left, right) in {"canonical": plain, "counts": [w / w.mean() for w in weights]}.items():
        spectra[pattern, name] = eigenvalues(truth, rows, cols, left, right)
        found = spectra[pattern, name]
        print(f"{pattern:>7}, {name:>9}: condition number {found[-1] / found[0]:.0f}")

# %%
# Gradient descent in both metrics, on the uneven pattern.

problem = lr.Completion(rows, cols, truth.entries(rows, cols), shape)
begin = lr.FixedRank.from_factors(
    *(factor + 0.1 * rng.standard_normal(factor.shape) for factor in (truth.U * truth.s, truth.V))
)
descents = {}
for name, metric in {"canonical": Canonical(), "counts": Counts()}.items():
    errors = TruthError(truth)
    solver = lr.solvers.RGD(metric, Exact())
    result = lr.solve(
        problem, rank, solver, start=begin, callbacks=[errors], max_iter=200, stop=lr.stopping.TruthDistance(truth, 1e-6)
    )
    descents[name] = errors.error
    print(f"{name}: {result.n_iter} iterations, {result.status}")

# %%
# Left and middle: all eigenvalues, in increasing order. Weights by counts bring the eigenvalues of uneven sampling together.
# Right: gradient descent with exact steps from a perturbed solution. Its iterations are proportional to the condition number,
# those of conjugate gradients to the square root.

figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.5), layout="constrained")
axes[1].sharey(axes[0])
for axis, pattern in zip(axes, ("even", "uneven"), strict=False):
    for name in ("canonical", "counts"):
        values = spectra[pattern, name]
        axis.semilogy(values / np.median(values), label=f"{name}: {values[-1] / values[0]:.0f}")
    axis.set(title=f"{pattern.capitalize()} sampling", xlabel="index of the eigenvalue", ylim=(0.02, 6))
    axis.legend(title="condition number", loc="lower right", alignment="right")
axes[0].set_ylabel("eigenvalue / median")
for name, errors in descents.items():
    axes[2].semilogy(errors, label=name)
axes[2].set(title="Descent, uneven sampling", xlabel="iteration", ylabel="relative error")
axes[2].legend()
plt.show()
