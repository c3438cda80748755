"""Extrapolated fixed-point iterations."""

from __future__ import annotations

import numpy as np

from lorank.tables.anderson import Anderson
from lorank.tables.gaussian import Cells, Gaussian, _pairwise, _round, fit_gaussian
from lorank.tables.patterns import find_patterns


def test_a_linear_iteration_ends_after_as_many_rounds_as_it_has_rates():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    A = (Q * np.repeat([0.98, 0.9, 0.3], 2)) @ Q.T  # three rates: four rounds show them all
    truth = rng.standard_normal(6)
    ahead, x = Anderson(), np.zeros(6)
    for _ in range(5):
        x = ahead(x, truth + A @ (x - truth))
    assert np.linalg.norm(x - truth) < 1e-3 * np.linalg.norm(truth)  # plain rounds: 0.9
    ahead.forget()
    assert len(ahead.ends) == len(ahead.steps) == 1


def gaps(n=400, d=5, share=0.5, seed=1):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, d))
    whole = rng.standard_normal((n, d)) @ A.T
    whole /= whole.std(axis=0)
    return np.where(rng.random((n, d)) < share, np.nan, whole)


def test_extrapolated_rounds_end_where_plain_rounds_do():
    table = gaps()
    cells, patterns = Cells(table, np.isnan(table)), find_patterns(np.isnan(table))
    start = _pairwise(cells, 2.0)
    mean, S = start.mean, start.covariance
    for _ in range(1500):
        mean, S = _round(cells, patterns, mean, S, 2.0)
    got = fit_gaussian(table, 2.0, max_iter=300, tol=1e-8)
    np.testing.assert_allclose(got.covariance, S, atol=1e-5)
    np.testing.assert_allclose(got.mean, mean, atol=1e-5)
    assert got.n_iter < 150


def test_pairs_of_columns_are_a_start():
    table = gaps(share=0.2)
    start = _pairwise(Cells(table, np.isnan(table)), 0.0)
    for j in range(5):
        for k in range(5):
            both = ~np.isnan(table[:, j]) & ~np.isnan(table[:, k])
            centred = table[both][:, [j, k]] - start.mean[[j, k]]
            np.testing.assert_allclose(start.covariance[j, k], np.mean(centred[:, 0] * centred[:, 1]), rtol=1e-8, atol=1e-10)
    few = np.where(np.random.default_rng(0).random((6, 9)) < 0.6, np.nan, np.random.default_rng(1).standard_normal((6, 9)))
    few[:, 0] = np.nan  # nothing known, and columns without a row in common
    assert np.linalg.eigvalsh(_pairwise(Cells(few, np.isnan(few)), 1.0).covariance).min() > 0
    assert np.isfinite(fit_gaussian(few, 1.0).covariance).all()


def test_known_cells_come_back_as_they_were():
    table = gaps(40) * 1e8 + np.pi
    missing = np.isnan(table)
    filled = Gaussian(np.full(5, 3.0), np.eye(5)).fill(table)
    np.testing.assert_array_equal(filled[~missing], table[~missing])
    np.testing.assert_array_equal(filled[missing], 3.0)
