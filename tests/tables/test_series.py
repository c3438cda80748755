"""Interpolation, seasons and folds of time series."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.tables.series import block_folds, find_period, interpolate, on_grid, run_lengths, seasonal, seasonal_profile


def plain_between(column, times, i):
    """Interpolation of one cell from the other observed ones."""
    left = [k for k in range(i) if not np.isnan(column[k])]
    right = [k for k in range(i + 1, len(column)) if not np.isnan(column[k])]
    if not left and not right:
        return 0.0, np.inf
    if not left or not right:
        k = left[-1] if left else right[0]
        return column[k], 2 * abs(times[k] - times[i])
    a, b = left[-1], right[0]
    t = (times[i] - times[a]) / (times[b] - times[a])
    back, ahead = times[i] - times[a], times[b] - times[i]
    return (1 - t) * column[a] + t * column[b], 2 * back * ahead / (back + ahead)


def test_interpolation_leaves_out_the_cell_itself():
    rng = np.random.default_rng(0)
    table = np.where(rng.random((25, 3)) < 0.5, np.nan, rng.standard_normal((25, 3)))
    table[:, 2] = np.nan
    table[11, 2] = 4.0
    times = np.cumsum(rng.uniform(0.2, 3, 25))
    line, distance = interpolate(table, times)
    for j in range(3):
        for i in range(25):
            want, way = plain_between(table[:, j], times, i)
            np.testing.assert_allclose(line[i, j], want, rtol=1e-10, atol=1e-12)
            if np.isfinite(way):
                np.testing.assert_allclose(distance[i, j], way, rtol=1e-10)
            else:
                assert distance[i, j] > 1e6


def test_the_period_is_found_with_its_profile():
    rng = np.random.default_rng(1)
    t = np.arange(480)
    table = np.column_stack([np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24)]) + 0.2 * rng.standard_normal((480, 2))
    gaps = np.where(rng.random(table.shape) < 0.2, np.nan, table)
    assert find_period(gaps, t.astype(float)) == 24
    assert np.abs(seasonal_profile(gaps, 24)[:, 0] - np.sin(2 * np.pi * t / 24)).max() < 0.3
    assert find_period(rng.standard_normal((480, 2)), t.astype(float)) == 0
    both = seasonal(np.arange(12.0)[:, None], 4, np.full((12, 1), -1.0))[:, 0]
    np.testing.assert_allclose(both, [4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7])


def test_folds_are_runs_of_the_lengths_of_gaps():
    missing = np.zeros((400, 3), bool)
    for at in (20, 90, 200, 300):
        missing[at : at + 12] = True
    fold = block_folds(missing, 4, np.random.default_rng(0))
    assert (fold[missing] == -1).all()
    some = fold[:, 0] == 0
    assert some.any()
    np.testing.assert_array_equal(fold[:, 0], fold[:, 1])  # block gaps are of all columns
    assert run_lengths(some).max() >= 6
    np.testing.assert_array_equal(run_lengths(np.array([1, 1, 0, 1, 0, 0, 1, 1, 1], bool)), [2, 1, 3])


@pytest.mark.parametrize("n", [2, 3])
def test_two_or_three_rows_of_one_column_are_filled(n):
    pytest.importorskip("sklearn")
    column = np.arange(n, dtype=float)[:, None]
    table = np.hstack([column, np.where(column == 1, np.nan, 3.0)])
    for time in (None, True):
        assert np.isfinite(lr.TableImputer(time=time).fit_transform(table)).all()


def test_absent_rows_of_regular_times_are_inserted():
    times = np.array([0.0, 1, 2, 4, 5, 6, 7, 8, 9]) * 86_400
    table, grid, places = on_grid(np.arange(9.0)[:, None], times)
    np.testing.assert_array_equal(table[:, 0], [0, 1, 2, np.nan, 3, 4, 5, 6, 7, 8])
    np.testing.assert_array_equal(grid, np.arange(10.0) * 86_400)
    np.testing.assert_array_equal(table[places, 0], np.arange(9.0))
    months = np.cumsum([31, 28, 31, 61, 30, 31, 31, 30, 31, 30, 31.0])  # one is absent
    assert len(on_grid(np.zeros((11, 1)), months)[1]) == 12
    weekdays = np.array([day for day in range(70) if day % 7 < 5], float)
    irregular = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 50))
    for rows in (np.arange(20.0), weekdays, irregular):
        assert on_grid(rows[:, None], rows)[1] is rows


def test_a_season_keeps_step_where_dates_are_absent():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    t = np.arange(200)
    y = 0.02 * t + 2 * np.sin(2 * np.pi * t / 7) + 0.1 * rng.standard_normal(200)
    hidden = np.zeros(200, bool)
    hidden[[30, 31, 32, 90, 91, 92, 150, 151, 152]] = True
    present = rng.random(200) < 0.9
    present[hidden] = True
    frame = pandas.DataFrame({"y": np.where(hidden, np.nan, y)}, pandas.date_range("2024-01-01", periods=200))[present]
    imputer = lr.TableImputer(time=True).fit(frame)
    assert imputer.period_ == 7
    filled = imputer.transform(frame)["y"].to_numpy()
    assert len(filled) == present.sum()
    assert np.abs(filled - y[present])[hidden[present]].max() < 0.6  # the season's amplitude is 2
    assert imputer.quality_[0] < 0.3
