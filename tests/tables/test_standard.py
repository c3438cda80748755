"""Columns in units of their own: numbers of any size."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.tables import column_moments, standardised

pytest.importorskip("sklearn")


def a_table(seed: int = 0, n: int = 90) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 5)) + 0.1 * rng.standard_normal((n, 5))
    table[rng.random(table.shape) < 0.2] = np.nan
    return table


def test_moments_are_those_of_the_plain_formulas_in_any_bit():
    table = 7 + 3 * a_table()
    means, scales = column_moments(table)
    gaps = np.isnan(table)
    counts = (~gaps).sum(axis=0)
    plain = np.where(gaps, 0.0, table).sum(axis=0) / counts
    np.testing.assert_array_equal(means, plain)
    np.testing.assert_array_equal(scales, np.sqrt((np.where(gaps, 0.0, table - plain) ** 2).sum(axis=0) / counts))
    np.testing.assert_array_equal(standardised(table, means, scales), (table - means) / scales)


@pytest.mark.parametrize("power", [-1000, -600, 600, 990])
def test_moments_of_large_and_small_numbers_are_those_of_others_in_other_units(power):
    table = a_table()
    for own, other in zip(column_moments(np.ldexp(table, power)), column_moments(table), strict=True):
        np.testing.assert_array_equal(own, np.ldexp(other, power))


def test_constant_columns_have_no_deviation_whatever_their_size():
    means, scales = column_moments(np.tile([1e250, 3.0, 1e-250, 0.0], (7, 1)))
    np.testing.assert_allclose(means, [1e250, 3.0, 1e-250, 0.0], rtol=1e-14)
    assert not scales.any()


SIZES = np.array([1e200, 1e-200, 1.0, 1e160, 1e-310])


@pytest.mark.parametrize("time", [None, True])
def test_tables_of_large_and_small_numbers_are_filled_as_others_are(time):
    table = a_table() if time is None else np.sin(np.arange(90)[:, None] / 7 + np.arange(5)) + 0 * a_table()
    imputer = lr.TableImputer(time=time, refine="none").fit(table * SIZES)
    gaps = np.isnan(table)
    filled, (low, high) = imputer.transform(table * SIZES), imputer.interval(table * SIZES)
    drawn = np.array(imputer.sample(table * SIZES, 2))
    for found in (filled, low, high, *drawn):
        assert np.isfinite(found).all()
    plain = lr.TableImputer(time=time, refine="none").fit_transform(table)
    # the rows are hidden in another order, which chooses another fit
    assert np.sqrt(np.mean((filled / SIZES - plain)[gaps] ** 2)) < 0.2 * np.nanstd(table)
    np.testing.assert_array_equal(filled[~gaps], (table * SIZES)[~gaps])


def test_a_low_rank_imputer_takes_them_too():
    table = a_table()
    plain = lr.LowRankImputer(rank=2).fit_transform(table)
    np.testing.assert_allclose(lr.LowRankImputer(rank=2).fit_transform(table * SIZES) / SIZES, plain, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("size", [1e16, 1e155, 1e308])
@pytest.mark.parametrize("imputer", [lr.TableImputer(), lr.TableImputer(time=True), lr.LowRankImputer(rank=2)])
def test_new_cells_far_from_all_others_leave_numbers(imputer, size):
    imputer.fit(a_table(n=150))
    rows = size * np.where(np.arange(5) % 2, 1.0, -1.0) * np.ones((6, 1))
    rows[0, 0] = rows[1, 1:] = rows[2, ::2] = np.nan
    assert np.isfinite(imputer.transform(rows)).all()
    if hasattr(imputer, "interval"):
        assert np.isfinite(imputer.interval(rows)).all()
        assert np.isfinite(imputer.sample(rows, 2)).all()


@pytest.mark.parametrize("imputer", [lr.TableImputer(), lr.LowRankImputer()])
def test_the_largest_numbers_are_refused_with_their_column(imputer):
    table = np.arange(12.0).reshape(6, 2)
    table[2, 1] = 1e305
    with pytest.raises(ValueError, match=r"column ('x1'|1) holds numbers of size 1.0e\+305: divide it by 1e\+305 first"):
        imputer.fit(table)


def test_a_covariance_whose_squares_are_no_numbers_is_refused():
    imputer = lr.TableImputer(refine="none").fit(a_table() * 1e200)
    with pytest.raises(ValueError, match="divide such columns by"):
        _ = imputer.covariance_
