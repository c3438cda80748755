"""Intervals from errors at hidden cells."""

from __future__ import annotations

import numpy as np

from lorank.tables.missingness import odds_of_gaps
from lorank.tables.stacking import Calibration


def test_the_next_error_lies_within_with_the_chance_that_is_said():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(400):
        errors = rng.standard_normal((41, 1))  # few: quantiles that ignore how few would be too narrow by 4 %
        low, high = Calibration.of(errors[:40], np.ones((40, 1))).at(0.9)
        inside.append(low[0] <= errors[40, 0] <= high[0])
    assert abs(np.mean(inside) - 0.9) < 0.05


def test_columns_have_their_own_quantiles_and_lean_on_all_where_cells_are_few():
    rng = np.random.default_rng(1)
    errors = rng.standard_normal((2000, 3)) * [1.0, 3.0, 1.0]
    errors[4:, 2] = np.nan
    low, high = Calibration.of(errors, np.ones_like(errors)).at(0.9)
    np.testing.assert_allclose(high[:2], [1.645, 4.93], rtol=0.15)
    np.testing.assert_allclose(low[:2], [-1.645, -4.93], rtol=0.15)
    assert 1.7 < high[2] < 5  # between
    nothing = Calibration.of(np.full((3, 2), np.nan), np.ones((3, 2)))
    np.testing.assert_allclose(nothing.at(0.9)[1], 1.645, rtol=0.02)


def test_weighted_cells_count_as_if_they_were_there_more_often():
    errors = np.array([[-2.0], [-1.0], [0.0], [1.0], [5.0]])
    weights = np.array([[1.0], [1.0], [1.0], [1.0], [4.0]])
    heavy = Calibration.of(errors, np.ones((5, 1)), weights=weights).at(0.5)[1]
    assert heavy[0] > Calibration.of(errors, np.ones((5, 1))).at(0.5)[1][0]


def test_odds_are_those_of_a_logistic_regression():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((4000, 4))
    missing = np.zeros((4000, 4), bool)
    missing[:, 0] = rng.random(4000) < 1 / (1 + np.exp(-(1.5 * rows[:, 1] - rows[:, 2] - 1)))
    missing[:, 3] = rng.random(4000) < 0.3  # by chance
    weights = odds_of_gaps(missing, rows)
    assert (weights[:, 1:] == 1).all()
    score = np.log(weights[weights[:, 0] < 11, 0])
    fit = np.linalg.lstsq(np.column_stack([rows, np.ones(4000)])[weights[:, 0] < 11], score, rcond=None)[0]
    np.testing.assert_allclose(fit[:4], [0, 1.5, -1, 0], atol=0.25)


def test_gaps_by_chance_are_not_regressed_and_weak_ones_are_not_missed():
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((4000, 5))
    chance = rng.random((4000, 5)) < [0.1, 0.3, 0.5, 0.2, 0.4]
    assert (odds_of_gaps(chance, rows) == 1).all()
    for slope in (0.3, 1.0):  # the first is just clear of chance
        missing = chance.copy()
        missing[:, 0] = rng.random(4000) < 1 / (1 + np.exp(2 - slope * rows[:, 4]))
        weights = odds_of_gaps(missing, rows)
        assert (weights[:, 1:] == 1).all()
        assert abs(np.corrcoef(np.log(weights[:, 0]), rows[:, 4])[0, 1]) > 0.8


def test_weighted_known_cells_look_like_missing_ones():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((3000, 3))
    missing = np.zeros((3000, 3), bool)
    missing[:, 0] = rng.random(3000) < 1 / (1 + np.exp(-2 * rows[:, 1]))
    weights = odds_of_gaps(missing, rows)[:, 0]
    known = ~missing[:, 0]
    mean = weights[known] @ rows[known, 1] / weights[known].sum()
    assert abs(mean - rows[missing[:, 0], 1].mean()) < 0.12
    assert abs(rows[known, 1].mean() - rows[missing[:, 0], 1].mean()) > 0.8
