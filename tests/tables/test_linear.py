"""Linear models and marginal transforms."""

from __future__ import annotations

import numpy as np

from lorank.tables.factor_analysis import FactorAnalysis
from lorank.tables.linear import fit_linear, fit_marginal, fit_marginals
from lorank.tables.table_model import fit_linears


def test_marginal_transforms_and_their_inverse():
    rng = np.random.default_rng(0)
    x = np.exp(rng.standard_normal(800))
    marginal = fit_marginal(x)
    z = marginal.forward(x)
    assert abs(z.mean()) < 0.05
    assert abs(z.std() - 1) < 0.05
    np.testing.assert_allclose(marginal.inverse(z), x, rtol=0.1, atol=0.02)
    assert np.isnan(marginal.forward(np.array([np.nan]))).all()
    mean = marginal.expected(np.zeros(1), np.ones(1))  # of a lognormal variable
    assert abs(mean[0] - np.exp(0.5)) < 0.25
    assert (marginal.inverse(np.array([-99.0, 99.0])) == [x.min(), x.max()]).all()


def test_factor_analysis_is_selected_where_rows_are_few():
    rng = np.random.default_rng(60)
    whole = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40)) + 0.7 * rng.standard_normal((60, 40))
    table = np.where(rng.random(whole.shape) < 0.3, np.nan, whole)
    held = ~np.isnan(table) & (rng.random(table.shape) < 0.15)
    linears, many_rows = fit_linears(table, held, fit_marginals(table))
    assert isinstance(linears[0].gaussian, FactorAnalysis)
    assert not many_rows
    again = linears[0].refit(np.where(held, np.nan, table), 3)
    assert again.gaussian.loadings.shape == linears[0].gaussian.loadings.shape
    noise = rng.standard_normal((60, 40))
    assert len(fit_linears(np.where(rng.random(noise.shape) < 0.3, np.nan, noise), held, fit_marginals(noise))[0]) >= 1


def test_draws_and_deviations_with_marginal_transforms():
    """Lognormal columns, one given the other."""
    rng = np.random.default_rng(3)
    z = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 4000)
    whole = np.exp(z)
    linear = fit_linear(whole, fit_marginals(whole))
    table = np.column_stack([np.full(20_000, np.exp(0.5)), np.full(20_000, np.nan)])
    drawn = linear.draw(table, rng)
    np.testing.assert_array_equal(drawn[:, 0], table[:, 0])
    sd = np.sqrt(1 - 0.81)
    np.testing.assert_allclose(np.log(drawn[:, 1]).mean(), 0.45, atol=0.05)
    np.testing.assert_allclose(np.log(drawn[:, 1]).std(), sd, rtol=0.1)
    filled, deviation = linear.conditional(table[:1])
    np.testing.assert_allclose(filled[0, 1], np.exp(0.45 + sd**2 / 2), rtol=0.1)
    np.testing.assert_allclose(deviation[0, 1], (np.exp(0.45 + sd) - np.exp(0.45 - sd)) / 2, rtol=0.1)
