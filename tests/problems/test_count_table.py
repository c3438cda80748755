"""Whole tables of counts, zeros included: dense twins on every backend, solvers, thinning, bad input by name."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import lorank as lr
from helpers import dense_point, dense_tangent, host, random_point, random_tangent
from lorank.backends import exponential_table


def table(seed=0, shape=(23, 17), rank=2, mean=1.0):
    rng = np.random.default_rng(seed)
    X = 0.7 * rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    sizes = [np.exp(0.7 * rng.standard_normal(n)) for n in shape]
    return rng.poisson(mean * np.outer(*sizes) * np.exp(X))


def dense(problem, X):
    """Means, and the gradient of half the deviance plus the ridge."""
    z = dense_point(X)
    mean = np.exp(z + problem.offsets[0][:, None] + problem.offsets[1])
    return mean, mean - host_counts(problem) + problem.ridge * z


@pytest.mark.parametrize("offsets", ["totals", "columns"])
def test_learned_intercepts_against_dense(offsets, backend, monkeypatch):
    """They fit best: each row's expected total is the counted one; and the gradient is that of the deviance so fitted."""
    monkeypatch.setattr(exponential_table, "BLOCK", 60)
    monkeypatch.setattr(exponential_table, "DEVICE_BLOCK", 60)
    Y, rng = table(), np.random.default_rng(1)
    Y[3] = 0  # a row without a count keeps its offset
    problem = lr.CountTable(scipy.sparse.csr_array(Y), offsets, ridge=0.1, intercepts=True, backend=backend)
    X = random_point(rng, Y.shape, 2, np.dtype(float), backend)
    learned, seen = problem.learned_offsets(X), Y.sum(1) > 0

    def fitted(z):
        base = np.exp(z + problem.offsets[0][:, None] + problem.offsets[1])
        return np.where(seen[:, None], base * (Y.sum(1) / base.sum(1))[:, None], base)

    def value(z):
        mean = fitted(z)
        return (mean - Y + Y * np.log(np.maximum(Y, 1) / np.where(Y > 0, mean, 1))).sum() + 0.05 * (z**2).sum()

    z = dense_point(X)
    mean = np.exp(z + learned[:, None] + problem.offsets[1])
    np.testing.assert_allclose(mean, fitted(z), rtol=1e-9)
    np.testing.assert_allclose(mean.sum(1)[seen], Y.sum(1)[seen], rtol=1e-9)
    assert learned[3] == problem.offsets[0][3]
    G, g = problem.gradient(X), mean - Y + 0.1 * z
    np.testing.assert_allclose(host(G.GV), g @ host(X.V), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(host(G.GhU), g.T @ host(X.U), rtol=1e-9, atol=1e-9)
    assert G.residual_norm**2 / 2 == pytest.approx(value(z))
    w = dense_tangent(random_tangent(rng, X))
    assert (g * w).sum() == pytest.approx((value(z + 1e-5 * w) - value(z - 1e-5 * w)) / 2e-5, rel=1e-5)
    np.testing.assert_allclose(problem.means(X, [3, 5], [1, 2]), mean[[3, 5], [1, 2]], rtol=1e-9)


def test_learned_intercepts_fit_better_at_the_same_rank():
    Y = table(3, (60, 40))
    found = {}
    for learned in (False, True):
        problem = lr.CountTable(Y, intercepts=learned)
        result = lr.solve(problem, 2)
        assert result.converged
        found[learned] = problem.deviance(result.X)
    assert found[True] < found[False]
    with pytest.raises(ValueError, match="intercepts"):
        lr.CountTable(Y, intercepts="yes")


def host_counts(problem):
    entries = problem.observations.host()
    return scipy.sparse.csr_array((entries.values, entries.indices, entries.indptr), shape=problem.shape).toarray()


@pytest.mark.parametrize(
    "offsets",
    ["totals", "columns", "none", (np.linspace(-1, 1, 23), np.linspace(0, 1, 17))],
    ids=lambda o: o if isinstance(o, str) else "own",
)
def test_against_dense(offsets, backend, monkeypatch):
    monkeypatch.setattr(exponential_table, "BLOCK", 60)  # several blocks
    monkeypatch.setattr(exponential_table, "DEVICE_BLOCK", 60)
    Y, rng = table(), np.random.default_rng(1)
    problem = lr.CountTable(scipy.sparse.csr_array(Y), offsets, ridge=0.1, backend=backend)
    X = random_point(rng, Y.shape, 2, np.dtype(float), backend)
    G, (mean, g) = problem.gradient(X), dense(problem, X)
    np.testing.assert_allclose(host(G.GV), g @ host(X.V), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(host(G.GhU), g.T @ host(X.U), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(host(G.squared_norms[0]), (g**2).sum(1), rtol=1e-9)
    np.testing.assert_allclose(host(G.squared_norms[1]), (g**2).sum(0), rtol=1e-9)
    v, u = rng.standard_normal((17, 3)), rng.standard_normal((23, 1))
    np.testing.assert_allclose(host(G.times(backend.asarray(v))), g @ v, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(host(G.adjoint_times(backend.asarray(u))), g.T @ u, rtol=1e-9, atol=1e-8)
    deviance = 2 * (mean - Y + Y * np.log(np.maximum(Y, 1) / np.where(Y > 0, mean, 1))).sum()
    assert problem.deviance(X) == pytest.approx(deviance)
    assert G.residual_norm**2 == pytest.approx(deviance + 0.1 * (dense_point(X) ** 2).sum())
    xi = random_tangent(rng, X)
    w = dense_tangent(xi)
    step = G.exact_step(*xi.factors())
    there = np.exp(dense_point(X) + step * w + problem.offsets[0][:, None] + problem.offsets[1])
    left = ((there - Y + 0.1 * (dense_point(X) + step * w)) * w).sum()
    assert abs(left) <= 0.51 * abs((g * w).sum())
    pearson = ((Y - mean) ** 2 / mean).sum()
    assert G.dispersion == pytest.approx(np.sqrt(pearson / (Y.size - problem.dof(2))))
    rows, cols = np.array([0, 5]), np.array([3, 16])
    np.testing.assert_allclose(problem.means(X, rows, cols), mean[rows, cols])


@pytest.mark.parametrize("solver", ["auto", "rcg", "adaptive-rgd", "prgd"])
def test_solvers_lower_the_deviance_to_what_a_list_of_all_entries_allows(solver):
    Y = table(3, (40, 30))
    problem = lr.CountTable(Y, "none", ridge=0.05)
    rows, cols = np.nonzero(np.ones_like(Y))
    # With these offsets every entry has the same exposure.
    exposure = np.full(Y.size, float(np.exp(problem.offsets[0][0] + problem.offsets[1][0])))
    listed = lr.Completion(rows, cols, Y.ravel(), exposure=exposure, loss=lr.losses.Poisson(ridge=0.05 / exposure[0]))
    one = lr.solve(problem, 2, solver, stop=lr.stopping.RelativeChange(1e-7), max_iter=800)
    two = lr.solve(listed, 2, "rcg", start=one.X, stop=lr.stopping.RelativeChange(1e-7), max_iter=800)
    assert problem.gradient(one.X).residual_norm == pytest.approx(listed.gradient(one.X).residual_norm, rel=1e-9)
    assert one.residual < (1 + 1e-3) * two.residual


def test_it_settles_and_tells_the_dispersion():
    Y = table(4, (80, 60), mean=3.0)
    result = lr.solve(lr.CountTable(Y), 3)
    assert result.status == "settled"
    assert result.converged
    assert result.noise == pytest.approx(1, rel=0.4)
    single = lr.solve(lr.CountTable(Y, dtype="float32"), 3)
    assert single.residual == pytest.approx(result.residual, rel=1e-3)


def test_the_rank_by_thinning():
    rng = np.random.default_rng(5)
    X = 0.8 * rng.standard_normal((90, 2)) @ rng.standard_normal((2, 70))
    problem = lr.CountTable(rng.poisson(2 * np.exp(X)), "none", ridge=1e-2)
    kept, held = problem.split(rng, 0.2)
    np.testing.assert_array_equal(host_counts(kept) + host_counts(held), host_counts(problem))
    assert held.observations.host().values.sum() == pytest.approx(0.2 * host_counts(problem).sum(), rel=0.1)
    assert lr.solve(problem, "auto").X.rank in (2, 3)


def test_rows_without_a_count_stay_zero():
    Y = table(6)
    Y[4] = 0
    Y[:, 7] = 0
    result = lr.solve(lr.CountTable(Y), 2)
    assert np.isfinite(result.X.to_dense()).all()
    assert abs(result.X.to_dense()[4]).max() < 1e-3


def test_threads_change_nothing(monkeypatch):
    Y = table(7, (60, 50))
    monkeypatch.setattr(exponential_table, "BLOCK", 500)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(exponential_table, "_threads", lambda threads=threads: threads)
        found.append(lr.solve(lr.CountTable(Y), 2, stop=lr.stopping.Iterations(5)).X.to_dense())
    np.testing.assert_array_equal(*found)


@pytest.mark.needs("torch")
def test_it_moves():
    Y = table(8)
    problem = lr.CountTable(Y)
    one, two = (lr.solve(p, 2, stop=lr.stopping.Iterations(4)) for p in (problem, problem.to("cpu")))
    np.testing.assert_allclose(two.history.residual, one.history.residual, rtol=1e-8)


@pytest.mark.parametrize(
    ("counts", "options", "words"),
    [
        ([[1, -1], [0, 2]], {}, r"counts\[0, 1\] = -1: counts are 0, 1, 2"),
        (scipy.sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.5]])), {}, r"counts\[1, 1\] = 0.5: counts are whole numbers"),
        ([[1, np.nan], [0, 2]], {}, r"counts\[0, 1\] = nan: .*Completion"),
        (np.zeros((2, 3)), {}, "all 2 x 3 counts are zero"),
        ([1, 2, 3], {}, "counts must be a table"),
        (np.array([["a", "b"]]), {}, "counts must be a table of numbers"),
        (np.ones((2, 2)), {"offsets": "depth"}, "offsets must be one of 'totals'"),
        (np.ones((2, 2)), {"offsets": ([0, 0], [0, np.inf])}, "offsets of columns must be 2 finite logarithms"),
        (np.ones((2, 2)), {"offsets": ([400, 0], [0, 900])}, "offsets must be logarithms"),
        (np.ones((2, 2)), {"offsets": 3}, "offsets must be 'totals'"),
        (np.ones((2, 2)), {"ridge": -1}, "ridge must"),
        (np.ones((2, 2)), {"dtype": "int"}, "dtype must be one of"),
    ],
)
def test_what_is_refused(counts, options, words):
    with pytest.raises(ValueError, match=words):
        lr.CountTable(counts, **options)


def test_second_order_says_what_is_missing():
    with pytest.raises(ValueError, match="GaussNewton needs a MatrixProblem"):
        lr.solve(lr.CountTable(table()), 2, "gauss-newton")


def test_fingerprints_tell_tables_apart():
    counts = table()
    moved = counts[:, ::-1].copy()
    moved[moved > 0] = counts[counts > 0]  # the same counts one after the other, in other places
    given = (counts, {}), (moved, {}), (counts, {"offsets": "none"}), (counts, {"ridge": 0.5}), (counts, {"intercepts": True})
    found = [lr.CountTable(a, **options).fingerprint() for a, options in given]
    assert len(set(found)) == len(found)
    assert lr.CountTable(scipy.sparse.csr_array(counts)).fingerprint() == found[0]
