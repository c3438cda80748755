"""Trees as arrays, and what they add to a table's model."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

import lorank as lr
from lorank.tables import fit_gaussian
from lorank.tables.forest import Forest, unknowing
from lorank.tables.imputer import _grown


def test_trees_as_arrays_say_what_scikit_learn_s_say():
    from sklearn.ensemble import ExtraTreesRegressor

    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4)).astype(np.float32).astype(np.float64)
    y = X[:, 0] ** 2 + X[:, 1]
    truth = ExtraTreesRegressor(7, min_samples_leaf=2, random_state=3).fit(X, y)
    ours = _grown(X, y, 7, 2, 3)
    new = rng.standard_normal((50, 4))
    # thresholds are rounded to single precision: a feature within that of one may go the other way
    assert np.mean(np.abs(ours(new) - truth.predict(new)) < 1e-5) > 0.95
    both = Forest.together([ours, ours])
    np.testing.assert_allclose(both(new), ours(new), rtol=1e-6)
    assert {getattr(both, name).itemsize for name in ("roots", "feature", "threshold", "left", "right", "value")} == {4}


def test_rows_as_if_a_cell_were_unknown():
    rng = np.random.default_rng(1)
    whole = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 6)) + 0.5 * rng.standard_normal((60, 6))
    table = np.where(rng.random(whole.shape) < 0.3, np.nan, whole)
    model = fit_gaussian(table)
    filled, missing = model.fill(table), np.isnan(table)
    back = unknowing(model.mean, model.covariance, filled, missing)
    for j in range(6):
        rows = np.flatnonzero(~missing[:, j])
        hidden = table[rows].copy()
        hidden[:, j] = np.nan
        others = np.delete(np.arange(6), j)
        np.testing.assert_allclose((filled[rows] + back(j, rows))[:, others], model.fill(hidden)[:, others], atol=1e-8)


def steps(n=400, seed=0):
    """Groups of rows that are alike: what trees see and lines do not."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 25, n)
    whole = rng.standard_normal((25, 5))[group] + 0.1 * rng.standard_normal((n, 5))
    hidden = rng.random(whole.shape) < 0.15
    return whole, hidden, np.where(hidden, np.nan, whole)


def test_trees_come_by_themselves_where_they_help(tmp_path):
    whole, hidden, table = steps()
    plain, found = lr.TableImputer(refine="none").fit(table), lr.TableImputer().fit(table)
    filled = found.transform(table)
    assert found.model_.trees is not None
    assert np.mean((filled - whole)[hidden] ** 2) < 0.3 * np.mean((plain.transform(table) - whole)[hidden] ** 2)
    low, high = found.interval(table, 0.9)
    assert 0.84 < np.mean((low <= whole)[hidden] & (whole <= high)[hidden]) < 0.97
    again = lr.load(found.save(tmp_path / "trees.lorank"))
    np.testing.assert_array_equal(again.transform(table), filled)


def test_lines_need_no_trees():
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((200, 5))
    table = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
    assert lr.TableImputer().fit(table).model_.trees is None


def test_rows_in_another_order_are_filled_alike():
    _, _, table = steps(n=120)
    order = np.random.default_rng(5).permutation(len(table))
    here, there = (lr.TableImputer().fit(rows).transform(table) for rows in (table, table[order]))
    drawn = lr.TableImputer(random_state=1).fit(table).transform(table)
    assert np.linalg.norm(here - there) < 0.3 * np.linalg.norm(here - drawn)  # the same cells were hidden
