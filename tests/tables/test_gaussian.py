"""Gaussians of tables with gaps, against the textbook's formulas row by row."""

from __future__ import annotations

import numpy as np
import pytest

from lorank.tables import kernel_ridge as kernel
from lorank.tables.factor_analysis import FactorAnalysis, choose_rank, fit_factor_analysis
from lorank.tables.gaussian import Gaussian, _inverse, fit_gaussian
from lorank.tables.kernel_ridge import _cholesky, _leave_one_out, _renumbered, fit_bumps
from lorank.tables.linear import fit_linear, margins_of
from lorank.tables.patterns import NATIVE, fill_gaps, find_patterns
from lorank.tables.table_model import fit_linears


def problem(n=60, d=6, share=0.35, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, d))
    S, mean = A @ A.T / d + 0.1 * np.eye(d), rng.standard_normal(d)
    whole = rng.multivariate_normal(mean, S, n)
    table = np.where(rng.random((n, d)) < share, np.nan, whole)
    table[3] = np.nan  # a row without anything
    table[4] = whole[4]
    table[7:12] = np.where(np.arange(d) < 2, np.nan, whole[7:12])  # a pattern that comes again
    return whole, table, Gaussian(mean, S)


def conditional(row, mean, S):
    """Mean and covariance of the missing cells of one row, given the others: as in a textbook."""
    m, o = np.isnan(row), ~np.isnan(row)
    if not o.any():
        return mean, S
    B = S[np.ix_(m, o)] @ np.linalg.inv(S[np.ix_(o, o)])
    return mean[m] + B @ (row[o] - mean[o]), S[np.ix_(m, m)] - B @ S[np.ix_(o, m)]


def test_conditional_means_and_deviations_are_the_textbook_s():
    _, table, model = problem()
    filled, deviation = model.conditional(table)
    for row, got, spread in zip(table, filled, deviation, strict=True):
        gaps = np.isnan(row)
        np.testing.assert_array_equal(got[~gaps], row[~gaps])
        if gaps.any():
            mean, covariance = conditional(row, model.mean, model.covariance)
            np.testing.assert_allclose(got[gaps], mean, rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(spread[gaps], np.sqrt(np.diag(covariance)), rtol=1e-7, atol=1e-8)
        assert (spread[~gaps] == 0).all()


def test_one_round_is_the_textbook_s():
    _, table, start = problem()
    d, n = table.shape[1], len(table)
    first, second = np.zeros(d), np.zeros((d, d))
    for row in table:
        gaps, x, extra = np.isnan(row), row.copy(), np.zeros((d, d))
        if gaps.any():
            x[gaps], extra[np.ix_(gaps, gaps)] = conditional(row, start.mean, start.covariance)
        first += x
        second += np.outer(x, x) + extra
    mean = first / n
    S = second / n - np.outer(mean, mean)
    got = fit_gaussian(table, 0.0, start=start, max_iter=1)
    np.testing.assert_allclose(got.mean, mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(got.covariance, S, rtol=1e-4, atol=1e-5)  # variances are made larger by a millionth


def test_a_known_covariance_is_recovered():
    whole, _, truth = problem(n=6000, seed=1)
    rng = np.random.default_rng(2)
    table = np.where(rng.random(whole.shape) < 0.3, np.nan, whole)
    got = fit_gaussian(table, 0.0, max_iter=200, tol=1e-5)
    scale = np.sqrt(np.diag(truth.covariance))
    assert np.abs((got.covariance - truth.covariance) / np.outer(scale, scale)).max() < 0.08
    assert np.abs((got.mean - truth.mean) / scale).max() < 0.08


def test_draws_have_the_conditional_mean_and_spread():
    _, table, model = problem(n=12)
    rng = np.random.default_rng(0)
    draws = np.stack([model.draw(table, rng) for _ in range(800)])
    filled, deviation = model.conditional(table)
    np.testing.assert_allclose(draws.mean(axis=0), filled, atol=6 * deviation.max() / np.sqrt(800))
    np.testing.assert_allclose(draws.std(axis=0), deviation, atol=0.1 * deviation.max())


def test_rows_of_one_pattern_share_a_batch():
    missing = np.zeros((50, 5), bool)
    missing[:20, 1] = missing[20:30, [0]] = True
    missing[30:34, 2:] = True
    groups = find_patterns(missing).batches
    rows = np.sort(np.concatenate([g.rows for g in groups]))
    np.testing.assert_array_equal(rows, np.arange(34))
    for g in groups:
        for row, pattern in zip(g.rows, g.pattern, strict=True):
            np.testing.assert_array_equal(np.flatnonzero(missing[row]), g.gaps[pattern])
        np.testing.assert_array_equal(np.bincount(g.pattern), g.counts)


def test_patterns_of_many_columns():
    rng = np.random.default_rng(0)
    missing = np.repeat(rng.random((6, 150)) < 0.1, 3, axis=0)[rng.permutation(18)]
    found = find_patterns(missing)
    assert len(found.row_ptr) == 7
    for p in range(6):
        for row in found.rows[found.row_ptr[p] : found.row_ptr[p + 1]]:
            np.testing.assert_array_equal(
                np.flatnonzero(missing[row]), found.columns[found.column_ptr[p] : found.column_ptr[p + 1]]
            )
    assert not len(find_patterns(np.zeros((4, 3), bool)).rows)


@pytest.mark.skipif(not NATIVE, reason="the extension is not there")
@pytest.mark.parametrize("d", [1, 5, 8, 13, 30])
def test_the_native_pass_and_its_twin_agree(d):
    rng = np.random.default_rng(d)
    A = rng.standard_normal((d, 2 * d))
    K = A @ A.T / d + 0.1 * np.eye(d)
    missing = rng.random((1200, d)) < 0.5
    missing[:300] = missing[0]
    Z0 = np.where(missing, 0.0, rng.standard_normal((1200, d)))
    patterns = find_patterns(missing)
    found = []
    for native in (True, False):
        Z, deviations, moments = Z0.copy(), np.zeros_like(Z0), np.ones((d, d))
        fill_gaps(K, Z0 @ K, Z, patterns, deviations=deviations, moments=moments, native=native)
        found.append((Z, deviations, moments))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-8)


@pytest.mark.skipif(not NATIVE, reason="the extension is not there")
def test_the_native_pass_has_as_many_gaps_as_there_are():
    """One row with each number of gaps: rows of registers up to 64 of them, and memory beyond."""
    d = 75
    rng = np.random.default_rng(0)
    A = rng.standard_normal((d, 2 * d))
    K = A @ A.T / d + 0.1 * np.eye(d)
    missing = np.zeros((d, d), bool)
    for row in range(d):
        missing[row, rng.permutation(d)[: row + 1]] = True
    Z = np.where(missing, 0.0, rng.standard_normal((d, d)))
    G, deviations, moments = Z @ K, np.zeros((d, d)), np.zeros((d, d))
    fill_gaps(K, G, Z, find_patterns(missing), deviations=deviations, moments=moments, native=True)
    covariances = np.zeros((d, d))
    for row in range(d):
        gaps = np.flatnonzero(missing[row])
        inverse = np.linalg.inv(K[np.ix_(gaps, gaps)])
        np.testing.assert_allclose(Z[row, gaps], -inverse @ G[row, gaps], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(deviations[row, gaps], np.sqrt(np.diag(inverse)), rtol=1e-8)
        covariances[np.ix_(gaps, gaps)] += inverse
    np.testing.assert_allclose(moments, covariances, rtol=1e-8, atol=1e-8)


@pytest.mark.skipif(not NATIVE, reason="the extension is not there")
def test_the_native_pass_refuses_what_does_not_fit():
    patterns = find_patterns(np.eye(3, dtype=bool))
    good = np.eye(3), patterns.column_ptr, patterns.columns, patterns.row_ptr, patterns.rows, np.ones((3, 3)), np.ones((3, 3))
    from lorank import _kernels

    _kernels.fill_gaps(*good)
    for place, bad in ((0, np.eye(4)), (2, patterns.columns + 1), (3, patterns.row_ptr[::-1].copy()), (4, patterns.rows - 1)):
        with pytest.raises(ValueError, match="must"):
            _kernels.fill_gaps(*good[:place], bad, *good[place + 1 :])


def test_factor_analysis_is_a_gaussian_of_that_covariance():
    rng = np.random.default_rng(3)
    model = FactorAnalysis(rng.standard_normal(7), rng.standard_normal((7, 2)), rng.uniform(0.2, 1, 7))
    table = np.where(rng.random((40, 7)) < 0.4, np.nan, rng.standard_normal((40, 7)))
    table[0] = np.nan
    got, deviation = model.conditional(table)
    want, spread = Gaussian(model.mean, model.covariance).conditional(table)
    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(deviation, spread, rtol=1e-7, atol=1e-8)


def test_factor_analysis_recovers_a_covariance_and_its_rank():
    rng = np.random.default_rng(4)
    W = rng.standard_normal((20, 2))
    whole = rng.standard_normal((1500, 2)) @ W.T + 0.5 * rng.standard_normal((1500, 20))
    table = np.where(rng.random(whole.shape) < 0.3, np.nan, whole)
    held = ~np.isnan(table) & (rng.random(table.shape) < 0.1)
    rank = choose_rank(table, held).loadings.shape[1]
    assert 2 <= rank <= 4
    got = fit_factor_analysis(table, 2, max_iter=200, tol=1e-4).covariance
    truth = W @ W.T + 0.25 * np.eye(20)
    assert np.linalg.norm(got - truth) < 0.12 * np.linalg.norm(truth)


@pytest.mark.parametrize("strength", [0.0, 50.0])
def test_shrinking_leaves_variances(strength):
    whole, _, _ = problem(n=300)
    got = fit_gaussian(whole, strength, max_iter=1)
    np.testing.assert_allclose(np.diag(got.covariance), whole.var(axis=0), rtol=1e-5)
    off = np.cov(whole.T, bias=True)[0, 1] * 300 / (300 + strength)
    np.testing.assert_allclose(got.covariance[0, 1], off, rtol=1e-6, atol=1e-9)


def test_cells_left_out_of_a_ridge_regression_in_turn():
    rng = np.random.default_rng(0)
    P, penalty = rng.standard_normal((40, 6)).astype(np.float32), 0.7 * np.eye(6)
    r = rng.standard_normal(40).astype(np.float32)
    weights, left = _leave_one_out(P, r, penalty)
    np.testing.assert_allclose(weights, np.linalg.solve(P.T @ P + penalty, P.T @ r), rtol=1e-3, atol=1e-4)
    for i in range(0, 40, 9):
        rest = np.arange(40) != i
        without = np.linalg.solve(P[rest].T @ P[rest] + penalty, P[rest].T @ r[rest])
        np.testing.assert_allclose(left[i], r[i] - P[i] @ without, rtol=1e-3, atol=1e-3)


def test_a_few_factors_compete_where_rows_are_few():
    rng = np.random.default_rng(60)
    whole = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40)) + 0.7 * rng.standard_normal((60, 40))
    table = np.where(rng.random(whole.shape) < 0.3, np.nan, whole)
    held = ~np.isnan(table) & (rng.random(table.shape) < 0.15)
    linears, plenty = fit_linears(table, held, margins_of(table))
    assert isinstance(linears[0].gaussian, FactorAnalysis)
    assert not plenty
    again = linears[0].refit(np.where(held, np.nan, table), 3)
    assert again.gaussian.loadings.shape == linears[0].gaussian.loadings.shape
    noise = rng.standard_normal((60, 40))
    assert len(fit_linears(np.where(rng.random(noise.shape) < 0.3, np.nan, noise), held, margins_of(noise))[0]) >= 1


def test_the_inverse_of_a_singular_covariance():
    """As of one that rounding has made indefinite: finite, and right where the covariance says something."""
    B = np.random.default_rng(1).standard_normal((6, 3))
    S = B @ B.T - 1e-12 * np.eye(6)
    found = _inverse(S)
    np.testing.assert_allclose(S @ found @ S, S, atol=1e-9)
    np.testing.assert_allclose(found, found.T, rtol=1e-6)
    assert np.linalg.eigvalsh(found).min() > 0
    regular = S + np.eye(6)
    np.testing.assert_allclose(_inverse(regular), np.linalg.inv(regular), rtol=1e-9, atol=1e-12)


def test_a_factor_of_bumps_that_are_alike():
    B = np.random.default_rng(1).standard_normal((30, 4))
    A = B @ B.T - 1e-5 * np.eye(30)
    L = _cholesky(A)
    assert not np.triu(L, 1).any()
    assert abs(L @ L.T - A).max() < 1e-3 * np.trace(A)


def test_bumps_of_some_of_many_rows(monkeypatch):
    """What they learn from a part of the rows tells the errors of the others."""
    monkeypatch.setattr(kernel, "ROWS", 300)
    rng = np.random.default_rng(2)
    filled = rng.uniform(-2, 2, (700, 2))
    errors = np.column_stack([np.sin(2 * filled[:, 1]), 1e-3 * rng.standard_normal(700)])
    place = np.where(rng.random((700, 2)) < 0.9, np.arange(700)[:, None], -1)
    fold = np.where(place >= 0, rng.integers(0, 4, (700, 2)), -1)
    bumps, said = fit_bumps(filled, place, fold, errors, np.random.default_rng(0))
    assert bumps is not None
    assert bumps.columns.tolist() == [True, False]
    assert (bumps(filled)[:, 0] - errors[:, 0]).std() < 0.3 * errors[:, 0].std()
    known = ~np.isnan(said[:, 0])
    assert known.sum() <= 300
    assert (place[known, 0] >= 0).all()
    assert (said[known, 0] - errors[known, 0]).std() < 0.3 * errors[:, 0].std()


def test_numbers_anew():
    kept, place = _renumbered(np.array([[7, -1], [3, 7], [-1, 9]]))
    assert kept.tolist() == [3, 7, 9]
    assert place.tolist() == [[1, -1], [0, 1], [-1, 2]]
    assert _renumbered(np.array([[4, 2]]))[1].tolist() == [[1, 0]]


def test_draws_and_deviations_through_margins():
    """Of a column that is the exponential of a normal one, given the other."""
    rng = np.random.default_rng(3)
    z = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 4000)
    whole = np.exp(z)
    linear = fit_linear(whole, margins_of(whole))
    table = np.column_stack([np.full(20_000, np.exp(0.5)), np.full(20_000, np.nan)])
    drawn = linear.draw(table, rng)
    np.testing.assert_array_equal(drawn[:, 0], table[:, 0])
    sd = np.sqrt(1 - 0.81)
    np.testing.assert_allclose(np.log(drawn[:, 1]).mean(), 0.45, atol=0.05)
    np.testing.assert_allclose(np.log(drawn[:, 1]).std(), sd, rtol=0.1)
    filled, deviation = linear.conditional(table[:1])
    np.testing.assert_allclose(filled[0, 1], np.exp(0.45 + sd**2 / 2), rtol=0.1)
    np.testing.assert_allclose(deviation[0, 1], (np.exp(0.45 + sd) - np.exp(0.45 - sd)) / 2, rtol=0.1)
