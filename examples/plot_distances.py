"""
Distance matrices and sensor networks
=====================================

Squared distances of points are linear in their Gram matrix X: ``|x_i - x_j|^2 = X_ii + X_jj - 2 X_ij``. X is positive
semidefinite and its rank is the dimension, so that some of the distances give all positions, up to a rotation and a shift. Ten
lines define the model. From distances of random pairs, descent on X recovers positions where least squares on the positions
(SciPy) stops at a local minimum. In a sensor network, where only neighbors measure their distance, SciPy is more accurate.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from scipy.optimize import least_squares
from scipy.sparse.csgraph import shortest_path

import lorank as lr


class Distances(lr.problems.MatrixProblem):
    """Squared distances of the pairs (i, j) of n points."""

    manifold = lr.geometry.SEMIDEFINITE

    def __init__(self, i, j, y, n):
        self.i, self.j = i, j
        super().__init__(y, (n, n), operator_scale=4 * len(y) / n**2)

    def forward(self, left, right):
        return ((left[self.i] - left[self.j]) * (right[self.i] - right[self.j])).sum(1)

    def adjoint(self, p):
        S = sp.csr_array((-p, (self.i, self.j)), self.shape)
        return S + S.T - sp.diags_array((S + S.T).sum(1))


# %%
# Both methods begin at classical scaling of the shortest paths. ``error`` is relative, after the best rotation and shift.


def scaling(i, j, distances, n, dimension):
    D = shortest_path(sp.csr_array((distances, (i, j)), (n, n)), directed=False) ** 2
    D = D - D.mean(0)
    values, vectors = np.linalg.eigh(-(D - D.mean(1)[:, None]) / 2)
    return vectors[:, -dimension:] * np.sqrt(values[-dimension:])


def aligned(found, truth):
    a, b = found - found.mean(0), truth - truth.mean(0)
    u, _, vt = np.linalg.svd(a.T @ b)
    return a @ (u @ vt) + truth.mean(0)


def error(found, truth):
    return np.linalg.norm(aligned(found, truth) - truth) / np.linalg.norm(truth - truth.mean(0))


def by_lorank(i, j, distances, start):
    problem, X = Distances(i, j, distances**2, len(start)), lr.FixedRank.semidefinite(start)
    X = lr.solve(
        problem, start.shape[1], "rcg", start=X, stop=lr.stopping.Iterations(300) | lr.stopping.RelativeResidual(1e-6)
    ).X
    return X.U * np.sqrt(X.s)


def by_scipy(i, j, distances, start):
    size, rows, one = (len(i), len(start)), np.arange(len(i)), np.ones(len(i))
    difference = sp.csr_array((one, (rows, i)), size) - sp.csr_array((one, (rows, j)), size)
    order = np.arange(start.size).reshape(start.shape[::-1]).T.ravel()

    def steps(x):
        step = difference @ x.reshape(start.shape)
        return step, np.linalg.norm(step, axis=1)

    def jacobian(x):
        step, length = steps(x)
        return sp.hstack([difference * c[:, None] for c in (step / (length * distances)[:, None]).T]).tocsr()[:, order]

    relative = least_squares(lambda x: steps(x)[1] / distances - 1, start.ravel(), jacobian, x_scale="jac", max_nfev=100)
    return relative.x.reshape(start.shape)


# %%
# Exact distances of random pairs of 150 points in space, five draws each. With about 12 % of the pairs, least squares on the
# positions stops at local minima; with fewer pairs both fail in most draws.

n = 150
first, second = np.triu_indices(n, 1)
numbers, recovered = (1000, 1100, 1200, 1300, 1500, 1800), {"lorank, on X": [], "SciPy, on positions": []}
for m in numbers:
    good = np.zeros(2, int)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        points, pairs = rng.random((n, 3)), rng.permutation(len(first))[:m]
        i, j = first[pairs], second[pairs]
        distances = np.linalg.norm(points[i] - points[j], axis=1)
        start = scaling(i, j, distances, n, 3)
        good += [error(method(i, j, distances, start), points) < 1e-3 for method in (by_lorank, by_scipy)]
    for label, number in zip(recovered, good, strict=True):
        recovered[label].append(number)
    print(f"{m} of {len(first)} distances: lorank recovers {good[0]} of 5, SciPy {good[1]}")

# %%
# Distances of neighbors among 150 sensors in the plane, with noise of 2 % of each. SciPy weights the errors by the distance; on
# X such weights worsen the condition of the problem, so that the squared distances have equal weights.

rng = np.random.default_rng(0)
plane = rng.random((n, 2))
close = np.flatnonzero(np.linalg.norm(plane[first] - plane[second], axis=1) < 0.22)
i, j = first[close], second[close]
distances = np.linalg.norm(plane[i] - plane[j], axis=1) * (1 + 0.02 * rng.standard_normal(len(close)))
start = scaling(i, j, distances, n, 2)
found = {"start": start, "lorank": by_lorank(i, j, distances, start), "SciPy": by_scipy(i, j, distances, start)}
print("sensor network: " + ", ".join(f"error {error(a, plane):.4f} ({label})" for label, a in found.items()))

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained", width_ratios=[1.3, 1])
for (label, number), mark in zip(recovered.items(), "os", strict=True):
    left.plot(np.array(numbers) / len(first), np.array(number) / 5, mark + "-", label=label)
left.set(xlabel="share of the distances that is known", ylabel="share of five draws", title="Recovered from random pairs")
left.legend()
ends = aligned(found["SciPy"], plane)
right.plot(*plane[np.stack([i, j])].transpose(2, 0, 1), color="0.5", alpha=0.25, lw=0.5)
right.plot(*np.stack([plane, ends]).transpose(2, 0, 1), color="C1", lw=2)
right.plot(*plane.T, "o", ms=5, mfc="none", color="0.45")
right.plot(*ends.T, ".", ms=3, color="C0")
errors = ", ".join(f"{label} {error(found[label], plane):.4f}" for label in ("lorank", "SciPy"))
right.set(title=f"Sensor network, found by SciPy\nerror: {errors}", xticks=[], yticks=[], aspect="equal")
plt.show()
