"""The structural time series model against dense Gaussian conditioning."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.tables.structural import Structural, StructuralSystem, fit_structural

LARGE = 1e7  # variance of the initial states in the dense twin


def dense(y, steps, period, variances, first=None):
    """Posterior means, squares and log determinant (noise variance 1) from the covariance of all values."""
    n = len(y)
    root = np.sqrt(steps)
    size = n * (3 if period else 2)
    rows, precisions = [], []
    for t in range(n - 1):
        level, slope = np.zeros(size), np.zeros(size)
        level[[t, t + 1, n + t]] = -1 / root[t], 1 / root[t], -steps[t] / root[t]
        slope[[n + t, n + t + 1]] = -1 / root[t], 1 / root[t]
        rows += [level, slope]
        precisions += [1 / variances[0], 1 / variances[1]]
    for t in range(n - period + 1 if period else 0):
        season = np.zeros(size)
        season[2 * n + t : 2 * n + t + period] = 1
        rows.append(season)
        precisions.append(1 / variances[2])
    if first is not None:
        for t in range(period - 1):
            rows.append(np.eye(size)[2 * n + t])
            precisions.append(1 / first)
    D = np.array(rows)
    S = np.linalg.inv(D.T @ (np.array(precisions)[:, None] * D) + np.eye(size) / LARGE)
    A = np.hstack([np.eye(n), np.zeros((n, n)), np.eye(n)][: 2 + bool(period)])
    C, known = A @ S @ A.T, ~np.isnan(y)
    V = C[np.ix_(known, known)] + np.eye(known.sum())
    return C[:, known] @ np.linalg.solve(V, y[known]), y[known] @ np.linalg.solve(V, y[known]), np.linalg.slogdet(V)[1]


@pytest.mark.parametrize("period", [0, 4])
def test_the_banded_system_equals_dense_conditioning(period):
    rng = np.random.default_rng(0)
    y, steps = rng.standard_normal(30), rng.uniform(0.5, 2, 29)
    y[rng.random(30) < 0.2] = np.nan
    system = StructuralSystem(y, steps, period)
    found = []
    for variances in ([0.5, 0.1, 0.3], [2.0, 0.01, 0.05]):
        mean, likelihood = system.solve(np.array(variances[: system.size]))
        expected, squares, log_det = dense(y, steps, period, variances)
        np.testing.assert_allclose(mean, expected, atol=1e-4)
        free = np.count_nonzero(~np.isnan(y)) - system.diffuse
        found.append((likelihood, -0.5 * (free * np.log(squares) + log_det)))
    (one, dense_one), (two, dense_two) = found
    assert one - two == pytest.approx(dense_one - dense_two, abs=1e-3)


def test_marginal_likelihoods_of_periods_equal_dense_ones():
    rng = np.random.default_rng(0)
    y, steps = rng.standard_normal(30), np.ones(29)
    y[rng.random(30) < 0.2] = np.nan
    found = []
    for period in (0, 3, 5):
        variances = np.array([0.5, 0.1, 0.3, 2.0][: 4 if period else 2])
        system = StructuralSystem(y, steps, period, proper=True)
        assert system.diffuse == 2  # level and slope
        free = np.count_nonzero(~np.isnan(y)) - 2
        _, squares, log_det = dense(y, steps, period, variances[:3], 2.0 if period else None)
        found.append(system.solve(variances)[1] + 0.5 * (free * np.log(squares) + log_det))
    assert found[1] == pytest.approx(found[0], abs=1e-3)  # the same constant for all periods
    assert found[2] == pytest.approx(found[0], abs=1e-3)


def test_trend_and_season_are_found_and_logarithms_where_they_are_likelier():
    rng = np.random.default_rng(1)
    t = np.arange(120)
    y = 0.02 * t + np.sin(2 * np.pi * t / 12) + 0.05 * rng.standard_normal(120)
    hidden = np.where((t > 50) & (t < 65), np.nan, y)
    steps = np.ones(119)
    models = fit_structural(hidden, steps, 12, -10.0)
    assert np.abs(models[0](hidden, steps) - y)[51:65].max() < 0.25
    growing = fit_structural(np.exp(y), steps, 12, 0.0)
    assert np.isfinite(growing[1].zero)
    assert np.abs(np.log(growing[1](np.exp(hidden), steps)) - y)[51:65].max() < 0.25


def test_seasons_too_long_for_the_band_are_subtracted_as_profiles():
    t = np.arange(400)
    y = np.sin(2 * np.pi * t / 90)
    models = fit_structural(y, np.ones(399), 90, -np.inf)
    assert (models[0].period, models[0].profile) == (0, 90)
    hidden = np.where(abs(t - 200) < 20, np.nan, y)
    assert np.abs(models[0](hidden, np.ones(399)) - y).max() < 0.3


def test_series_shorter_than_the_period_are_filled():
    model = Structural(12, np.array([0.1, 0.01, 0.1]))
    assert np.isfinite(model(np.array([1.0, np.nan, 2.0]), np.ones(2))).all()


def test_a_seasonal_series_with_a_trend_is_filled_by_its_season():
    rng = np.random.default_rng(2)
    t = np.arange(144)
    y = 0.1 * t + 3 * np.sin(2 * np.pi * t / 12) + 0.2 * rng.standard_normal(144)
    gaps = y.copy()
    gaps[40:49] = gaps[90:99] = np.nan
    missing = np.isnan(gaps)
    imputer = lr.TableImputer(time=True, period=12).fit(gaps[:, None])
    error = np.sqrt(np.mean((imputer.transform(gaps[:, None])[:, 0] - y)[missing] ** 2))
    line = np.sqrt(np.mean((np.interp(t, t[~missing], y[~missing]) - y)[missing] ** 2))
    assert error < 0.4 < 1.5 < line
    low, high = imputer.predict_interval(gaps[:, None])
    assert (high - low)[missing].mean() < 2.0


def test_a_period_needs_times():
    with pytest.raises(lr.ParameterError) as caught:
        lr.TableImputer(period=12).fit(np.eye(5))
    assert caught.value.name == "period"
    with pytest.raises(lr.ParameterError):
        lr.TableImputer(time=True, period=-1).fit(np.eye(5))


def made(n, period, rng):
    """Season with mean 0 and standard deviation 1."""
    season = rng.standard_normal(period)
    season = (season - season.mean()) / season.std()
    return season[np.arange(n) % period]


def trended(n, rng):
    return 0.05 * np.arange(n) + made(n, 12, rng) + 0.3 * rng.standard_normal(n)


def multiplicative(n, rng):
    return np.exp(0.02 * np.arange(n) + 0.2 * made(n, 12, rng) + 0.02 * rng.standard_normal(n))


def two_seasons(n, rng):
    return made(n, 4, rng) + 0.7 * made(n, 12, rng) + 0.2 * rng.standard_normal(n)


def changing(n, rng):
    moves = np.cumsum(0.1 * rng.standard_normal((n // 4 + 1, 4)), axis=0)
    t = np.arange(n)
    return 1.5 * made(n, 4, rng) + moves[t // 4, t % 4] + np.cumsum(0.1 * rng.standard_normal(n))


def unusual(n, rng):
    return made(n, 9, rng) + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize(
    ("series", "n", "period"),
    [(trended, 96, 12), (multiplicative, 96, 12), (two_seasons, 120, 12), (changing, 80, 4), (unusual, 120, 9)],
)
@pytest.mark.parametrize("length", [1, 5])
def test_the_period_of_a_single_series_is_found(series, n, period, length):
    rng = np.random.default_rng(0)
    y = series(n, rng)
    for at in range(10, n - 10, 8 * length):
        y[at : at + length] = np.nan
    assert lr.TableImputer(time=True).fit(y[:, None]).period_ == period


@pytest.mark.parametrize("seed", range(3))
def test_random_walks_and_noise_have_no_period(seed):
    rng = np.random.default_rng(seed)
    for y in (np.cumsum(rng.standard_normal(150)), rng.standard_normal(150)):
        y[rng.random(150) < 0.1] = np.nan
        assert lr.TableImputer(time=True).fit(y[:, None]).period_ == 0
