"""Factor analysis, against plain sums over the observed cells."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lorank as lr
from lorank.tables.factor_analysis import RIDGE, FactorAnalysis, MaskedTable, choose_rank, fit_factor_analysis
from lorank.tables.gaussian import Gaussian


def a_table(n=40, d=7, r=2, seed=0):
    rng = np.random.default_rng(seed)
    table = 0.3 + rng.standard_normal((n, r)) @ rng.standard_normal((r, d)) + 0.2 * rng.standard_normal((n, d))
    gaps = rng.random((n, d)) < 0.3
    gaps[:, [1, 4]] = False
    return np.where(gaps, np.nan, table), rng


def test_products_equal_dense_ones_over_observed_cells():
    table, rng = a_table()
    cells, known = MaskedTable.of(table), ~np.isnan(table)
    mean, W, z = rng.standard_normal(7), rng.standard_normal((7, 3)), rng.standard_normal((40, 3))
    centred = np.where(known, table - mean, 0.0)
    np.testing.assert_allclose(cells.centered_times(mean, W), centred @ W, atol=1e-12)
    np.testing.assert_allclose(cells.known_sums(z), known.T @ z, atol=1e-12)
    plain = np.einsum("ij,ja,jb->iab", known, W, W)
    np.testing.assert_allclose(cells.outer_sums(W, W), plain, atol=1e-12)


def plain_round(table, model):
    """One EM step, cell by cell."""
    known, (mean, W, noise) = ~np.isnan(table), (model.mean, model.loadings, model.noise)
    r = W.shape[1]
    z, second = [], []
    for row, there in zip(table, known, strict=True):
        own = W[there]
        covariance = np.linalg.inv(np.eye(r) + (own / noise[there, None]).T @ own)
        z.append(covariance @ (own / noise[there, None]).T @ (row - mean)[there])
        second.append(covariance + np.outer(z[-1], z[-1]))
    loadings, left, means = np.empty_like(W), np.empty_like(noise), np.empty_like(mean)
    for j in range(len(mean)):
        there = known[:, j]
        x, Z = (table[there, j] - mean[j]), np.array(z)[there]
        loadings[j] = np.linalg.solve(np.array(second)[there].sum(axis=0) + RIDGE * np.eye(r), Z.T @ x)
        left[j] = (x @ x - loadings[j] @ (Z.T @ x)) / there.sum()
        means[j] = mean[j] + (x - Z @ loadings[j]).mean()
    return means, loadings @ np.linalg.cholesky(np.mean(second, axis=0)), left


def test_an_em_step_equals_the_plain_formulas():
    table, _ = a_table()
    start = fit_factor_analysis(table, 2, max_iter=2)
    found = fit_factor_analysis(table, 2, start=start, max_iter=1)
    for own, plain in zip((found.mean, found.loadings, found.noise), plain_round(table, start), strict=True):
        np.testing.assert_allclose(own, plain, rtol=1e-9, atol=1e-9)


def test_a_column_without_any_value_keeps_its_mean():
    table, _ = a_table()
    start = fit_factor_analysis(table, 2)
    table[:, 0] = np.nan
    found = fit_factor_analysis(table, 2, start=start, max_iter=3)
    assert found.mean[0] == start.mean[0]
    assert np.isfinite(found.fill(table)).all()
    assert isinstance(found, FactorAnalysis)


def test_draws_have_the_conditional_mean_and_covariance():
    table, rng = a_table()
    model = fit_factor_analysis(table, 2, max_iter=30)
    row = np.array([np.nan, 0.5, np.nan, 1.0, -0.5, np.nan, 0.2])
    m, o, S = np.isnan(row), ~np.isnan(row), model.covariance
    gain = S[np.ix_(m, o)] @ np.linalg.inv(S[np.ix_(o, o)])
    mean, covariance = model.mean[m] + gain @ (row - model.mean)[o], S[np.ix_(m, m)] - gain @ S[np.ix_(o, m)]
    n = 20_000
    drawn = model.draw(np.tile(row, (n, 1)), rng)
    np.testing.assert_array_equal(drawn[:, o], np.tile(row[o], (n, 1)))
    sizes = np.sqrt(np.diag(covariance))
    assert (abs(drawn[:, m].mean(axis=0) - mean) < 6 * sizes / np.sqrt(n)).all()
    assert (abs(np.cov(drawn[:, m].T) - covariance) < 6 * np.outer(sizes, sizes) * np.sqrt(2 / n)).all()


@pytest.mark.parametrize("shape", [(4, 6), (70, 90)])
def test_centered_and_zero_residuals_are_decomposed(shape):
    rng = np.random.default_rng(0)
    centred = rng.standard_normal(shape)
    centred -= centred.mean(axis=0)
    assert np.isfinite(fit_factor_analysis(centred, 1).loadings).all()
    once = np.full(shape, np.nan)  # one known value a column: the residual from the means is zero
    once[rng.integers(0, shape[0], shape[1]), np.arange(shape[1])] = rng.standard_normal(shape[1])
    assert np.isfinite(fit_factor_analysis(once, 1).loadings).all()


@pytest.mark.parametrize("time", [None, True])
def test_small_random_tables_are_filled(time):
    pytest.importorskip("sklearn")
    for seed in range(40):
        rng = np.random.default_rng(seed)
        table = np.where(rng.random((4, 6)) < 0.2, np.nan, rng.standard_normal((4, 6)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # columns without any value
            assert np.isfinite(lr.TableImputer(time=time).fit_transform(table)).all(), seed


def test_conditionals_equal_those_of_the_gaussian_with_that_covariance():
    rng = np.random.default_rng(3)
    model = FactorAnalysis(rng.standard_normal(7), rng.standard_normal((7, 2)), rng.uniform(0.2, 1, 7))
    table = np.where(rng.random((40, 7)) < 0.4, np.nan, rng.standard_normal((40, 7)))
    table[0] = np.nan
    got, deviation = model.conditional(table)
    want, spread = Gaussian(model.mean, model.covariance).conditional(table)
    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(deviation, spread, rtol=1e-7, atol=1e-8)


def test_covariance_and_rank_are_recovered():
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
