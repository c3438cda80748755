"""Weights of the observations: ``Completion(..., weights=w)`` against dense twins, in every solver and on every backend."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import dense_point, dense_tangent, host, random_array, random_mask, random_point, random_tangent
from lorank.geometry import Weights, riemannian_gradient
from lorank.solvers.tangent_system import Damping, TangentSystem, inner

DOUBLE = [np.dtype("float64"), np.dtype("complex128")]


def weighted(rng, shape, dtype, backend, noise=None):
    """A problem with weights, given in an order of the user's own, and its dense twin: data, weights (0: not observed)."""
    mask = random_mask(rng, shape, 0.7)
    rows, cols = np.nonzero(mask)
    order = rng.permutation(len(rows))
    rows, cols = rows[order], cols[order]
    y, W = np.zeros(shape, dtype), np.zeros(shape)
    y[rows, cols] = random_array(rng, len(rows), dtype) if noise is None else noise[rows, cols]
    W[rows, cols] = rng.uniform(0.1, 3, len(rows))
    problem = lr.Completion(rows, cols, y[rows, cols], shape, weights=W[rows, cols], backend=backend)
    return problem, y, W


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_gradient_and_line_search_against_dense(dtype, backend):
    rng = np.random.default_rng(0)
    problem, y, W = weighted(rng, (13, 9), dtype, backend)
    X = random_point(rng, (13, 9), 2, dtype, backend)
    G, dense = problem.gradient(X), W * (dense_point(X) - y)
    np.testing.assert_allclose(host(G.GV), dense @ host(X.V), atol=1e-12)
    np.testing.assert_allclose(host(G.GhU), dense.conj().T @ host(X.U), atol=1e-12)
    np.testing.assert_allclose(host(G.squared_norms[0]), (abs(dense) ** 2).sum(1), atol=1e-12)
    np.testing.assert_allclose(host(G.squared_norms[1]), (abs(dense) ** 2).sum(0), atol=1e-12)
    misfit = (W * abs(dense_point(X) - y) ** 2).sum()
    assert G.residual_norm == pytest.approx(np.sqrt(misfit))
    assert problem.y_norm == pytest.approx(np.sqrt((W * abs(y) ** 2).sum()))
    xi = random_tangent(rng, X)
    energy = (W * abs(dense_tangent(xi)) ** 2).sum()
    assert G.squared_image_norm(xi) == pytest.approx(energy)
    assert G.image_curvature(problem.forward(*xi.factors())) == pytest.approx(energy)
    system = TangentSystem(problem, X, Damping.constant(X, 0.0), G.curvature)
    assert inner(system.apply(xi), xi) == pytest.approx(energy)


def test_the_generic_gradient_is_the_same(backend):
    """What a model of one's own gets from the objective alone."""
    rng = np.random.default_rng(1)
    problem, _, _ = weighted(rng, (13, 9), np.dtype(float), backend)
    X = random_point(rng, (13, 9), 2, np.dtype(float), backend)
    plain, fused = lr.problems.Gradient(problem, X), problem.gradient(X)
    assert plain.residual_norm == pytest.approx(fused.residual_norm)
    for name in ("dual", "curvature", "residual"):
        np.testing.assert_allclose(host(getattr(plain, name)), host(getattr(fused, name)), atol=1e-13)


def minimum(problem, X):
    """How far X is from a stationary point of the weighted misfit."""
    G = problem.gradient(X)
    return riemannian_gradient(X, G, Weights()).norm() / (G.residual_norm * np.sqrt(problem.operator_scale))


SOLVERS = ["rcg", "gauss-newton", "adaptive-prgd", "adaptive-rgd", "prgd", "rgd", "shampoo", "niht"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_minimises_the_weighted_misfit(solver):
    """On noisy data the weighted minimum is another matrix than the plain one."""
    rng = np.random.default_rng(2)
    a = random_array(rng, (40, 2), float) @ random_array(rng, (30, 2), float).T + 0.1 * rng.standard_normal((40, 30))
    problem, _, _ = weighted(rng, (40, 30), np.dtype(float), None, a)
    stop = lr.stopping.RelativeChange(1e-9)
    X = lr.solve(problem, 2, solver, stop=stop, max_iter=3000).X
    assert minimum(problem, X) < 1e-4
    assert minimum(problem.unweighted(), X) > 1e-2


@pytest.mark.filterwarnings("ignore::lorank.ConvergenceWarning")  # noisy data are not fitted
def test_auto_minimises_the_weighted_misfit():
    rng = np.random.default_rng(2)
    a = random_array(rng, (40, 2), float) @ random_array(rng, (30, 2), float).T + 0.1 * rng.standard_normal((40, 30))
    problem, _, _ = weighted(rng, (40, 30), np.dtype(float), None, a)
    assert minimum(problem, lr.solve(problem, 2).X) < 1e-3  # it ends where steps no longer matter beside the noise


def test_the_order_is_the_users(backend):
    rng = np.random.default_rng(3)
    problem, y, W = weighted(rng, (12, 10), np.dtype(float), backend)
    rows, cols = host(problem.rows), host(problem.cols)
    np.testing.assert_array_equal(host(problem.y), y[rows, cols])
    np.testing.assert_array_equal(host(problem.observations.weights), W[rows, cols])
    for part in problem.split(np.random.default_rng(0), 0.2):
        rows, cols = host(part.rows), host(part.cols)
        np.testing.assert_array_equal(host(part.observations.weights), W[rows, cols])


def test_weights_outvote_bad_data(backend):
    """Known noise: a tenth of the entries is a thousand times as noisy, and weights say which."""
    problem, truth = lr.datasets.random_completion(80, 60, 3, oversampling=5, seed=4)
    rng = np.random.default_rng(5)
    sigma = np.where(rng.random(problem.m) < 0.1, 1e-1, 1e-4)
    values = problem.y + sigma * rng.standard_normal(problem.m)
    data = problem.rows, problem.cols, values, problem.shape
    fits = [lr.Completion(*data, weights=w, backend=backend) for w in (None, sigma**-2.0)]
    stop = lr.stopping.RelativeChange(1e-8)
    plain, good = (truth.distance(lr.solve(p, 3, "rcg", stop=stop).X.numpy()) / truth.norm() for p in fits)
    assert good < 1e-3
    assert good < plain / 10


def test_rank_auto_honours_weights(backend):
    problem, _ = lr.datasets.random_completion(80, 60, 2, oversampling=8, seed=6)
    rng = np.random.default_rng(7)
    bad = rng.random(problem.m) < 0.1
    values = problem.y + np.where(bad, 1.0, 0.0) * rng.standard_normal(problem.m)
    weighted = lr.Completion(
        problem.rows, problem.cols, values, problem.shape, weights=np.where(bad, 1e-10, 1.0), backend=backend
    )
    assert lr.solve(weighted, "auto", tol=1e-4).X.rank == 2


@pytest.mark.parametrize("how", ["mean", "last"])
def test_duplicates_are_merged_with_their_weights(how, backend):
    rows, cols = [0, 1, 0, 1, 0], [0, 1, 0, 0, 1]
    values, weights = [1.0, 2.0, 4.0, 5.0, 6.0], [1.0, 1.0, 2.0, 1.0, 1.0]
    problem = lr.Completion(rows, cols, values, (2, 2), weights=weights, duplicates=how, backend=backend)
    assert problem.m == 4
    expected = {"mean": (3.0, 3.0), "last": (4.0, 2.0)}[how]
    assert (float(host(problem.y)[0]), float(host(problem.observations.weights)[0])) == expected


def test_zero_weights_are_not_observed(backend):
    with pytest.warns(UserWarning, match="1 row has no observation"):
        problem = lr.Completion([0, 1, 2], [0, 1, 0], [1.0, 2.0, 3.0], (3, 2), weights=[1, 1, 0], backend=backend)
    assert problem.m == 2


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], "weights and values .* got 2 and 3"),
        ([1, -2, 1], r"weights\[1\] = -2.0: weights are numbers from 0 up"),
        ([1, np.nan, 1], r"weights\[1\] = nan"),
        ([1, np.inf, 1], r"weights\[1\] = inf"),
        ([0, 0, 0], "all weights are zero"),
        ([1, 1e-20, 1], r"weights\[1\] = 1.0e-20"),
        ([1e300, 1e300, 1e300], "the largest weight is 1.0e\\+300: divide the weights by"),
        ([1, 1j, 1], "weights are complex"),
        (["a", "b", "c"], "weights must be numbers"),
        ([[1, 1, 1]], "weights must be one-dimensional"),
    ],
)
def test_bad_weights_are_refused_by_name(weights, message, backend):
    with pytest.raises(ValueError, match=message):
        lr.Completion([0, 1, 2], [0, 1, 0], [1.0, 2.0, 3.0], (3, 2), weights=weights, backend=backend)


def test_sums_of_weighted_duplicates_are_refused():
    with pytest.raises(ValueError, match="duplicates='sum' has no meaning with weights"):
        lr.Completion([0, 0], [0, 0], [1.0, 2.0], weights=[1, 1], duplicates="sum")


def test_weights_chosen_in_each_step(backend):
    """RCG(reweighting=...) with weights that never change is RCG on a problem with these weights."""
    rng = np.random.default_rng(8)
    problem, _, _ = weighted(rng, (20, 15), np.dtype(float), backend)
    plain, w = problem.unweighted(), problem.observations.weights
    start = random_point(rng, (20, 15), 2, np.dtype(float), backend)
    stop = lr.stopping.Iterations(4)
    one = lr.solve(problem, 2, "rcg", start=start, stop=stop).X.numpy()
    two = lr.solve(plain, 2, lr.solvers.RCG(reweighting=lambda problem, state: w), start=start, stop=stop).X.numpy()
    assert one.distance(two) < 1e-9 * one.norm()


def test_counts_are_sums_of_weights(backend):
    problem, _, W = weighted(np.random.default_rng(9), (12, 10), np.dtype(float), backend)
    for found, expected in zip(problem.counts(), (W.sum(1), W.sum(0)), strict=True):
        np.testing.assert_allclose(host(found), expected)
