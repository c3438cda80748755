"""Forests as arrays, and their corrections of a table model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sklearn")

import lorank as lr
from lorank.tables.forest import Forest, fit_forest, leave_out_shift
from lorank.tables.gaussian import fit_gaussian
from lorank.tables.persistence import pack, unpack


def test_forests_predict_as_scikit_learn_does():
    from sklearn.ensemble import ExtraTreesRegressor

    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4)).astype(np.float32).astype(np.float64)
    y = X[:, 0] ** 2 + X[:, 1]
    truth = ExtraTreesRegressor(7, min_samples_leaf=2, random_state=3).fit(X, y)
    ours = fit_forest(X, y, 7, 2, 3)
    new = rng.standard_normal((50, 4))
    # thresholds are rounded to single precision: a feature within that of one may go the other way
    assert np.mean(np.abs(ours(new) - truth.predict(new)) < 1e-5) > 0.95
    both = Forest.join([ours, ours])
    np.testing.assert_allclose(both(new), ours(new), rtol=1e-6)


def random_tree(rng: np.random.Generator, depth: int, features: int) -> Forest:
    """A random tree."""
    rows: list[list[float]] = []

    def grow(levels: int) -> None:
        own = len(rows)
        rows.append([-1, rng.standard_normal(), own])
        if levels and (rng.random() < 0.8 or not own):
            rows[own][0] = int(rng.integers(features))
            grow(levels - 1)
            rows[own][2] = len(rows)
            grow(levels - 1)

    grow(depth)
    feature, value, right = np.array(rows).T
    return Forest(np.zeros(1, np.int32), feature.astype(int), value.astype(np.float32), right.astype(int))


def walk(tree: Forest, row: np.ndarray) -> float:
    at = int(tree.roots[0])
    while tree.feature[at] >= 0:
        at = int(at + 1 if row[tree.feature[at]] <= tree.value[at] else tree.right[at])
    return float(tree.value[at])


@pytest.mark.parametrize(("depths", "features"), [((0,), 1), ((1, 0, 3), 200), ((6, 7, 0, 8), 40_000)])
def test_joined_trees_predict_their_mean(depths, features):
    rng = np.random.default_rng(len(depths))
    trees = [random_tree(rng, depth, features) for depth in depths]
    rows = rng.standard_normal((20, features)).astype(np.float32)
    want = np.mean([[walk(tree, row) for tree in trees] for row in rows], axis=1)
    forest = Forest.join(trees)
    np.testing.assert_allclose(forest(rows), want, rtol=1e-6)
    np.testing.assert_allclose(Forest.join([forest, forest])(rows), want, rtol=1e-6)
    again = unpack(pack(forest, arrays := {}, "forest"), arrays)
    np.testing.assert_array_equal(again(rows), forest(rows))


def test_arrays_that_are_no_trees_are_refused():
    forest = Forest.join([random_tree(np.random.default_rng(0), 4, 4)])
    for broken in (
        {"roots": np.array([10**6])},
        {"roots": np.zeros(0, int)},
        {"feature": forest.feature[:-1]},
        {"value": forest.value[1:]},
        {"feature": forest.feature[::-1]},
        {"right": np.zeros_like(forest.right)},
    ):
        with pytest.raises(ValueError, match="nodes"):
            replace(forest, **broken)


def test_leave_out_shift_equals_filling_without_the_cell():
    rng = np.random.default_rng(1)
    whole = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 6)) + 0.5 * rng.standard_normal((60, 6))
    table = np.where(rng.random(whole.shape) < 0.3, np.nan, whole)
    model = fit_gaussian(table)
    filled, missing = model.fill(table), np.isnan(table)
    back = leave_out_shift(model.mean, model.covariance, filled, missing)
    for j in range(6):
        rows = np.flatnonzero(~missing[:, j])
        hidden = table[rows].copy()
        hidden[:, j] = np.nan
        others = np.delete(np.arange(6), j)
        np.testing.assert_allclose((filled[rows] + back(j, rows))[:, others], model.fill(hidden)[:, others], atol=1e-8)


def steps(n=400, seed=0):
    """Groups of similar rows, which trees model and linear models do not."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 25, n)
    whole = rng.standard_normal((25, 5))[group] + 0.1 * rng.standard_normal((n, 5))
    hidden = rng.random(whole.shape) < 0.15
    return whole, hidden, np.where(hidden, np.nan, whole)


def test_trees_are_used_where_they_reduce_the_error(tmp_path):
    whole, hidden, table = steps()
    plain, found = lr.TableImputer(refine="none").fit(table), lr.TableImputer().fit(table)
    filled = found.transform(table)
    assert found.model_.trees is not None
    assert np.mean((filled - whole)[hidden] ** 2) < 0.3 * np.mean((plain.transform(table) - whole)[hidden] ** 2)
    low, high = found.predict_interval(table, 0.9)
    assert 0.84 < np.mean((low <= whole)[hidden] & (whole <= high)[hidden]) < 0.97
    again = lr.load(found.save(tmp_path / "trees.lorank"))
    np.testing.assert_array_equal(again.transform(table), filled)


def test_linear_tables_have_no_trees():
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((200, 5))
    table = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
    assert lr.TableImputer().fit(table).model_.trees is None


def test_the_order_of_rows_does_not_change_the_folds():
    _, _, table = steps(n=120)
    order = np.random.default_rng(5).permutation(len(table))
    here, there = (lr.TableImputer().fit(rows).transform(table) for rows in (table, table[order]))
    drawn = lr.TableImputer(random_state=1).fit(table).transform(table)
    assert np.linalg.norm(here - there) < 0.3 * np.linalg.norm(here - drawn)  # the same cells were hidden
