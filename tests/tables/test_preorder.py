"""Forests in few bytes: the same trees come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lorank as lr
from lorank.tables.forest import Forest
from lorank.tables.preorder import Preorder


def a_tree(rng: np.random.Generator, depth: int, features: int, levels: int) -> Forest:
    """Grown at random, node by node: the plain twin of the order that is told by bits alone."""
    rows: list[list[float]] = []

    def grow(left_over: int) -> int:
        own = len(rows)
        rows.append([-1, 0.0, own, own, float(rng.integers(levels))])
        if left_over and (rng.random() < 0.8 or not own):
            rows[own][:2] = [int(rng.integers(features)), rng.standard_normal()]
            rows[own][2] = grow(left_over - 1)
            rows[own][3] = grow(left_over - 1)
        return own

    grow(depth)
    feature, threshold, left, right, value = np.array(rows).T
    value = np.where(feature < 0, value, 0)
    numbers = [x.astype(np.int32) for x in (feature, left, right)]
    return Forest(
        np.zeros(1, np.int32), numbers[0], threshold.astype(np.float32), numbers[1], numbers[2], value.astype(np.float32)
    )


@pytest.mark.parametrize(("depths", "features", "levels"), [((0,), 1, 2), ((1, 0, 3), 200, 5), ((6, 7, 0, 8), 70_000, 10**6)])
def test_the_same_forest_comes_back(depths, features, levels):
    rng = np.random.default_rng(len(depths))
    forest = Forest.together([a_tree(rng, depth, features, levels) for depth in depths])
    packed = Preorder.of(forest)
    assert packed is not None
    again = packed.forest()
    for name in ("roots", "feature", "threshold", "left", "right", "value"):
        own, other = getattr(forest, name), getattr(again, name)
        np.testing.assert_array_equal(own, other, err_msg=name)
        assert own.dtype == other.dtype


def test_other_orders_are_left_as_they_are():
    forest = a_tree(np.random.default_rng(0), 3, 4, 5)
    assert Preorder.of(replace(forest, left=forest.right, right=forest.left)) is None
    assert Preorder.of(replace(forest, roots=forest.roots + 1)) is None


def test_what_is_no_forest_is_refused():
    packed = Preorder.of(a_tree(np.random.default_rng(0), 4, 4, 5))
    for broken in (
        replace(packed, leaves=~packed.leaves),
        replace(packed, nodes=10**12),
        replace(packed, nodes=packed.nodes - 1),
        replace(packed, threshold=packed.threshold[1:]),
    ):
        with pytest.raises(ValueError, match=r"no trees|bytes of what|shape|cannot"):
            broken.forest()


def test_a_file_with_trees_is_small_and_says_the_same_and_so_do_those_of_before(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    table = np.sign(rng.standard_normal((120, 3)))[:, [0, 0, 1, 1, 2]] * rng.uniform(1, 2, (120, 5))
    table[:, 4] = table[:, 0] * table[:, 2]
    table[rng.random(table.shape) < 0.1] = np.nan
    imputer = lr.TableImputer(refine="trees").fit(table)
    trees = imputer.model_.trees
    assert trees is not None
    small = imputer.save(tmp_path / "small.lorank")
    monkeypatch.setattr(Preorder, "of", classmethod(lambda cls, forest: None))
    before = imputer.save(tmp_path / "before.lorank")
    nodes = sum(len(forest.value) for forest in (*trees.values, *trees.errors))
    assert before.stat().st_size - small.stat().st_size > 12 * nodes  # of 20 bytes
    filled = imputer.transform(table)
    for path in (small, before):
        np.testing.assert_array_equal(lr.load(path).transform(table), filled)
