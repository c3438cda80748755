"""Conjugate gradients."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import lorank as lr
from helpers import host, random_array, random_point, random_tangent
from lorank.geometry import FixedRankTransport, riemannian_gradient
from lorank.loop.state import State
from lorank.metrics import RowColumn


def dense_projection(X, Z):
    """Z on the tangent space at X."""
    U, V = host(X.U), host(X.V)
    u, v = U @ U.conj().T, V @ V.conj().T
    return u @ Z + Z @ v - u @ Z @ v


def test_transport_is_the_projection(dtype, backend):
    rng = np.random.default_rng(0)
    X, Y = (random_point(rng, (12, 9), 3, dtype, backend) for _ in range(2))
    xi = random_tangent(rng, X)
    moved = FixedRankTransport(X, Y).vector(xi)
    tolerance = 100 * np.finfo(dtype).eps * xi.norm()
    np.testing.assert_allclose(host(moved.to_dense()), dense_projection(Y, host(xi.to_dense())), atol=tolerance)
    assert np.abs(host(Y.U).conj().T @ host(moved.Up)).max() < tolerance
    assert np.abs(host(Y.V).conj().T @ host(moved.Vp)).max() < tolerance
    np.testing.assert_allclose(host(FixedRankTransport(X, X).vector(xi).to_dense()), host(xi.to_dense()), atol=tolerance)


def test_the_slope_along_a_vector_that_is_not_moved(dtype, backend):
    rng = np.random.default_rng(1)
    X, Y = (random_point(rng, (12, 9), 3, dtype, backend) for _ in range(2))
    xi, G = random_tangent(rng, X), random_array(rng, (12, 9), dtype)
    GV, GhU = G @ host(Y.V), G.conj().T @ host(Y.U)
    seen = SimpleNamespace(GV=backend.asarray(GV), GhU=backend.asarray(GhU), core=host(Y.U).conj().T @ GV)
    expected = np.vdot(G, dense_projection(Y, host(xi.to_dense()))).real
    tolerance = 100 * float(np.finfo(dtype).eps) * xi.norm() * float(np.linalg.norm(G))
    assert FixedRankTransport(X, Y).slope(xi, seen) == pytest.approx(expected, abs=tolerance)
    assert FixedRankTransport(X, Y).vector(xi).inner(seen) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("metric", [lr.metrics.Canonical(), RowColumn()])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_directions_against_their_dense_twin(metric, dtype):
    """Two steps by hand: beta of Polak and Ribiere in the metric, transport by projection, the exact step."""
    problem, _ = lr.datasets.random_completion(14, 11, 2, oversampling=2.5, factors="gaussian", dtype=dtype, seed=2)
    solver = lr.solvers.RCG(metric, restart=-np.inf)
    X = random_point(np.random.default_rng(1), (14, 11), 2, dtype)
    state = State.at(problem, X)
    state = state.with_memory(solver.start(problem, state))
    mask = np.zeros(problem.shape, bool)
    mask[problem.rows, problem.cols] = True

    def inner(a, b):
        return np.vdot(a, b).real

    first = solver.step(problem, state)
    weights, memory = metric.weights(state.gradient, state.memory.metric)
    old = riemannian_gradient(X, state.gradient, weights)
    second = solver.step(problem, first)

    Y, G = first.X, first.gradient
    weights, _ = metric.weights(G, memory)
    new = riemannian_gradient(Y, G, weights).to_dense()
    ambient = np.zeros(problem.shape, dtype)
    ambient[problem.rows, problem.cols] = Y.entries(problem.rows, problem.cols) - problem.y
    beta = inner(ambient, new - dense_projection(Y, old.to_dense())) / old.inner(state.gradient)
    assert beta > 0  # else this test would not show anything
    direction = -new + beta * dense_projection(Y, -old.to_dense())
    alpha = -inner(ambient, direction) / np.linalg.norm(direction[mask]) ** 2
    expected = lr.FixedRank.from_dense(Y.to_dense() + alpha * direction, 2)
    assert second.step == pytest.approx(alpha, rel=1e-9)
    assert expected.distance(second.X) < 1e-10 * expected.norm()


@pytest.mark.parametrize("factors", ["uniform", "gaussian", "ill-scaled"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_residual_never_rises(factors, seed):
    problem, _ = lr.datasets.random_completion(150, 120, 4, oversampling=4, factors=factors, seed=seed)
    residual = lr.solve(problem, 4, "rcg", tol=1e-9).history.residual
    assert (np.diff(residual) <= 0).all()
    assert residual[-1] <= 1e-9


def test_fewer_iterations_than_gradient_descent():
    problem, _ = lr.datasets.random_completion(200, 200, 4, oversampling=4, factors="gaussian", seed=1)
    cg, descent = (lr.solve(problem, 4, name, tol=1e-8, start="spectral", max_iter=1000) for name in ("rcg", "adaptive-rgd"))
    assert cg.converged
    assert descent.converged
    assert 2 * cg.n_iter < descent.n_iter


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_restarts_do_not_depend_on_the_scale_of_the_data(scale):
    problem, _ = lr.datasets.random_completion(80, 70, 3, oversampling=3, seed=1)
    scaled = lr.Completion(problem.rows, problem.cols, scale * problem.y, problem.shape)
    one, two = (lr.solve(p, 3, lr.solvers.RCG(RowColumn()), max_iter=15, tol=0).history.residual for p in (problem, scaled))
    np.testing.assert_allclose(one, two, rtol=1e-5)


def test_few_gaussian_measurements():
    """Seeds on which descent at the rank itself ends in a poor minimum, with a residual of 6e-2, whatever the step."""
    for seed in (1, 7, 10):
        problem, truth = lr.datasets.random_sensing(50, 50, 4, m=461, seed=seed)  # 1.2 for each degree of freedom
        result = lr.solve(problem, 4, "rcg", tol=1e-8, max_iter=1000)
        assert result.converged
        assert truth.distance(result.X) <= 1e-6 * truth.norm()
