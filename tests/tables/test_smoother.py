"""Dynamic factor model, against the dense Gaussian of all cells."""

from __future__ import annotations

import numpy as np

from lorank.tables.smoother import Smoother, fit_smoother


def test_factors_equal_those_of_the_dense_gaussian():
    rng = np.random.default_rng(0)
    n, d, r = 15, 4, 2
    model = Smoother(rng.standard_normal(d), rng.standard_normal((d, r)), rng.uniform(0.1, 1, d), np.array([0.9, 0.4]))
    times = np.cumsum(rng.uniform(0.3, 3, n))  # irregular
    table = np.where(rng.random((n, d)) < 0.4, np.nan, rng.standard_normal((n, d)))
    table[5:8] = np.nan  # a block gap
    apart = np.abs(times[:, None] - times)
    prior = np.stack([phi**apart for phi in model.autocorrelation])  # (r, n, n)
    joint = np.einsum("ak,knm,bk->namb", model.loadings, prior, model.loadings).reshape(n * d, n * d)
    joint += np.diag(np.tile(model.noise, n))
    known = ~np.isnan(table).ravel()
    left = (table - model.mean).ravel()[known]
    cross = np.einsum("knm,bk->nkmb", prior, model.loadings).reshape(n * r, n * d)[:, known]
    want = cross @ np.linalg.solve(joint[np.ix_(known, known)], left)
    got = model.factors(table, np.diff(times))
    np.testing.assert_allclose(got.ravel(), want, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(model(table, np.diff(times)), model.mean + got @ model.loadings.T, rtol=1e-12, atol=1e-12)


def test_a_block_gap_is_smoothed_from_both_sides():
    rng = np.random.default_rng(1)
    n, d, phi = 800, 6, np.array([0.97, 0.8])
    z = np.zeros((n, 2))
    for t in range(1, n):
        z[t] = phi * z[t - 1] + np.sqrt(1 - phi**2) * rng.standard_normal(2)
    whole = z @ rng.standard_normal((2, d)) + 0.3 * rng.standard_normal((n, d))
    model = fit_smoother(whole.mean(axis=0), np.cov(whole.T), whole)
    assert len(model.autocorrelation) >= 2
    np.testing.assert_allclose(model.autocorrelation[:2].max(), 0.97, atol=0.05)
    table = whole.copy()
    gone = np.arange(n) % 50 < 5
    table[gone] = np.nan
    error = np.sqrt(np.mean((model(table, np.ones(n - 1)) - whole)[gone] ** 2))
    assert error < 0.8 * whole[gone].std()
