"""Cross-validation folds of cells, and odds of being missing."""

from __future__ import annotations

import numpy as np

from lorank.tables.missingness import cell_folds, missing_odds


def test_odds_equal_those_of_a_logistic_regression():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((4000, 4))
    missing = np.zeros((4000, 4), bool)
    missing[:, 0] = rng.random(4000) < 1 / (1 + np.exp(-(1.5 * rows[:, 1] - rows[:, 2] - 1)))
    missing[:, 3] = rng.random(4000) < 0.3  # by chance
    weights = missing_odds(missing, rows)
    assert (weights[:, 1:] == 1).all()
    score = np.log(weights[weights[:, 0] < 11, 0])
    fit = np.linalg.lstsq(np.column_stack([rows, np.ones(4000)])[weights[:, 0] < 11], score, rcond=None)[0]
    np.testing.assert_allclose(fit[:4], [0, 1.5, -1, 0], atol=0.25)


def test_only_significant_dependence_has_odds():
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((4000, 5))
    chance = rng.random((4000, 5)) < [0.1, 0.3, 0.5, 0.2, 0.4]
    assert (missing_odds(chance, rows) == 1).all()
    for slope in (0.3, 1.0):  # the first is just clear of chance
        missing = chance.copy()
        missing[:, 0] = rng.random(4000) < 1 / (1 + np.exp(2 - slope * rows[:, 4]))
        weights = missing_odds(missing, rows)
        assert (weights[:, 1:] == 1).all()
        assert abs(np.corrcoef(np.log(weights[:, 0]), rows[:, 4])[0, 1]) > 0.8


def test_weighted_observed_cells_are_distributed_as_missing_ones():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((3000, 3))
    missing = np.zeros((3000, 3), bool)
    missing[:, 0] = rng.random(3000) < 1 / (1 + np.exp(-2 * rows[:, 1]))
    weights = missing_odds(missing, rows)[:, 0]
    known = ~missing[:, 0]
    mean = weights[known] @ rows[known, 1] / weights[known].sum()
    assert abs(mean - rows[missing[:, 0], 1].mean()) < 0.12
    assert abs(rows[known, 1].mean() - rows[missing[:, 0], 1].mean()) > 0.8


def test_complete_rows_take_repeated_patterns():
    missing = np.zeros((200, 6), bool)
    missing[:80, :3] = True
    fold = cell_folds(missing, 5, np.random.default_rng(0))
    assert (fold[:80, :3] == -1).all()
    assert (fold[80:, 3:] == -1).all()
    assert (fold[80:, 0] == fold[80:, 2]).all()
