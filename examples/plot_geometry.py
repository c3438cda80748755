r"""
The geometry in pictures
========================

Symmetric 2 x 2 matrices are points of space: :math:`(a, b, c)` for :math:`\begin{pmatrix} a & b \\ b & c \end{pmatrix}`.
Those of rank 1 are where the determinant vanishes, a cone. A step of Riemannian descent goes along a tangent plane of it and
comes back to the nearest matrix of rank 1: the retraction.
"""

import matplotlib.pyplot as plt
import numpy as np

# %%
# Coordinates in which the cone stands upright: the trace upwards, and the length of the rest beside it.


def place(matrix):
    """A symmetric matrix as a point."""
    return np.array([matrix[0, 0] - matrix[1, 1], 2 * matrix[0, 1], matrix[0, 0] + matrix[1, 1]]) / np.sqrt(2)


def rank_one(angle, size):
    u = np.array([np.cos(angle), np.sin(angle)])
    return size * np.outer(u, u)


def nearest(matrix):
    """The best approximation of rank 1."""
    values, vectors = np.linalg.eigh(matrix)
    k = np.argmax(abs(values))
    return values[k] * np.outer(vectors[:, k], vectors[:, k])


# %%
# One step: the gradient of the squared distance to a target, its projection to the tangent plane, and the way back.

angle, size = 0.35, 1.3
X = rank_one(angle, size)
target = rank_one(1.15, 1.6)
u = np.array([np.cos(angle), np.sin(angle)])
P = np.outer(u, u)
G = X - target
xi = P @ G + G @ P - P @ G @ P  # what of G lies in the tangent space
stepped = X - xi
back = nearest(stepped)
print(f"of the gradient's norm {np.linalg.norm(G):.2f}, {np.linalg.norm(xi):.2f} is along the cone")
moved, step = np.linalg.norm(back - stepped), np.linalg.norm(xi)
print(f"after a step of {step:.2f} the retraction moves by {moved:.2f}; after a tenth of it,", end=" ")
short = X - 0.1 * xi
print(f"by {np.linalg.norm(nearest(short) - short):.4f}: a tenth squared")

# %%

figure = plt.figure(figsize=(7, 5.5), layout="constrained")
axis = figure.add_subplot(projection="3d")
turn, height = np.meshgrid(np.linspace(0, 2 * np.pi, 60), np.linspace(0, 2.2, 20))
cone = np.stack([height * np.cos(turn), height * np.sin(turn), height]) / np.sqrt(2)
axis.plot_surface(*cone, color="tab:blue", alpha=0.18, linewidth=0)
v = np.array([-u[1], u[0]])
along, across = place(P), place(np.outer(u, v) + np.outer(v, u))
s, t = np.meshgrid([-0.6, 0.5], [-0.95, 0.95])
plane = place(X)[:, None, None] + along[:, None, None] * s + across[:, None, None] * t
axis.plot_surface(*plane, color="tab:orange", alpha=0.3, linewidth=0)
for point, colour, name in ((X, "k", "X"), (target, "tab:green", "target"), (back, "tab:red", "next X")):
    axis.scatter(*place(point), color=colour, s=45, depthshade=False)
    x, y, z = place(point)
    axis.text(x, y, z + 0.12, name, color=colour, ha="center")
axis.plot(*np.stack([place(X), place(stepped)], axis=1), color="k", lw=2, label="step in the tangent plane")
axis.plot(*np.stack([place(stepped), place(back)], axis=1), color="tab:red", lw=2, ls=":", label="retraction")
axis.set(xticks=[], yticks=[], zticks=[], title="matrices of rank 1 (blue), a tangent plane (orange)")
axis.view_init(elev=28, azim=100)
axis.set_box_aspect((1, 1, 0.8))
axis.legend(loc="upper left")
plt.show()
