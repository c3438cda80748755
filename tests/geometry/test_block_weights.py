"""Blocks of rows and columns, solved on both sides and added up, against dense twins."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import dense_data, dense_tangent, host, random_point, random_problem, random_tangent
from lorank.geometry import ExpectedInverses, Weights, riemannian_gradient
from lorank.metrics import Blocks, Counts
from lorank.metrics.blocks import block_inverses
from lorank.solvers.tangent_system import inner

DOUBLE = [np.dtype("float64"), np.dtype("complex128")]
SHAPE, RANK = (9, 8), 2


def setup(dtype, backend=None, seed=0):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, SHAPE, dtype, backend, density=0.7)
    return problem, random_point(rng, SHAPE, RANK, dtype, problem.backend), rng


def sides(xi):
    """``xi V`` and ``xi^H U``."""
    minus = xi.X.backend.minus
    return minus(xi.Up, xi.X.U, -xi.M), minus(xi.Vp, xi.X.V, -xi.M.conj().T)


def dense_sum(xi, by_rows, by_cols):
    """``(xi V) B^-1 V^H + U ((xi^H U) C^-1)^H`` with dense arrays, one small system for each row and column."""
    Z, X = dense_tangent(xi), xi.X.numpy()
    left = np.array([np.linalg.solve(b.T, z) for b, z in zip(by_rows, Z @ X.V, strict=True)])
    right = np.array([np.linalg.solve(c.T, z) for c, z in zip(by_cols, Z.conj().T @ X.U, strict=True)])
    return left @ X.V.conj().T + X.U @ right.conj().T


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_blocks_on_both_sides_against_their_dense_twin(dtype, backend):
    problem, X, rng = setup(dtype, backend)
    damping = rng.random(RANK) + 0.1
    inverses, xi = block_inverses(problem, X, damping), random_tangent(rng, X)
    mask, Y = dense_data(problem)[1], X.numpy()
    shift = np.diag(damping + 1e-6 * problem.operator_scale)
    by_rows = [Y.V[seen].conj().T @ Y.V[seen] + shift for seen in mask]
    by_cols = [Y.U[seen].conj().T @ Y.U[seen] + shift for seen in mask.T]
    expected = problem.operator_scale * dense_sum(xi, by_rows, by_cols)
    np.testing.assert_allclose(
        dense_tangent(inverses.solve(X, *sides(xi))), expected, rtol=1e-9, atol=1e-9 * abs(expected).max()
    )


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_expected_blocks_against_their_dense_twin(dtype, backend):
    problem, X, rng = setup(dtype, backend)
    weights, damping = Counts(uneven=0).start(problem.gradient(X)), rng.random(RANK)
    inverses, xi, Y = ExpectedInverses.of(X, weights, damping), random_tangent(rng, X), X.numpy()
    left, right = host(weights.mode(0).w), host(weights.mode(1).w)
    m1, m2 = Y.U.conj().T @ (left[:, None] * Y.U), Y.V.conj().T @ (right[:, None] * Y.V)
    by_rows, by_cols = ([w * m + np.diag(damping) for w in own] for own, m in ((left, m2), (right, m1)))
    expected = dense_sum(xi, by_rows, by_cols)
    np.testing.assert_allclose(dense_tangent(inverses.solve(X, *sides(xi))), expected, atol=1e-10 * abs(expected).max())


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_they_are_hermitian_and_positive(dtype, expected, backend):
    problem, X, rng = setup(dtype, backend)
    if expected:
        inverses = ExpectedInverses.of(X, Counts(uneven=0).start(problem.gradient(X)), np.zeros(RANK))
    else:
        inverses = block_inverses(problem, X)
    xi, eta = random_tangent(rng, X), random_tangent(rng, X)
    z, w = (inverses.solve(X, *sides(v)) for v in (xi, eta))
    assert inner(z, eta) == pytest.approx(inner(xi, w), rel=1e-8)
    assert inner(z, xi) > 0
    assert inner(w, eta) > 0


def test_no_expectation_without_counts():
    _, X, _ = setup(np.float64)
    assert ExpectedInverses.of(X, Weights(), np.zeros(RANK)) is None


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_blocks_are_carried_along(dtype, backend):
    """The same matrix with other bases of its row and column spaces has the same blocks, and so have the carried ones."""
    problem, X, rng = setup(dtype, backend)
    old = block_inverses(problem, X)
    turn = np.linalg.qr(host(random_tangent(rng, X).M) + np.eye(RANK))[0]
    Y = type(X)(X.backend.product(X.U, turn), X.s, X.backend.product(X.V, turn), X.backend)
    new, xi = block_inverses(problem, Y), random_tangent(rng, Y)
    np.testing.assert_allclose(
        dense_tangent(old.solve(Y, *sides(xi))), dense_tangent(new.solve(Y, *sides(xi))), rtol=1e-6, atol=1e-6
    )
    assert old.drift(Y) < 1e-6
    other = random_point(rng, SHAPE, RANK, dtype, problem.backend)
    assert 0 < old.drift(other) <= 1


def test_the_gradient_in_the_metric_of_blocks():
    problem, X, _ = setup(np.float64)
    metric, G = Blocks(), problem.gradient(X)
    weights, memory = metric.weights(G, metric.start(G))
    assert weights is memory
    xi = riemannian_gradient(X, G, weights)
    expected = block_inverses(problem, X).solve(X, G.GV, G.GhU)
    np.testing.assert_array_equal(dense_tangent(xi), dense_tangent(expected))
    far = problem.gradient(random_point(np.random.default_rng(9), SHAPE, RANK, np.float64, problem.backend))
    again, _ = metric.weights(far, memory)
    assert again.inverse.at is far.X  # taken anew
