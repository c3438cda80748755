"""Stacking and calibration of prediction intervals."""

from __future__ import annotations

import numpy as np

from lorank.tables.stacking import Calibration, gain_is_significant


def test_the_next_error_lies_within_with_the_chance_that_is_said():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(400):
        errors = rng.standard_normal((41, 1))  # few: quantiles that ignore how few would be too narrow by 4 %
        low, high = Calibration.of(errors[:40], np.ones((40, 1))).bounds(0.9)
        inside.append(low[0] <= errors[40, 0] <= high[0])
    assert abs(np.mean(inside) - 0.9) < 0.05


def test_columns_have_their_own_quantiles_and_lean_on_all_where_cells_are_few():
    rng = np.random.default_rng(1)
    errors = rng.standard_normal((2000, 3)) * [1.0, 3.0, 1.0]
    errors[4:, 2] = np.nan
    low, high = Calibration.of(errors, np.ones_like(errors)).bounds(0.9)
    np.testing.assert_allclose(high[:2], [1.645, 4.93], rtol=0.15)
    np.testing.assert_allclose(low[:2], [-1.645, -4.93], rtol=0.15)
    assert 1.7 < high[2] < 5  # pooled
    nothing = Calibration.of(np.full((3, 2), np.nan), np.ones((3, 2)))
    np.testing.assert_allclose(nothing.bounds(0.9)[1], 1.645, rtol=0.02)


def test_weighted_cells_count_as_if_they_were_there_more_often():
    errors = np.array([[-2.0], [-1.0], [0.0], [1.0], [5.0]])
    weights = np.array([[1.0], [1.0], [1.0], [1.0], [4.0]])
    heavy = Calibration.of(errors, np.ones((5, 1)), weights=weights).bounds(0.5)[1]
    assert heavy[0] > Calibration.of(errors, np.ones((5, 1))).bounds(0.5)[1][0]


def test_a_line_without_any_error_is_no_division_by_zero():
    """Gains over it, in units of its error, are beyond all numbers."""
    gain, size = -np.ones((12, 2)), np.zeros(2)
    assert not gain_is_significant(gain, size, 3).any()
