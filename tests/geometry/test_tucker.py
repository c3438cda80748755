"""Tensors of fixed multilinear rank against dense tensors."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.geometry import DiagonalWeight, TuckerTangent, Weights
from lorank.geometry.tucker import except_mode, multiply, unfold

SHAPE, RANK = (7, 6, 5), (3, 2, 2)
CASES = {"order 3": (SHAPE, RANK), "order 4": ((5, 6, 4, 3), (2, 3, 2, 2)), "full mode": ((6, 2, 5), (3, 2, 2))}


@pytest.fixture(params=CASES, ids=list(CASES))
def point(request):
    shape, rank = CASES[request.param]
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((n, r)) for n, r in zip(shape, rank, strict=True)]
    return lr.Tucker.from_factors(rng.standard_normal(rank), factors)


class Dense:
    """The products of a dense tensor with a point."""

    def __init__(self, X, z):
        transposed = [u.T for u in X.factors]
        self.core = multiply(z, transposed)
        self.modes = [unfold(multiply(z, except_mode(k, transposed)), k) @ unfold(X.core, k).T for k in range(len(X.shape))]


def dense(xi):
    total = multiply(xi.core, xi.X.factors)
    for k, change in enumerate(xi.factors):
        total = total + multiply(xi.X.core, [change if j == k else u for j, u in enumerate(xi.X.factors)])
    return total


def spanning(X):
    """A basis of the tangent space as columns of vectors, from derivatives in all parameters."""
    columns = []
    for k, u in enumerate(X.factors):
        for position in np.ndindex(u.shape):
            change = np.zeros(u.shape)
            change[position] = 1
            columns.append(multiply(X.core, [change if j == k else v for j, v in enumerate(X.factors)]).ravel())
    for position in np.ndindex(X.core.shape):
        change = np.zeros(X.core.shape)
        change[position] = 1
        columns.append(multiply(change, X.factors).ravel())
    left, s, _ = np.linalg.svd(np.stack(columns, axis=1), full_matrices=False)
    return left[:, s > 1e-10 * s[0]]


def test_the_dimension_of_the_tangent_space_is_the_degrees_of_freedom(point):
    assert spanning(point).shape[1] == point.manifold.dof(point.shape, point.rank, float)


def test_the_euclidean_gradient_is_the_orthogonal_projection(point):
    z = np.random.default_rng(1).standard_normal(point.shape)
    xi = point.manifold.gradient(point, Dense(point, z), Weights())
    Q = spanning(point)
    np.testing.assert_allclose(dense(xi).ravel(), Q @ (Q.T @ z.ravel()), atol=1e-10)
    assert xi.norm() == pytest.approx(np.linalg.norm(dense(xi)))
    assert xi.inner(Dense(point, z)) == pytest.approx(np.vdot(dense(xi), z))


def test_the_weighted_gradient_represents_the_slope_in_its_metric(point):
    rng = np.random.default_rng(2)
    z = rng.standard_normal(point.shape)
    modes = [rng.random(n) + 0.2 for n in point.shape]
    weights = Weights(tuple(DiagonalWeight(w) for w in modes))
    xi = point.manifold.gradient(point, Dense(point, z), weights)
    Q = spanning(point)
    metric = multiply(np.ones(point.shape), [np.diag(w) for w in modes]).ravel()
    expected = Q @ np.linalg.solve(Q.T @ (metric[:, None] * Q), Q.T @ z.ravel())
    np.testing.assert_allclose(dense(xi).ravel(), expected, atol=1e-9)
    for u, change in zip(point.factors, xi.factors, strict=True):
        np.testing.assert_allclose(u.T @ change, 0, atol=1e-10)


def test_retraction_agrees_with_the_step_to_second_order(point):
    z = np.random.default_rng(3).standard_normal(point.shape)
    xi = point.manifold.gradient(point, Dense(point, z), Weights())
    off = []
    for t in (1e-2, 1e-3):
        moved = point.manifold.retract(xi, t)
        assert moved.rank == point.rank
        for u in moved.factors:
            np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), atol=1e-12)
        off.append(np.linalg.norm(moved.to_dense() - point.to_dense() - t * dense(xi)))
    assert off[1] < 0.02 * off[0]


def test_transport_is_the_projection_to_the_new_tangent_space(point):
    rng = np.random.default_rng(4)
    z, g = rng.standard_normal(point.shape), rng.standard_normal(point.shape)
    xi = point.manifold.gradient(point, Dense(point, z), Weights())
    X = point.manifold.retract(xi, 0.3)
    moved = point.manifold.transport(point, X)
    Q = spanning(X)
    np.testing.assert_allclose(dense(moved.vector(xi)).ravel(), Q @ (Q.T @ dense(xi).ravel()), atol=1e-10)
    assert moved.slope(xi, Dense(X, g)) == pytest.approx(np.vdot(dense(moved.vector(xi)), g))


def test_sums_of_tangent_vectors_are_those_of_their_dense_tensors(point):
    rng = np.random.default_rng(5)
    a, b = (point.manifold.gradient(point, Dense(point, rng.standard_normal(point.shape)), Weights()) for _ in range(2))
    np.testing.assert_allclose(dense(2.0 * a - b + -a), dense(a) - dense(b), atol=1e-12)
    whole = TuckerTangent.project(point, a.core, [u + v for u, v in zip(a.factors, point.factors, strict=True)])
    np.testing.assert_allclose(dense(whole), dense(a) + len(point.shape) * point.to_dense(), atol=1e-10)


def test_distances_between_close_tensors_are_accurate(point):
    z = np.random.default_rng(6).standard_normal(point.shape)
    xi = point.manifold.gradient(point, Dense(point, z), Weights())
    close = point.manifold.retract(xi, 1e-11)
    assert point.distance(close) == pytest.approx(1e-11 * xi.norm(), rel=1e-3)


def test_entries_are_those_of_the_dense_tensor(point):
    indices = np.argwhere(np.ones(point.shape))
    np.testing.assert_allclose(point.entries(*indices.T), point.to_dense().ravel(), atol=1e-12)
    with pytest.raises(lr.ParameterError, match="indices"):
        point.entries(*[[99]] * len(point.shape))
    with pytest.raises(lr.ParameterError, match="indices"):
        point.entries([0])


def test_truncation_of_a_dense_tensor_of_that_rank_is_exact(point):
    again = lr.Tucker.from_dense(point.to_dense(), point.rank)
    assert again.distance(point) < 1e-12 * point.norm()


def test_directions_without_a_core_have_no_gradient():
    X = lr.Tucker.from_factors(
        np.eye(2)[:, :, None] * np.array([1.0, 0.0])[:, None, None], [np.eye(4)[:, :2]] * 2 + [np.ones((3, 1))]
    )
    xi = X.manifold.gradient(X, Dense(X, np.ones(X.shape)), Weights())
    assert all(np.isfinite(u).all() for u in xi.factors)


@pytest.mark.parametrize(
    "change",
    [
        lambda X: "no point",
        lambda X: lr.Tucker(X.core[:1], [X.factors[0][:, :1], *X.factors[1:]]),
        lambda X: lr.Tucker(X.core * np.nan, X.factors),
        lambda X: lr.Tucker(X.core, [2 * u for u in X.factors]),
    ],
    ids=["type", "rank", "nan", "not orthonormal"],
)
def test_invalid_points_are_refused(point, change):
    with pytest.raises(lr.ParameterError, match="start"):
        point.manifold.check_point(change(point), point.shape, point.rank, np.float64, point.backend)
