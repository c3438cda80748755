"""Block gaps: weights and intervals for empty rows."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.tables.block_gaps import block_gap_passes, empty_rows, find_season, has_block_gaps
from lorank.tables.series import interpolate, run_lengths, seasonal

PERIOD, LENGTH = 24, 8


def daily(seed, n=20 * PERIOD, columns=6, week=False):
    """A day's shape of each column, one slow level for all, noise; gaps of single columns, and four block gaps."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    peaks = np.stack([np.exp(-(((t % PERIOD - at) / 2.0) ** 2)) for at in (8, 17)], axis=1)
    if week:
        peaks = peaks * (t // PERIOD % 7 < 5)[:, None]
    level = np.cumsum(rng.standard_normal(n)) / 10
    whole = peaks @ rng.uniform(1, 4, (2, columns)) + np.outer(level, rng.uniform(0.3, 1, columns))
    whole += 0.15 * rng.standard_normal(whole.shape)
    gaps = np.zeros(whole.shape, bool)
    for column in range(columns):
        for begin in rng.integers(0, n - 20, 4):
            gaps[begin : begin + rng.integers(2, 12), column] = True
    for k in range(4):
        begin = int(rng.integers(k * n // 4 + 2, (k + 1) * n // 4 - LENGTH - 2))
        gaps[begin : begin + LENGTH] = True
    return whole, gaps


def line_of(table):
    t = np.arange(len(table))
    return np.column_stack([np.interp(t, t[~np.isnan(column)], column[~np.isnan(column)]) for column in table.T])


def block_gap_errors(whole, gaps):
    """Errors in empty rows of the imputer, of interpolation and of the season, and the coverage of intervals."""
    table, empty = np.where(gaps, np.nan, whole), gaps.all(axis=1)
    imputer = lr.TableImputer(time=True).fit(table)
    line = line_of(table)
    guesses = (imputer.transform(table), line, seasonal(table, PERIOD, line))
    low, high = imputer.predict_interval(table, 0.9)
    inside = ((low <= whole) & (whole <= high))[empty].mean()
    return [float(np.sqrt(np.mean((guess - whole)[empty] ** 2))) for guess in guesses], float(inside)


@pytest.mark.slow
def test_errors_in_block_gaps_are_at_most_those_of_season_and_interpolation_and_intervals_cover():
    errors, inside = zip(*(block_gap_errors(*daily(seed)) for seed in range(6)), strict=True)
    ours, line, season = np.transpose(errors)
    assert (ours < 1.1 * np.minimum(line, season)).all()
    assert 0.8 < np.mean(inside) < 0.97
    assert min(inside) > 0.65


def test_errors_of_a_random_walk_are_at_most_those_of_interpolation():
    rng = np.random.default_rng(0)
    whole = np.cumsum(rng.standard_normal((500, 5)), axis=0)
    gaps = rng.random(whole.shape) < 0.05
    for begin in (60, 190, 310, 420):
        gaps[begin : begin + 15] = True
    errors, inside = block_gap_errors(whole, gaps)
    assert errors[0] < 1.1 * errors[1]
    assert 0.7 < inside < 1.0


@pytest.mark.slow
def test_a_weekly_season_is_found():
    whole, gaps = daily(0, n=28 * PERIOD, week=True)
    gaps[13 * PERIOD + 4 : 13 * PERIOD + 4 + LENGTH] = True  # a morning before a Monday: days around it would be wrong
    table = np.where(gaps, np.nan, whole)
    assert find_season(table, PERIOD) == 7 * PERIOD
    errors, _ = block_gap_errors(whole, gaps)
    assert errors[0] < 0.8 * min(errors[1:])


def test_block_gaps_are_runs_of_more_empty_rows_than_by_chance():
    rng = np.random.default_rng(0)
    scattered = rng.random((2000, 4)) < 0.5
    assert empty_rows(scattered).sum() > 80
    assert not has_block_gaps(scattered)
    assert block_gap_passes(scattered, rng) == []
    assert not has_block_gaps(rng.random((400, 1)) < 0.5)  # all gaps of a single column are alike
    gaps = rng.random((500, 4)) < 0.1
    assert not has_block_gaps(gaps)
    gaps[100:112] = True
    assert has_block_gaps(gaps)


def test_artificial_block_gaps_are_complete_and_separate():
    missing = np.zeros((400, 12), bool)
    missing[50:60] = missing[300:310] = True
    missing[50:60, 3] = False  # one column went on
    passes = block_gap_passes(missing, np.random.default_rng(0))
    shapes = {tuple(hidden[row]) for hidden in passes for row in np.flatnonzero(hidden.any(axis=1))}
    assert shapes <= {tuple(missing[50]), tuple(missing[300])}
    for hidden in passes:
        assert not (hidden & missing).any()
        assert set(run_lengths(hidden.any(axis=1))) == {10}
    assert np.any(passes, axis=0).any(axis=1).mean() > 0.3


@pytest.mark.parametrize("what", ["block gaps", "none"])
def test_saved_models_include_block_gaps(tmp_path, what):
    whole, gaps = daily(1)
    if what == "none":
        gaps[gaps.all(axis=1)] = False
    table = np.where(gaps, np.nan, whole)
    imputer = lr.TableImputer(time=True).fit(table)
    assert (imputer.model_.block_gaps is None) == (what == "none")
    again = lr.load(imputer.save(tmp_path / "model.lorank"))
    for one, two in zip(imputer.predict_interval(table), again.predict_interval(table), strict=True):
        np.testing.assert_array_equal(one, two)
    drawn = again.sample(table, 1)[0]
    assert np.isfinite(drawn).all()
    np.testing.assert_array_equal(drawn[~gaps], whole[~gaps])


def one_long_block_gap(series):
    hidden = np.zeros(series.shape, bool)
    hidden[170:320] = True
    given = np.where(hidden, np.nan, series)
    given[np.random.default_rng(1).random(series.shape) < 0.03] = np.nan
    return given, hidden


def test_one_long_block_gap_takes_the_season_where_it_is_much_better_than_interpolation():
    rng, n = np.random.default_rng(0), 480
    waves = np.sin(2 * np.pi * np.arange(n) / 24)[:, None] * rng.uniform(0.5, 2, 5) + 0.3 * rng.standard_normal((n, 5))
    given, hidden = one_long_block_gap(waves)
    imputer = lr.TableImputer(time=True).fit(given)
    line = interpolate(given, np.arange(n, dtype=float))[0]
    mine, its = (np.sqrt(np.mean((guess - waves)[hidden] ** 2)) for guess in (imputer.transform(given), line))
    assert imputer.period_ == 24
    assert mine < 0.6 * its
    low, high = imputer.predict_interval(given, 0.9)
    assert ((low <= waves) & (waves <= high))[hidden].mean() > 0.75


def test_artificial_block_gaps_are_shortened_to_fit():
    missing = np.zeros((480, 3), bool)
    missing[170:320] = True
    passes = block_gap_passes(missing, np.random.default_rng(0))
    assert len(passes) > 5
    assert all(not (hidden & missing).any() and run_lengths(hidden[:, 0]).min() > 30 for hidden in passes)


def test_a_random_walk_is_interpolated_in_a_long_block_gap():
    walks = np.cumsum(np.random.default_rng(0).standard_normal((480, 5)), axis=0)
    given, hidden = one_long_block_gap(walks)
    filled, line = lr.TableImputer(time=True).fit_transform(given), interpolate(given, np.arange(480.0))[0]
    np.testing.assert_allclose(filled[hidden], line[hidden])
