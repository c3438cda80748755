"""A second backend in one file (tests/partitioned.py): everything runs on it, with the results of the native one to rounding.

Results are compared after a few iterations, where rounding is not yet amplified, and at the end by what is promised there.
"""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank import starts
from lorank.solvers.rank_search import find_rank
from lorank.solvers.solve import SOLVERS

NAMES = [f"partitions:{count}" for count in (1, 3, 7)]


def pair(name, seed=0, weights=False, **options):
    """The same problem on the default backend and on the partitioned one."""
    rng = np.random.default_rng(seed)
    problem, truth = lr.datasets.random_completion(60, 45, 3, oversampling=4, seed=seed, **options)
    entries = problem.observations.host()
    rows, order = problem.rows, rng.permutation(problem.m)
    w = rng.uniform(0.5, 2, problem.m) if weights else None
    data = rows[order], entries.indices[order], entries.values[order], problem.shape
    return *(lr.Completion(*data, weights=w, backend=b) for b in (None, name)), truth


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_the_same(name, weights):
    one, two, truth = pair(name, weights=weights, noise=0.1)
    X = lr.FixedRank.from_factors(truth.U + 0.1, truth.V * truth.s)
    a, b = one.gradient(X), two.gradient(X)
    for quantity in ("GV", "GhU", "core", "row_squares", "col_squares", "residual_norm"):
        np.testing.assert_allclose(getattr(b, quantity), getattr(a, quantity), rtol=1e-11, atol=1e-11)
    xi = X.manifold.gradient(X, a, lr.geometry.Weights())
    assert b.energy(xi) == pytest.approx(a.energy(xi), rel=1e-12)
    np.testing.assert_allclose(two.backend.to_numpy(b.dual), a.dual, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_every_solver_takes_the_same_steps(solver, weights):
    one, two, _ = pair("partitions:3", weights=weights)
    stop = lr.stopping.Iterations(6)
    a, b = (lr.solve(p, 3, solver, stop=stop, max_iter=6) for p in (one, two))
    off = 1e-3 if solver in ("niht", "iht") else 1e-6  # their singular vectors are only as accurate as that
    np.testing.assert_allclose(b.history.residual, a.history.residual, rtol=off, atol=1e-11)
    assert a.X.distance(b.X) < off * a.X.norm()


@pytest.mark.parametrize("name", NAMES)
def test_it_recovers_to_the_tolerance(name):
    _, two, truth = pair(name, weights=True)
    result = lr.solve(two, 3, tol=1e-9)
    assert result.converged
    assert truth.distance(result.X) < 1e-6 * truth.norm()


@pytest.mark.parametrize("start", sorted(starts.STARTS))
def test_every_start_is_the_same(start):
    one, two, _ = pair("partitions:3")
    X, Y = (starts.STARTS[start](p, 3, np.random.default_rng(0)) for p in (one, two))
    assert X.distance(Y) < 1e-5 * X.norm()


def test_the_second_order_and_irls_run_on_it():
    one, two, _ = pair("partitions:3")
    for solver in (lr.GaussNewton(), lr.IRLS()):
        stop = lr.stopping.Iterations(3)
        a, b = (lr.solve(p, 3, solver, stop=stop, max_iter=3) for p in (one, two))
        np.testing.assert_allclose(b.history.residual, a.history.residual, rtol=1e-5, atol=1e-11)
    balanced = two.balanced()
    assert balanced is None or balanced.problem.backend is two.backend


@pytest.mark.parametrize("weights", [False, True])
def test_measurements_are_held_back_alike(weights):
    one, two, _ = pair("partitions:3", weights=weights, noise=0.3)
    for a, b in zip(one.split(np.random.default_rng(1), 0.1), two.split(np.random.default_rng(1), 0.1), strict=True):
        for x, y in zip(a.observations.host(), b.observations.host(), strict=True):
            np.testing.assert_array_equal(x, y)
    first, second = (find_rank(p, 1e-6, np.random.default_rng(0)) for p in (one, two))
    assert first.rank == second.rank
    np.testing.assert_allclose(second.path, first.path, rtol=1e-4)


def test_rank_auto_finds_the_rank():
    _, two, truth = pair("partitions:3")
    result = lr.solve(two, "auto")
    assert result.X.rank == 3
    assert truth.distance(result.X) < 1e-4 * truth.norm()


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("columns", [False, True])
def test_normal_equations_are_the_same(columns, weights):
    one, two, _ = pair("partitions:3", weights=weights)
    rng, k = np.random.default_rng(3), 4
    n, other = one.shape[1 if columns else 0], rng.standard_normal((one.shape[0 if columns else 1], k))
    moments = np.abs(rng.standard_normal((len(other), k * (k + 1) // 2))) * 0.1 + np.eye(k)[np.triu_indices(k)]
    options = {"moments": moments, "scale": rng.uniform(1, 2, n), "fixed": 1, "noise": 0.7, "covariance": True}
    given = columns, other, 2 * np.eye(k), rng.standard_normal(k)
    for a, b in zip(*(p.observations.normal_equations(*given, **options) for p in (one, two)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-10)


def test_sweeps_are_the_same():
    from lorank.solvers.alternating import Alternating
    from lorank.solvers.variational import Variational

    one, two, _ = pair("partitions:3", noise=0.2, weights=True)
    for solver in (Alternating(1.0, offsets=True, scaling=0.5), Variational(offsets=True, noise="both")):
        stop = lr.stopping.Iterations(4)
        a, b = (lr.solve(p, 3, solver, start="spectral", stop=stop, max_iter=4) for p in (one, two))
        np.testing.assert_allclose(b.history.residual, a.history.residual, rtol=1e-6)


@pytest.mark.parametrize("strength", [None, 0.5])
def test_factor_models_run_on_it(strength):
    """What the estimators fit, from the start to predictions and their spread."""
    from lorank.factor_models import Settings, fit_factors

    one, two, _ = pair("partitions:3", noise=0.2)
    settings = Settings(3, strength, max_iter=3)
    a, b = (fit_factors(p, 0.0, settings) for p in (one, two))
    rows, cols = np.arange(20), np.arange(20)
    np.testing.assert_allclose(b.model.predict(rows, cols), a.model.predict(rows, cols), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(b.model.spread(rows, cols), a.model.spread(rows, cols), rtol=1e-5)


@pytest.mark.parametrize("options", [{"rank": 3}, {"rank": "auto", "regularization": "learned"}], ids=["given", "chosen"])
def test_estimators_run_on_it(options):
    pytest.importorskip("sklearn")
    one, _, _ = pair("partitions:3", noise=0.2)
    pairs, values = np.column_stack([one.rows, one.cols]), one.y
    a, b = (lr.MatrixCompletion(**options, max_iter=3, device=device).fit(pairs, values) for device in (None, "partitions:3"))
    assert a.rank_ == b.rank_
    np.testing.assert_allclose(b.predict(pairs), a.predict(pairs), rtol=1e-4, atol=1e-4)


def test_what_was_interrupted_can_be_asked_for_again(monkeypatch):
    """Ctrl-C within a program loses nothing that was to be computed."""
    _, two, truth = pair("partitions:3")
    sampled = two.observations.sample(truth.U * truth.s, truth.V)
    engine = two.observations.graph.engine
    run = engine.run

    def interrupted(program):
        monkeypatch.setattr(engine, "run", run)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        two.backend.norm(sampled)
    np.testing.assert_allclose(np.asarray(sampled), two.backend.to_numpy(two.y), rtol=1e-10, atol=1e-10)


def test_sums_follow_one_tree_whoever_holds_the_blocks():
    from lorank.partitions.plan import TreeSum, share_out, tree_total

    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 5, 8, 13):
        terms = rng.standard_normal((count, 4)) * 10.0 ** rng.integers(-8, 8, (count, 1))
        expected = tree_total(list(terms))
        for sites in range(1, count + 1):
            shares = share_out(count, sites)
            assert sorted(k for share in shares for k in share) == list(range(count))
            assert all(shares)
            together = TreeSum(count)
            for k in rng.permutation(sites):
                own = TreeSum(count)
                for block in shares[k]:
                    own.add((block, block + 1), terms[block].copy())
                for where, term in own.terms.items():
                    together.add(where, term)
            np.testing.assert_array_equal(together.total, expected)


@pytest.mark.needs("torch")
def test_blocks_that_torch_holds():
    _, two, truth = pair("partitions:2:torch")
    result = lr.solve(two, 3).numpy()
    assert truth.distance(result.X) < 1e-4 * truth.norm()
