"""Metrics: the weights that they make of gradients, against their definitions with a dense G."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_close, dense_gradient, double, host, random_point, random_problem, real_dtype, seeds
from lorank import metrics
from lorank.backends import get_backend
from lorank.datasets import random_sensing
from lorank.geometry import FixedRank, Identity
from lorank.loop.steps import Constant
from lorank.problems import Completion

RANK = 2
shapes = st.tuples(st.integers(2, 10), st.integers(2, 10))


def gradients(seed, shape, dtype, backend, count=3):
    """Gradients at several points of one problem, each with its dense twin."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, shape, dtype, backend)
    points = [random_point(rng, shape, RANK, dtype, backend) for _ in range(count)]
    return [(problem.gradient(X), dense_gradient(problem, X)) for X in points]


def rows(G):
    return (np.abs(G) ** 2).sum(1)


def columns(G):
    return (np.abs(G) ** 2).sum(0)


def test_canonical_has_no_weights(backend):
    ((G, _),) = gradients(0, (5, 4), np.float64, backend, 1)
    metric = metrics.Canonical()
    weights, _ = metric.weights(G, metric.start(G))
    assert isinstance(weights.mode(0), Identity)
    assert isinstance(weights.mode(1), Identity)
    assert (weights.low, weights.high) == (1.0, 1.0)


def assert_diagonal(weights, epsilon, row_squares, col_squares, dtype):
    """``diag(epsilon + squares)^(1/4)`` on both sides, and the range of their products."""
    for weight, squares in ((weights.mode(0), row_squares), (weights.mode(1), col_squares)):
        assert host(weight.w).dtype == real_dtype(dtype)
        assert_close(weight.w, (epsilon + squares) ** 0.25, dtype)
    largest = max(row_squares.max(), col_squares.max())
    assert weights.low == pytest.approx(np.sqrt(epsilon), rel=1e-12)
    assert_close(weights.high, np.sqrt(epsilon + largest), dtype)
    products = np.outer(double(weights.mode(0).w), double(weights.mode(1).w))
    rounding = 1 + 50 * np.finfo(dtype).eps
    assert weights.low <= products.min() * rounding
    assert products.max() <= weights.high * rounding


@given(shape=shapes, seed=seeds, epsilon=st.sampled_from([1e-3, 1.0, 50.0]))
def test_row_column(shape, seed, epsilon, dtype, backend):
    """The paper's weights depend on the gradient at hand alone."""
    metric = metrics.RowColumn(metrics.Fixed(epsilon))
    memory = None
    for G, dense in gradients(seed, shape, dtype, backend):
        memory = metric.start(G) if memory is None else memory
        weights, memory = metric.weights(G, memory)
        assert_diagonal(weights, epsilon, rows(dense), columns(dense), dtype)


@given(shape=shapes, seed=seeds, epsilon=st.sampled_from([1e-3, 1.0, 50.0]))
def test_shampoo_adds_up_gradients(shape, seed, epsilon, dtype, backend):
    metric = metrics.Shampoo(metrics.Fixed(epsilon))
    steps = gradients(seed, shape, dtype, backend)
    memory = metric.start(steps[0][0])
    row_squares, col_squares = 0, 0
    for G, dense in steps:
        weights, memory = metric.weights(G, memory)
        row_squares, col_squares = row_squares + rows(dense), col_squares + columns(dense)
        assert_diagonal(weights, epsilon, row_squares, col_squares, dtype)


def test_shampoo_leaves_its_memory_alone(backend):
    """A rejected step is taken again from the same memory."""
    (G, _), (H, _) = gradients(1, (6, 5), np.float64, backend, 2)
    for metric in (metrics.Shampoo(), metrics.FullShampoo()):
        _, memory = metric.weights(G, metric.start(G))
        before = [np.copy(host(a)) for a in memory]
        one, _ = metric.weights(H, memory)
        other, _ = metric.weights(H, memory)
        for a, b in zip(memory, before, strict=True):
            np.testing.assert_array_equal(host(a), b)
        np.testing.assert_array_equal(host(one.mode(0).w), host(other.mode(0).w))


def fourth_root(a):
    """By two square roots, which share nothing with an eigendecomposition."""
    return scipy.linalg.sqrtm(scipy.linalg.sqrtm(a))


@given(shape=shapes, seed=seeds, epsilon=st.sampled_from([0.1, 1.0, 20.0]))
def test_full_shampoo(shape, seed, epsilon, dtype, backend):
    metric = metrics.FullShampoo(metrics.Fixed(epsilon))
    steps = gradients(seed, shape, dtype, backend)
    memory = metric.start(steps[0][0])
    left, right = (epsilon * np.eye(n) for n in shape)
    for G, dense in steps:
        weights, memory = metric.weights(G, memory)
        left, right = left + dense @ dense.conj().T, right + dense.conj().T @ dense
        for weight, square in ((weights.mode(0), left), (weights.mode(1), right)):
            root = fourth_root(square)
            assert host(weight.w).dtype == host(weight.inverse).dtype == dtype
            assert_close(weight.w, root, dtype, 200)
            assert_close(double(weight.inverse) @ root, np.eye(len(root)), dtype, 2000)
        spectra = [np.linalg.eigvalsh(a) ** 0.25 for a in (left, right)]
        assert weights.low == pytest.approx(np.sqrt(epsilon))  # does not grow with what is summed up
        assert spectra[0][0] * spectra[1][0] >= weights.low * (1 - 1e-3)
        assert_close(weights.high, spectra[0][-1] * spectra[1][-1], dtype, 200)


@pytest.mark.parametrize("make", [metrics.Shampoo, metrics.FullShampoo])
def test_a_constant_step_is_constant_under_shampoo(make, backend):
    """Until it was mended, full Shampoo's grew with the accumulated gradients."""
    problem, _ = random_sensing(6, 5, 1, m=40, seed=0)
    steps = gradients(3, (6, 5), np.float64, backend, 4)
    metric, rule = make(metrics.Fixed(0.5)), Constant(0.7)
    memory, found = metric.start(steps[0][0]), []
    for G, _ in steps:
        weights, memory = metric.weights(G, memory)
        found.append(rule(problem, None, G, weights))
    assert found == pytest.approx([0.7 * np.sqrt(0.5) / problem.operator_scale] * len(steps))


def test_full_shampoo_refuses_large_matrices(backend):
    ((G, _),) = gradients(2, (7, 4), np.float64, backend, 1)
    with pytest.raises(ValueError, match=r"limited to 6 rows and columns\. Use solver='shampoo'"):
        metrics.FullShampoo(limit=6).start(G)
    metrics.FullShampoo(limit=7).start(G)
    ((G, _),) = gradients(2, (4, 7), np.float64, backend, 1)
    with pytest.raises(ValueError, match="dense 4 x 4 and 7 x 7 matrices"):
        metrics.FullShampoo(limit=6).start(G)


# -- epsilon -----------------------------------------------------------------------------------------------------------
def fake_gradient(row_squares, col_squares):
    squares = np.array(row_squares, float), np.array(col_squares, float)
    where = SimpleNamespace(backend=get_backend("numpy"))
    return SimpleNamespace(X=where, squared_norms=squares)


@given(shape=shapes, seed=seeds)
def test_policies_against_their_definitions(shape, seed, dtype, backend):
    (G, first), (H, second) = gradients(seed, shape, dtype, backend, 2)
    both = np.concatenate([rows(first), columns(first)])
    largest = [max(rows(a).max(), columns(a).max()) for a in (first, second)]
    # (policy, epsilon at the first gradient, at the second)
    expected = [
        (metrics.Fixed(0.3), 0.3, 0.3),
        (metrics.Median(), np.median(both), np.median(both)),
        (metrics.Median(2.0), 2 * np.median(both), 2 * np.median(both)),
        (metrics.RelativeMax(), 1e-3 * largest[0], 1e-3 * largest[0]),
        (metrics.RelativeMax(0.5), 0.5 * largest[0], 0.5 * largest[0]),
        (metrics.Theory(), largest[0], largest[1]),
    ]
    for policy, one, two in expected:
        start = policy.start(G)
        assert_close(policy.at(G, start), one, dtype, scale=largest[0])
        assert_close(policy.at(H, start), two, dtype, scale=max(largest))


def test_median_leaves_out_zero_rows():
    """Rows that were never observed say nothing about the size of the others."""
    assert metrics.Median().start(fake_gradient([0, 0, 0, 0, 1], [0, 2, 3])) == 2
    assert metrics.Median().start(fake_gradient([0, 0], [0])) == 1.0


def test_epsilon_stays_positive_where_the_gradient_vanishes():
    zero = fake_gradient([0, 0], [0])
    for policy in (metrics.Median(), metrics.RelativeMax(), metrics.Theory()):
        assert policy.at(zero, policy.start(zero)) > 0


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_fixed_must_be_positive(value):
    with pytest.raises(ValueError, match="Fixed: value must be positive"):
        metrics.Fixed(value)


@pytest.mark.parametrize("c", [1e-3, 7.0])
def test_epsilon_scales_with_the_square_of_the_data(c, backend):
    """Multiply y and X by c, and epsilon is multiplied by c^2: solvers take the same way in other units."""
    rng = np.random.default_rng(3)
    problem = random_problem(rng, (8, 6), np.float64, backend)
    scaled = Completion(problem.rows, problem.cols, c * problem.y, problem.shape, backend=backend)
    X = random_point(rng, (8, 6), RANK, np.float64, backend)
    G, H = problem.gradient(X), scaled.gradient(FixedRank(X.U, c * X.s, X.V, backend))
    for policy in (metrics.Median(), metrics.RelativeMax(), metrics.Theory()):
        one, other = (policy.at(g, policy.start(g)) for g in (G, H))
        assert other == pytest.approx(c**2 * one, rel=1e-10)


def test_metrics_take_any_policy(backend):
    """Each metric asks its policy for epsilon, at the start and in each iteration."""
    (G, first), (H, second) = gradients(4, (7, 5), np.float64, backend, 2)
    for make, policy in itertools.product(
        (metrics.RowColumn, metrics.Shampoo, metrics.FullShampoo),
        (metrics.Median(), metrics.RelativeMax(0.1), metrics.Theory()),
    ):
        metric = make(policy)
        start = policy.start(G)
        _, memory = metric.weights(G, metric.start(G))
        weights, _ = metric.weights(H, memory)
        epsilon = policy.at(H, start)
        if make is metrics.FullShampoo:
            total = first @ first.conj().T + second @ second.conj().T
            expected = np.diagonal(fourth_root(epsilon * np.eye(7) + total))
            np.testing.assert_allclose(np.diagonal(host(weights.mode(0).w)), expected, rtol=1e-10)
        else:
            total = rows(second) + (rows(first) if make is metrics.Shampoo else 0)
            np.testing.assert_allclose(host(weights.mode(0).w), (epsilon + total) ** 0.25, rtol=1e-10)
