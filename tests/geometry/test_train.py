"""Tensor trains against dense tensors."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.geometry import TRAIN, DenseWeight, DiagonalWeight, TensorTrain, TrainTangent, Weights
from lorank.geometry.train import TrainProducts, dense_train, rounded

CASES = {
    "order 3": ((7, 6, 5), (3, 2)),
    "order 4": ((5, 6, 4, 3), (2, 4, 3)),
    "full ranks": ((2, 5, 3, 6), (2, 4, 6)),
    "order 6": ((3, 2, 3, 2, 3, 2), (2, 3, 3, 2, 2)),
}


def drawn(shape, rank, seed=0):
    rng = np.random.default_rng(seed)
    return TensorTrain([rng.standard_normal(sides) for sides in zip((1, *rank), shape, (*rank, 1), strict=True)])


@pytest.fixture(params=CASES, ids=list(CASES))
def point(request):
    return drawn(*CASES[request.param])


class Dense:
    """The products of a dense tensor with a train, from its interfaces as matrices."""

    def __init__(self, X, z):
        self.cores = []
        for k in range(len(X.shape)):
            left, right = np.ones((1, 1)), np.ones((1, 1))
            for u in X.cores[:k]:
                left = np.tensordot(left, u, 1).reshape(-1, u.shape[2])
            for v in reversed(X.right[k + 1 :]):
                right = np.tensordot(v, right, 1).reshape(len(v), -1)
            self.cores.append(np.einsum("ia,ijk,bk->ajb", left, z.reshape(len(left), X.shape[k], -1), right))


def dense(xi):
    """The tangent vector as a dense tensor, term by term."""
    X, total = xi.X, 0.0
    for k, change in enumerate(xi.cores):
        total = total + dense_train([*X.cores[:k], change, *X.right[k + 1 :]])
    return total


def spanning(X):
    """A basis of the tangent space as columns of vectors, from derivatives in all entries of the cores."""
    columns = []
    for k, core in enumerate(X.cores):
        for position in np.ndindex(core.shape):
            change = np.zeros(core.shape)
            change[position] = 1
            columns.append(dense_train([*X.cores[:k], change, *X.cores[k + 1 :]]).ravel())
    left, s, _ = np.linalg.svd(np.stack(columns, axis=1), full_matrices=False)
    return left[:, s > 1e-10 * s[0]]


def test_orthogonal_cores_are_those_of_the_same_tensor(point):
    rng = np.random.default_rng(0)
    shapes = zip((1, *point.rank), point.shape, (*point.rank, 1), strict=True)
    np.testing.assert_allclose(point.to_dense(), dense_train([rng.standard_normal(one) for one in shapes]), atol=1e-11)
    for k in range(len(point.shape)):
        np.testing.assert_allclose(
            dense_train([*point.cores[:k], point.centres[k], *point.right[k + 1 :]]), point.to_dense(), atol=1e-11
        )
    for u, v in zip(point.cores[:-1], point.right[1:], strict=True):
        np.testing.assert_allclose(np.einsum("aib,aic->bc", u, u), np.eye(u.shape[2]), atol=1e-12)
        np.testing.assert_allclose(np.einsum("aib,cib->ac", v, v), np.eye(len(v)), atol=1e-12)


def test_entries_norm_distance_and_singular_values_are_those_of_the_dense_tensor(point):
    a, other = point.to_dense(), drawn(point.shape, point.rank, seed=1)
    indices = np.unravel_index(np.arange(0, a.size, 3), a.shape)
    np.testing.assert_allclose(point.entries(*indices), a[indices], atol=1e-11)
    assert point.norm() == pytest.approx(np.linalg.norm(a))
    assert point.distance(other) == pytest.approx(np.linalg.norm(a - other.to_dense()))
    assert point.distance(TensorTrain(point.cores)) < 1e-13 * point.norm()
    for k, values in enumerate(point.singular_values()):
        matrix = a.reshape(np.prod(a.shape[: k + 1]), -1)
        np.testing.assert_allclose(values, np.linalg.svd(matrix, compute_uv=False)[: len(values)], rtol=1e-9, atol=1e-11)


def test_a_tensor_of_that_rank_is_decomposed_exactly(point):
    found = TensorTrain.from_dense(point.to_dense(), point.rank)
    assert found.rank == point.rank
    assert found.distance(point) < 1e-12 * point.norm()


def test_the_dimension_of_the_tangent_space_is_the_degrees_of_freedom(point):
    assert spanning(point).shape[1] == TRAIN.dof(point.shape, point.rank, float)


def test_the_euclidean_gradient_is_the_orthogonal_projection(point):
    z = np.random.default_rng(1).standard_normal(point.shape)
    xi = TRAIN.gradient(point, Dense(point, z), Weights())
    Q = spanning(point)
    np.testing.assert_allclose(dense(xi).ravel(), Q @ (Q.T @ z.ravel()), atol=1e-10)
    np.testing.assert_allclose(dense_train(xi.train()), dense(xi), atol=1e-11)
    assert xi.norm() == pytest.approx(np.linalg.norm(dense(xi)))
    assert xi.inner(Dense(point, z)) == pytest.approx(np.vdot(dense(xi), z))


@pytest.mark.parametrize("dense_weights", [False, True])
def test_the_weighted_gradient_represents_the_slope_in_its_metric(point, dense_weights):
    rng = np.random.default_rng(2)
    z, metric, modes = rng.standard_normal(point.shape), np.ones((1, 1)), []
    for n in point.shape:
        w = np.diag(rng.random(n) + 0.2)
        if dense_weights:
            w = w + 0.1 * np.ones((n, n))
        modes.append(DenseWeight(w, np.linalg.inv(w)) if dense_weights else DiagonalWeight(np.diag(w)))
        metric = np.kron(metric, w)
    xi = TRAIN.gradient(point, Dense(point, z), Weights(tuple(modes)))
    Q = spanning(point)
    expected = Q @ np.linalg.solve(Q.T @ metric @ Q, Q.T @ z.ravel())
    np.testing.assert_allclose(dense(xi).ravel(), expected, atol=1e-8)
    for u, change in zip(point.cores[:-1], xi.cores[:-1], strict=True):
        np.testing.assert_allclose(np.einsum("aib,aic->bc", u, change), 0, atol=1e-9)


def test_any_cores_give_their_tangent_vector(point):
    rng = np.random.default_rng(3)
    changes = [rng.standard_normal(core.shape) for core in point.cores]
    terms = [dense_train([*point.cores[:k], c, *point.right[k + 1 :]]) for k, c in enumerate(changes)]
    np.testing.assert_allclose(dense(TrainTangent.project(point, changes)), sum(terms), atol=1e-11)


def test_the_retraction_is_the_truncated_svd_and_agrees_to_first_order(point):
    z = np.random.default_rng(1).standard_normal(point.shape)
    xi = TRAIN.gradient(point, Dense(point, z), Weights())
    moved = point.to_dense() + 0.3 * dense(xi)
    assert TRAIN.retract(xi, 0.3).distance(TensorTrain.from_dense(moved, point.rank)) < 1e-11 * point.norm()
    errors = [np.linalg.norm(TRAIN.retract(xi, t).to_dense() - point.to_dense() - t * dense(xi)) for t in (1e-2, 1e-3)]
    assert errors[1] < 0.02 * errors[0] + 1e-11 * point.norm()


def test_transport_is_the_projection_to_the_new_tangent_space(point):
    other = drawn(point.shape, point.rank, seed=4)
    rng = np.random.default_rng(5)
    xi = TRAIN.gradient(point, Dense(point, rng.standard_normal(point.shape)), Weights())
    found = TRAIN.transport(point, other).vector(xi)
    Q, z = spanning(other), rng.standard_normal(point.shape)
    np.testing.assert_allclose(dense(found).ravel(), Q @ (Q.T @ dense(xi).ravel()), atol=1e-10)
    slope = TRAIN.transport(point, other).slope(xi, TRAIN.gradient(other, Dense(other, z), Weights()))
    assert slope == pytest.approx(np.vdot(dense(found), z))
    for a, b in zip(TrainProducts(other, xi.train()).cores, Dense(other, dense(xi)).cores, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_sums_and_multiples_of_tangent_vectors(point):
    rng = np.random.default_rng(6)
    a, b = (TRAIN.gradient(point, Dense(point, rng.standard_normal(point.shape)), Weights()) for _ in range(2))
    np.testing.assert_allclose(dense(2 * a - b), 2 * dense(a) - dense(b), atol=1e-10)


def test_rounding_of_nan_is_nan():
    X = drawn((4, 3, 5), (2, 2))
    assert not rounded([np.full_like(core, np.nan) for core in X.cores], X.rank).is_finite()


def test_one_rank_stands_for_all_as_far_as_the_modes_admit():
    assert TRAIN.check_rank(5, (2, 3, 40, 4)) == (2, 5, 4)
    assert TRAIN.check_rank((2, 6, 4), (2, 3, 40, 4)) == (2, 6, 4)


@pytest.mark.parametrize(
    "rank", [0, 13, True, 2.0, "auto", (2, 2), (2, 2, 2, 2), (2, 0, 2), (3, 2, 2), (2, 7, 2), (2, 2, 5), (1, 4, 2)]
)
def test_ranks_that_the_modes_do_not_admit_are_refused(rank):
    with pytest.raises(lr.ParameterError) as error:
        TRAIN.check_rank(rank, (2, 3, 40, 4))
    assert error.value.name == "rank"


@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 3, 2), (2, 4, 1)],
        [(1, 3, 2), (3, 4, 2), (2, 5, 1)],
        [(1, 3, 2), (2, 4, 2), (2, 5, 2)],
        [(2, 3, 2), (2, 4, 2), (2, 5, 1)],
        [(1, 3), (2, 4, 2), (2, 5, 1)],
    ],
)
def test_cores_that_do_not_fit_together_are_refused(shapes):
    with pytest.raises(lr.ParameterError, match="cores"):
        TensorTrain([np.ones(shape) for shape in shapes])


def test_points_of_another_shape_or_kind_are_refused():
    X = drawn((4, 3, 5), (2, 2))
    for start, rank in ((X, (2, 1)), (lr.Tucker.from_dense(X.to_dense(), 2), (2, 2)), (np.nan * X.cores[0], (2, 2))):
        with pytest.raises(lr.ParameterError, match="start"):
            TRAIN.check_point(start, X.shape, rank, X.dtype, X.backend)
