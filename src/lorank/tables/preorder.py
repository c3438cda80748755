"""Forests in few bytes, for model files: a node before its left subtree, and that before its right one.

In this order one bit for each node, leaf or not, tells the whole shape: a left child follows its parent, and a right child
follows the last node of the left one's subtree. Inner nodes have a feature and a threshold, leaves a value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .forest import Forest

LEVELS = 1 << 16  # values that two bytes tell apart


@dataclass(frozen=True)
class Preorder:
    """A forest of k nodes, about half of which are leaves.

    Attributes
    ----------
    leaves : (ceil(k / 8),) array of bytes
        A bit for each node.
    feature, threshold : arrays
        Of the inner nodes; features in as few bytes as they need.
    value : array
        Of the leaves; where many are alike, the place of each in ``levels``.
    levels : array
        Without any where ``value`` holds the values themselves.
    nodes : int
        k.
    """

    leaves: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    value: np.ndarray
    levels: np.ndarray
    nodes: int

    @classmethod
    def of(cls, forest: Forest) -> Preorder | None:
        """None where the nodes are in another order."""
        leaf = forest.feature < 0
        try:
            roots, left, right = _shape(leaf)
        except ValueError:
            return None
        given = (forest.roots, roots), (forest.left, left), (forest.right, right)
        if not all(np.array_equal(a, b) for a, b in given):
            return None
        feature, value = forest.feature[~leaf], forest.value[leaf]
        small = np.min_scalar_type(int(feature.max(initial=0)))
        levels, place = np.unique(value, return_inverse=True)
        if len(levels) > min(LEVELS, len(value) // 4):
            levels, place = value[:0], value
        else:
            place = place.astype(np.uint16)
        return cls(np.packbits(leaf), feature.astype(small), forest.threshold[~leaf], place, levels, len(leaf))

    def forest(self) -> Forest:
        """A ValueError where this is none."""
        if not 0 < self.nodes <= 8 * len(self.leaves):
            raise ValueError(f"{self.nodes} nodes, and {len(self.leaves)} bytes of what they are")
        leaf = np.unpackbits(self.leaves, count=self.nodes).astype(bool)
        roots, left, right = _shape(leaf)
        feature, threshold = np.full(self.nodes, -1, np.int32), np.zeros(self.nodes, np.float32)
        value = np.zeros(self.nodes, np.float32)
        feature[~leaf], threshold[~leaf] = self.feature, self.threshold
        value[leaf] = self.levels[self.value] if len(self.levels) else self.value
        return Forest(roots, feature, threshold, left, right, value)


def _shape(leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Roots, and the children of each node.

    Count inner nodes as 1 and leaves as -1: a subtree ends where its sum is -1 for the first time. So the right child of i
    comes after the first node from i + 1 on up to which the sum of all is by one less than up to i.
    """
    k = len(leaf)
    at = np.arange(k)
    total = np.cumsum(np.where(leaf, -1, 1))
    ends = total < np.minimum.accumulate(np.concatenate([[0], total[:-1]])) if k else leaf  # of trees
    if not k or not ends[-1]:
        raise ValueError("the nodes are no trees in preorder")
    keys = (total - total.min()).astype(np.int64) * k + at
    order = np.sort(keys)
    inner = at[~leaf]
    found = order[np.searchsorted(order, keys[inner] - k + 1)] % k
    left, right = at.copy(), at.copy()
    left[inner], right[inner] = inner + 1, found + 1
    roots = np.concatenate([[0], np.flatnonzero(ends)[:-1] + 1])
    return roots.astype(np.int32), left.astype(np.int32), right.astype(np.int32)
