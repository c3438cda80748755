"""Step rules, against brute force on the dense quadratic and against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lorank as lr
from helpers import (
    assert_close,
    dense_data,
    dense_point,
    dense_tangent,
    eps,
    random_point,
    random_problem,
    random_tangent,
    real_dtype,
    seeds,
)
from lorank.geometry import DiagonalWeight, Weights, retract, riemannian_gradient
from lorank.loop.steps import Constant, Exact, Polyak, Theory

sizes = st.tuples(st.integers(2, 15), st.integers(2, 15))


def line(seed, shape, dtype, backend, weighted=True):
    """A problem, the gradient at a random point in a random metric, and the misfit along it as a dense function."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, shape, dtype, backend)
    X = random_point(rng, shape, min(2, *shape), dtype, backend)
    G = problem.gradient(X)
    left, right = (DiagonalWeight(backend.asarray(rng.uniform(0.5, 2, n).astype(real_dtype(dtype)))) for n in shape)
    weights = Weights((left, right), low=0.25, high=4.0) if weighted else Weights()
    xi = riemannian_gradient(X, G, weights)
    y, mask = dense_data(problem)
    x, z = dense_point(X), dense_tangent(xi)

    def misfit(alpha):
        return np.linalg.norm(np.where(mask, x - alpha * z - y, 0))

    return problem, xi, G, weights, misfit


def brute_force(f):
    """The minimiser over alpha > 0 by a grid and three refinements of it; nothing about f is used."""
    low, high = 0.0, 1.0
    while f(2 * high) < f(high):
        high *= 2
    high *= 2
    for _ in range(4):
        grid = np.linspace(low, high, 101)
        k = int(np.argmin([f(alpha) for alpha in grid]))
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, 100)]
    return (low + high) / 2


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@given(shape=sizes, seed=seeds)
def test_exact_against_brute_force(weighted, shape, seed, dtype, backend):
    problem, xi, G, weights, misfit = line(seed, shape, dtype, backend, weighted)
    alpha = Exact()(problem, xi, G, weights)
    expected = brute_force(misfit)
    # The slope has the rounding of G, of which xi may be a small part; and a minimum is flat, so that values of the misfit
    # in double precision tell no more than the square root of their rounding about where it is.
    slope = xi.inner(G)
    rounding = eps(dtype) * G.residual_norm * xi.norm() / slope
    flatness = np.sqrt(1e-15 * misfit(0) ** 2 / (slope * alpha))
    off = float(1e-5 + 200 * rounding + flatness)
    assert alpha == pytest.approx(expected, rel=off)
    # and nothing on the line is lower
    least = misfit(alpha)
    for factor in (0.0, 0.5, 0.9, 1.1, 2.0):
        assert least < misfit(factor * alpha) or off > abs(factor - 1)


@given(shape=sizes, seed=seeds, relaxation=st.sampled_from([0.1, 0.7, 1.9]))
def test_relaxation_multiplies_the_exact_step(shape, seed, relaxation, dtype, backend):
    problem, xi, G, weights, _ = line(seed, shape, dtype, backend)
    exact = Exact()(problem, xi, G, weights)
    assert Exact(relaxation)(problem, xi, G, weights) == pytest.approx(relaxation * exact, rel=1e-12)


@given(shape=sizes, seed=seeds)
def test_energy_and_slope_against_dense(shape, seed, dtype, backend):
    problem, xi, G, _, _ = line(seed, shape, dtype, backend)
    y, mask = dense_data(problem)
    z, residual = np.where(mask, dense_tangent(xi), 0), np.where(mask, dense_point(xi.X) - y, 0)
    assert_close(problem.squared_image_norm(xi), np.linalg.norm(z) ** 2, dtype, scale=xi.norm() ** 2)
    size = np.linalg.norm(dense_point(xi.X)) + np.linalg.norm(y)
    assert_close(xi.inner(G), np.vdot(residual, z).real, dtype, scale=size * xi.norm())


def test_exact_step_along_an_unmeasured_direction_is_zero(backend):
    problem, xi, G, weights, _ = line(0, (6, 5), np.float64, backend)
    assert Exact()(problem, 0.0 * xi, G, weights) == 0.0


@pytest.mark.parametrize("factor", [0.5, 0.7])
def test_constant(factor, dtype, backend):
    """``factor low / operator_scale``, with operator_scale = m / (n1 n2)."""
    problem, xi, G, weights, _ = line(1, (6, 5), dtype, backend)
    assert Constant(factor)(problem, xi, G, weights) == pytest.approx(factor * 0.25 * 30 / problem.m, rel=1e-14)
    assert Constant(factor)(problem, xi, G, Weights()) == pytest.approx(factor * 30 / problem.m, rel=1e-14)


def test_theory(dtype, backend):
    """``2 / (1/mu + 1/nu)``: the harmonic mean of low and high."""
    problem, xi, G, weights, _ = line(2, (6, 5), dtype, backend)
    harmonic = 2 * 0.25 * 4.0 / (0.25 + 4.0)
    assert Theory()(problem, xi, G, weights) == pytest.approx(harmonic * 30 / problem.m, rel=1e-14)


@given(shape=sizes, seed=seeds, factor=st.sampled_from([0.5, 0.7, 1.9]))
def test_polyak(shape, seed, factor, dtype, backend):
    """``factor |A X - y|^2 / <G, xi>``: where the linear model of ``|A X - y|^2 / 2`` reaches zero, for a factor of 1/2."""
    problem, xi, G, weights, misfit = line(seed, shape, dtype, backend)
    y, mask = dense_data(problem)
    slope = np.vdot(np.where(mask, dense_point(xi.X) - y, 0), dense_tangent(xi)).real
    alpha = Polyak(factor)(problem, xi, G, weights)
    rounding = eps(dtype) * (xi.X.norm() + problem.y_norm) * xi.norm() / slope
    assert alpha == pytest.approx(factor * misfit(0) ** 2 / slope, rel=float(200 * rounding))
    assert Polyak(factor)(problem, 0.0 * xi, G, weights) == 0.0


def test_polyak_steps_are_bounded_at_a_minimum():
    """At the best fit to noise the slope is zero, and so would be what the step is divided by."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((30, 20))  # of which every entry is known, so that the best fit is
    problem, best = lr.Completion.from_dense(table), lr.FixedRank.from_dense(table, 2)
    X = retract(random_tangent(rng, best), 1e-6)
    G = problem.gradient(X)
    xi = riemannian_gradient(X, G, Weights())
    assert 1e-8 * G.residual_norm < xi.norm() < 1e-4 * G.residual_norm
    assert Polyak(longest=np.inf)(problem, xi, G, Weights()) > 1e6 / problem.operator_scale
    assert Polyak()(problem, xi, G, Weights()) == pytest.approx(1e3 / problem.operator_scale)
    assert Polyak(longest=5)(problem, xi, G, Weights(high=3.0)) == pytest.approx(15 / problem.operator_scale)
    with pytest.raises(ValueError, match="longest must be positive"):
        Polyak(longest=0)


def test_steps_are_python_floats(dtype, backend):
    """A numpy double would turn single precision factors into double ones."""
    problem, xi, G, weights, _ = line(3, (6, 5), dtype, backend)
    for rule in (Constant(), Theory(), Exact(), Polyak()):
        assert type(rule(problem, xi, G, weights)) is float


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan")])
def test_constant_refuses(factor):
    with pytest.raises(ValueError, match="factor must be positive"):
        Constant(factor)


@pytest.mark.parametrize("relaxation", [0.0, 2.0, -1.0, float("nan")])
def test_exact_refuses(relaxation):
    with pytest.raises(ValueError, match="relaxation must lie between 0 and 2"):
        Exact(relaxation)


@pytest.mark.parametrize("factor", [0.0, 2.0, -1.0, float("nan")])
def test_polyak_refuses(factor):
    with pytest.raises(ValueError, match="factor must lie between 0 and 2"):
        Polyak(factor)
