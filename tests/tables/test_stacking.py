"""Stacking and calibration of prediction intervals."""

from __future__ import annotations

import numpy as np

from lorank.tables.stacking import Calibration, gain_is_significant


def test_intervals_of_few_errors_have_their_coverage():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(400):
        errors = rng.standard_normal((41, 1))  # few: quantiles that ignore how few would be too narrow by 4 %
        low, high = Calibration.of(errors[:40], np.ones((40, 1))).bounds(0.9)
        inside.append(low[0] <= errors[40, 0] <= high[0])
    assert abs(np.mean(inside) - 0.9) < 0.05


def test_quantiles_of_columns_with_few_cells_are_pooled():
    rng = np.random.default_rng(1)
    errors = rng.standard_normal((2000, 3)) * [1.0, 3.0, 1.0]
    errors[4:, 2] = np.nan
    low, high = Calibration.of(errors, np.ones_like(errors)).bounds(0.9)
    np.testing.assert_allclose(high[:2], [1.645, 4.93], rtol=0.15)
    np.testing.assert_allclose(low[:2], [-1.645, -4.93], rtol=0.15)
    assert 1.7 < high[2] < 5  # pooled
    nothing = Calibration.of(np.full((3, 2), np.nan), np.ones((3, 2)))
    np.testing.assert_allclose(nothing.bounds(0.9)[1], 1.645, rtol=0.02)


def test_weights_move_the_quantiles():
    errors = np.array([[-2.0], [-1.0], [0.0], [1.0], [5.0]])
    weights = np.array([[1.0], [1.0], [1.0], [1.0], [4.0]])
    heavy = Calibration.of(errors, np.ones((5, 1)), weights=weights).bounds(0.5)[1]
    assert heavy[0] > Calibration.of(errors, np.ones((5, 1))).bounds(0.5)[1][0]


def test_gains_over_an_exact_interpolation_are_not_significant():
    gain, size = -np.ones((12, 2)), np.zeros(2)
    assert not gain_is_significant(gain, size, 3).any()
