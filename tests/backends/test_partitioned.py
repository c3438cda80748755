"""Blocks of rows, by a backend in one file (tests/partitioned.py) and by lorank's own: everything runs on them, with the
results of the native backend to rounding.

Results are compared after a few iterations, where rounding is not yet amplified, and at the end by what is promised there.
"""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
import partitioned  # noqa: F401  (registers itself)
from helpers import backend_pair as pair
from lorank import starts
from lorank.plans import SOLVERS
from lorank.plans.rank_search import find_rank
from solver_cases import BY_TRUNCATED_SVD

KINDS = ("partitioned", "partitions")
NAMES = [f"{kind}:{count}" for kind in KINDS for count in (1, 3, 7)]


@pytest.fixture(params=KINDS)
def blocks(request):
    """Three blocks of rows."""
    return f"{request.param}:3"


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_the_same(name, weights):
    one, two, truth = pair(name, weights=weights, noise=0.1)
    X = lr.FixedRank.from_factors(truth.U + 0.1, truth.V * truth.s)
    a, b = one.gradient(X), two.gradient(X)
    for quantity in ("GV", "GhU", "core", "residual_norm"):
        np.testing.assert_allclose(getattr(b, quantity), getattr(a, quantity), rtol=1e-11, atol=1e-11)
    for found, expected in zip(b.squared_norms, a.squared_norms, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    xi = X.manifold.gradient(X, a, lr.geometry.Weights())
    assert b.squared_image_norm(xi) == pytest.approx(a.squared_image_norm(xi), rel=1e-12)
    np.testing.assert_allclose(two.backend.to_numpy(b.dual), a.dual, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_every_solver_takes_the_same_steps(blocks, solver, weights):
    one, two, _ = pair(blocks, weights=weights)
    stop = lr.stopping.Iterations(6)
    a, b = (lr.solve(p, 3, solver, stop=stop, max_iter=6) for p in (one, two))
    off = 1e-3 if solver in BY_TRUNCATED_SVD else 1e-6  # their singular vectors are only as accurate as that
    np.testing.assert_allclose(b.history.residual, a.history.residual, rtol=off, atol=1e-11)
    assert a.X.distance(b.X) < off * a.X.norm()


@pytest.mark.parametrize("name", NAMES)
def test_it_recovers_to_the_tolerance(name):
    _, two, truth = pair(name, weights=True)
    result = lr.solve(two, 3, tol=1e-9)
    assert result.converged
    assert truth.distance(result.X) < 1e-6 * truth.norm()


@pytest.mark.parametrize("start", sorted(starts.STARTS))
def test_every_start_is_the_same(blocks, start):
    one, two, _ = pair(blocks)
    X, Y = (starts.STARTS[start](p, 3, np.random.default_rng(0)) for p in (one, two))
    assert X.distance(Y) < 1e-5 * X.norm()


def test_the_second_order_and_irls_run_on_it(blocks):
    one, two, _ = pair(blocks)
    for solver in (lr.solvers.GaussNewton(), lr.solvers.IRLS()):
        stop = lr.stopping.Iterations(3)
        a, b = (lr.solve(p, 3, solver, stop=stop, max_iter=3) for p in (one, two))
        np.testing.assert_allclose(b.history.residual, a.history.residual, rtol=1e-5, atol=1e-11)
    balanced = two.rescaled()
    assert balanced is None or balanced.problem.backend is two.backend


@pytest.mark.parametrize("weights", [False, True])
def test_the_same_measurements_are_held_out(blocks, weights):
    one, two, _ = pair(blocks, weights=weights, noise=0.3)
    for a, b in zip(one.split(np.random.default_rng(1), 0.1), two.split(np.random.default_rng(1), 0.1), strict=True):
        for x, y in zip(a.observations.host(), b.observations.host(), strict=True):
            np.testing.assert_array_equal(x, y)
    first, second = (find_rank(p, 1e-6, np.random.default_rng(0), 1.0) for p in (one, two))
    assert first.rank == second.rank
    np.testing.assert_allclose(second.path, first.path, rtol=1e-4)


def test_rank_auto_finds_the_rank(blocks):
    _, two, truth = pair(blocks)
    result = lr.solve(two, "auto")
    assert result.X.rank == 3
    assert truth.distance(result.X) < 1e-4 * truth.norm()


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("columns", [False, True])
def test_normal_equations_are_the_same(blocks, columns, weights):
    one, two, _ = pair(blocks, weights=weights)
    rng, k = np.random.default_rng(3), 4
    n, other = one.shape[1 if columns else 0], rng.standard_normal((one.shape[0 if columns else 1], k))
    moments = np.abs(rng.standard_normal((len(other), k * (k + 1) // 2))) * 0.1 + np.eye(k)[np.triu_indices(k)]
    options = {"moments": moments, "scale": rng.uniform(1, 2, n), "fixed": 1, "noise": 0.7, "covariance": True}
    given = columns, other, 2 * np.eye(k), rng.standard_normal(k)
    for a, b in zip(*(p.observations.normal_equations(*given, **options) for p in (one, two)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-10)


def test_sweeps_are_the_same(blocks):
    from lorank.factorization.als import RegularizedALS
    from lorank.factorization.variational import VariationalALS

    one, two, _ = pair(blocks, noise=0.2, weights=True)
    for solver in (RegularizedALS(1.0, biases=True, count_scaling=0.5), VariationalALS(biases=True, noise="both")):
        stop = lr.stopping.Iterations(4)
        a, b = (lr.solve(p, 3, solver, start="spectral", stop=stop, max_iter=4) for p in (one, two))
        np.testing.assert_allclose(b.history.residual, a.history.residual, rtol=1e-6)


@pytest.mark.parametrize("strength", [None, 0.5])
def test_factor_models_run_on_it(blocks, strength):
    """What the estimators fit, from the start to predictions and their spread."""
    from lorank.factorization import Settings, fit_factors

    one, two, _ = pair(blocks, noise=0.2)
    settings = Settings(3, strength, max_iter=3)
    a, b = (fit_factors(p, 0.0, settings) for p in (one, two))
    rows, cols = np.arange(20), np.arange(20)
    np.testing.assert_allclose(b.model.predict(rows, cols), a.model.predict(rows, cols), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(b.model.spread(rows, cols), a.model.spread(rows, cols), rtol=1e-5)


@pytest.mark.parametrize("options", [{"rank": 3}, {"rank": "auto", "regularization": "learned"}], ids=["given", "chosen"])
def test_estimators_run_on_it(blocks, options):
    pytest.importorskip("sklearn")
    one, _, _ = pair(blocks, noise=0.2)
    pairs, values = np.column_stack([one.rows, one.cols]), one.y
    a, b = (lr.MatrixCompletion(**options, max_iter=3, device=device).fit(pairs, values) for device in (None, blocks))
    assert a.rank_ == b.rank_
    np.testing.assert_allclose(b.predict(pairs), a.predict(pairs), rtol=1e-4, atol=1e-4)
