r"""
Geometry of fixed-rank matrices
===============================

Symmetric 2 x 2 matrices form a three-dimensional space with coordinates :math:`(a, b, c)` of :math:`\begin{pmatrix} a & b \\ b
& c \end{pmatrix}`. The matrices of rank 1 have determinant zero and form a cone. A step of Riemannian descent moves in the
tangent plane of the cone; the retraction maps the result to the nearest matrix of rank 1.
"""

import matplotlib.pyplot as plt
import numpy as np

# %%
# Coordinates in which the trace is the vertical axis of the cone.


def place(matrix):
    """Coordinates of a symmetric matrix."""
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
# One step: the gradient of the squared distance to a target, its projection onto the tangent plane, and the retraction.

angle, size = 0.35, 1.3
X = rank_one(angle, size)
target = rank_one(1.15, 1.6)
u = np.array([np.cos(angle), np.sin(angle)])
P = np.outer(u, u)
G = X - target
xi = P @ G + G @ P - P @ G @ P  # projection of G onto the tangent space
stepped = X - xi
back = nearest(stepped)
print(f"norm of the gradient {np.linalg.norm(G):.2f}, of its projection {np.linalg.norm(xi):.2f}")
moved, step = np.linalg.norm(back - stepped), np.linalg.norm(xi)
print(f"distance moved by the retraction: {moved:.2f} after a step of {step:.2f},", end=" ")
short = X - 0.1 * xi
print(f"{np.linalg.norm(nearest(short) - short):.4f} after a tenth of it (second order)")

# %%

figure = plt.figure(figsize=(7, 4.6), layout="constrained")
axis = figure.add_subplot(projection="3d")
turn, height = np.meshgrid(np.linspace(0, 2 * np.pi, 60), np.linspace(0, 2.2, 20))
cone = np.stack([height * np.cos(turn), height * np.sin(turn), height]) / np.sqrt(2)
axis.plot_surface(*cone, color="C0", alpha=0.25, linewidth=0)
v = np.array([-u[1], u[0]])
along, across = place(P), place(np.outer(u, v) + np.outer(v, u))
s, t = np.meshgrid([-0.6, 0.5], [-0.95, 0.95])
plane = place(X)[:, None, None] + along[:, None, None] * s + across[:, None, None] * t
axis.plot_surface(*plane, color="C1", alpha=0.3, linewidth=0)
for point, colour, name in ((X, "0.5", "X"), (target, "C2", "target"), (back, "C3", "next X")):
    axis.scatter(*place(point), color=colour, s=45, depthshade=False)
    x, y, z = place(point)
    axis.text(x, y, z + 0.12, name, color=colour, ha="center")
axis.plot(*np.stack([place(X), place(stepped)], axis=1), color="0.5", lw=2, label="step in the tangent plane")
axis.plot(*np.stack([place(stepped), place(back)], axis=1), color="C3", lw=2, ls=":", label="retraction")
axis.set_axis_off()
axis.set(title="Matrices of rank 1 (blue) and a tangent plane (orange)")
axis.view_init(elev=28, azim=100)
axis.set_box_aspect((1, 1, 0.8), zoom=1.4)
axis.legend(loc="lower left")
plt.show()
