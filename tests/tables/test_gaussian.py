"""Gaussian models, against the plain formulas row by row."""

from __future__ import annotations

import numpy as np
import pytest

from lorank.tables.gaussian import Anderson, Gaussian, ObservedValues, em_step, fit_gaussian, inverse, pairwise_start
from lorank.tables.patterns import find_patterns


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
    """Conditional mean and covariance of the missing values of one row."""
    m, o = np.isnan(row), ~np.isnan(row)
    if not o.any():
        return mean, S
    B = S[np.ix_(m, o)] @ np.linalg.inv(S[np.ix_(o, o)])
    return mean[m] + B @ (row[o] - mean[o]), S[np.ix_(m, m)] - B @ S[np.ix_(o, m)]


def test_conditional_means_and_deviations_equal_the_plain_formulas():
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


def test_an_em_step_equals_the_plain_formulas():
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


@pytest.mark.parametrize("strength", [0.0, 50.0])
def test_regularization_shrinks_correlations_and_keeps_variances(strength):
    whole, _, _ = problem(n=300)
    got = fit_gaussian(whole, strength, max_iter=1)
    np.testing.assert_allclose(np.diag(got.covariance), whole.var(axis=0), rtol=1e-5)
    off = np.cov(whole.T, bias=True)[0, 1] * 300 / (300 + strength)
    np.testing.assert_allclose(got.covariance[0, 1], off, rtol=1e-6, atol=1e-9)


def test_inverse_of_an_indefinite_covariance_is_finite():
    """Indefinite by rounding: the inverse is finite, and exact on the range."""
    B = np.random.default_rng(1).standard_normal((6, 3))
    S = B @ B.T - 1e-12 * np.eye(6)
    found = inverse(S)
    np.testing.assert_allclose(S @ found @ S, S, atol=1e-9)
    np.testing.assert_allclose(found, found.T, rtol=1e-6)
    assert np.linalg.eigvalsh(found).min() > 0
    regular = S + np.eye(6)
    np.testing.assert_allclose(inverse(regular), np.linalg.inv(regular), rtol=1e-9, atol=1e-12)


def test_anderson_solves_a_linear_iteration_in_as_many_steps_as_it_has_rates():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    A = (Q * np.repeat([0.98, 0.9, 0.3], 2)) @ Q.T  # three rates: four rounds show them all
    truth = rng.standard_normal(6)
    ahead, x = Anderson(), np.zeros(6)
    for _ in range(5):
        x = ahead(x, truth + A @ (x - truth))
    assert np.linalg.norm(x - truth) < 1e-3 * np.linalg.norm(truth)  # plain rounds: 0.9
    ahead.restart()
    assert len(ahead.outputs) == len(ahead.steps) == 1


def gaps(n=400, d=5, share=0.5, seed=1):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, d))
    whole = rng.standard_normal((n, d)) @ A.T
    whole /= whole.std(axis=0)
    return np.where(rng.random((n, d)) < share, np.nan, whole)


def test_accelerated_em_converges_to_the_limit_of_plain_em():
    table = gaps()
    cells, patterns = ObservedValues(table, np.isnan(table)), find_patterns(np.isnan(table))
    start = pairwise_start(cells, 2.0)
    mean, S = start.mean, start.covariance
    for _ in range(1500):
        mean, S = em_step(cells, patterns, mean, S, 2.0)
    got = fit_gaussian(table, 2.0, max_iter=300, tol=1e-8)
    np.testing.assert_allclose(got.covariance, S, atol=1e-5)
    np.testing.assert_allclose(got.mean, mean, atol=1e-5)
    assert got.n_iter < 150


def test_the_start_has_pairwise_covariances_and_is_positive_definite():
    table = gaps(share=0.2)
    start = pairwise_start(ObservedValues(table, np.isnan(table)), 0.0)
    for j in range(5):
        for k in range(5):
            both = ~np.isnan(table[:, j]) & ~np.isnan(table[:, k])
            centred = table[both][:, [j, k]] - start.mean[[j, k]]
            np.testing.assert_allclose(start.covariance[j, k], np.mean(centred[:, 0] * centred[:, 1]), rtol=1e-8, atol=1e-10)
    few = np.where(np.random.default_rng(0).random((6, 9)) < 0.6, np.nan, np.random.default_rng(1).standard_normal((6, 9)))
    few[:, 0] = np.nan  # nothing known, and columns without a row in common
    assert np.linalg.eigvalsh(pairwise_start(ObservedValues(few, np.isnan(few)), 1.0).covariance).min() > 0
    assert np.isfinite(fit_gaussian(few, 1.0).covariance).all()


def test_observed_values_are_unchanged():
    table = gaps(40) * 1e8 + np.pi
    missing = np.isnan(table)
    filled = Gaussian(np.full(5, 3.0), np.eye(5)).fill(table)
    np.testing.assert_array_equal(filled[~missing], table[~missing])
    np.testing.assert_array_equal(filled[missing], 3.0)
