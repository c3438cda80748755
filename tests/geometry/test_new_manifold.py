"""A new manifold in its smallest form: polynomials of degree below the rank, a Euclidean space.

``tests/geometry/test_other_manifold.py`` has a curved one, tensors of fixed multilinear rank.
"""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.backends import backend_of


class Polynomial:
    """A point: the coefficients."""

    shape = (1,)

    def __init__(self, c):
        self.c, self.manifold, self.rank, self.dtype, self.backend = c, POLYNOMIALS, len(c), c.dtype, backend_of(c)

    def norm(self):
        return float(np.linalg.norm(self.c))

    def distance(self, other):
        return float(np.linalg.norm(self.c - other.c))

    def is_finite(self):
        return bool(np.isfinite(self.c).all())

    def padded(self, rank):
        return self

    def numpy(self):
        return self


class Step:
    """A tangent vector at X."""

    def __init__(self, X, c):
        self.X, self.c = X, c

    def norm(self):
        return float(np.linalg.norm(self.c))

    def inner(self, G):
        return float(self.c @ G.slope)

    def __mul__(self, t):
        return Step(self.X, float(t) * self.c)

    __rmul__ = __mul__

    def __neg__(self):
        return -1.0 * self

    def __add__(self, other):
        return Step(self.X, self.c + other.c)

    def __sub__(self, other):
        return self + -other


class Polynomials:
    def check_rank(self, rank, shape):
        if not isinstance(rank, int) or rank < 1:
            raise ValueError(f"rank must be a positive integer, got {rank!r}")
        return rank

    def dof(self, shape, rank, dtype):
        return rank

    def zero(self, shape, rank, dtype, backend):
        return Polynomial(np.zeros(rank, dtype))

    def check_point(self, X, shape, rank, dtype, backend):
        if not isinstance(X, Polynomial) or X.rank != rank:
            raise ValueError(f"start must be a Polynomial of rank {rank}")
        return X

    def gradient(self, X, G, weights):
        return Step(X, G.slope)

    def prepare(self, X, G, vectors):
        pass

    def forget(self, xi):
        pass

    def retract(self, xi, alpha):
        return Polynomial(xi.X.c + alpha * xi.c)

    def transport(self, old, X):
        class Identity:
            def vector(self, xi):
                return Step(X, xi.c)

            def slope(self, xi, G):
                return xi.inner(G)

        return Identity()

    def arrays(self, X):
        return {"c": X.c}

    def from_arrays(self, arrays, backend):
        return Polynomial(arrays["c"])


POLYNOMIALS = Polynomials()


class Samples(lr.Problem):
    """Values of a polynomial at given points."""

    manifold = POLYNOMIALS  # the line of registration

    def __init__(self, t, y):
        self.t = t
        super().__init__(y, (1,), operator_scale=len(t))

    def gradient(self, X):
        return SamplesGradient(self, X)

    def initial_point(self, rank, rng):
        return self.zero(rank)


class SamplesGradient:
    def __init__(self, problem, X):
        self.problem, self.X = problem, X
        self.V = np.vander(problem.t, X.rank, increasing=True)
        residual = self.V @ X.c - problem.y
        self.residual_norm, self.slope = float(np.linalg.norm(residual)), self.V.T @ residual

    def at(self, X):
        return SamplesGradient(self.problem, X)

    def squared_image_norm(self, xi):
        return float(((self.V @ xi.c) ** 2).sum())


def case():
    truth = Polynomial(np.array([1.0, -2.0, 0.5]))
    t = np.linspace(-1, 1, 20)
    return Samples(t, np.vander(t, 3, increasing=True) @ truth.c), truth


@pytest.mark.parametrize("solver", ["auto", "rcg", "rgd", "adaptive-rgd"])
def test_it_runs_in_solve(solver):
    problem, truth = case()
    result = lr.solve(problem, 3, solver, tol=1e-10)
    assert result.converged
    assert truth.distance(result.X) < 1e-8


def test_conjugate_gradients_end_after_as_many_steps_as_unknowns():
    problem, _ = case()
    assert lr.solve(problem, 3, "rcg", tol=1e-10).n_iter <= 4


def test_metrics_of_matrices_are_refused_by_name():
    problem, _ = case()
    with pytest.raises(lr.ParameterError, match=r"RowColumn needs a WeightedManifold .*Samples has none"):
        lr.solve(problem, 3, "prgd")
