"""Which rows are in which block, and in which order what the blocks say is added up.

Sums over blocks follow one fixed binary tree over the blocks' numbers, whoever holds them: the same bits with one process, with
many, and after a block has moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Range = tuple[int, int]


@dataclass(frozen=True)
class Plan:
    """Blocks of rows.

    Attributes
    ----------
    shape : (int, int)
        Of the whole matrix.
    edges : tuple of int
        Block k holds the rows ``edges[k] .. edges[k + 1] - 1``.
    """

    shape: tuple[int, int]
    edges: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.edges) - 1

    def rows(self, block: int) -> slice:
        return slice(self.edges[block], self.edges[block + 1])

    def cut(self, a: np.ndarray) -> list[np.ndarray]:
        """An array with one entry per row, block by block."""
        return [a[self.rows(k)] for k in range(self.count)]


class TreeSum:
    """Adds up what blocks contribute, in the order of the tree over ``count`` blocks.

    Terms are arrays or tuples of arrays; they are owned by the sum from then on, and added to in place.
    """

    def __init__(self, count: int) -> None:
        self.root: Range = (0, count)
        self.terms: dict[Range, Any] = {}

    def add(self, where: Range, term: Any) -> None:
        """The sum over the blocks of a range of the tree."""
        while where != self.root:
            parent, left = _parent(self.root, where)
            sibling = (where[1], parent[1]) if left else (parent[0], where[0])
            if sibling not in self.terms:
                break
            other = self.terms.pop(sibling)
            term = _plus(term, other) if left else _plus(other, term)
            where = parent
        self.terms[where] = term

    @property
    def total(self) -> Any:
        return self.terms[self.root]


def tree_total(terms: Sequence[Any]) -> Any:
    """The sum of one term for each block; the terms are left as they are."""

    def total(low: int, high: int) -> Any:
        if high - low == 1:
            return terms[low]
        middle = (low + high) // 2
        return total(low, middle) + total(middle, high)

    return total(0, len(terms))


def share_out(count: int, sites: int) -> list[list[int]]:
    """Blocks for each site: neighbours together, cut as the tree is, so that a site has whole branches of it."""

    def deal(low: int, high: int, places: int) -> list[list[int]]:
        if places == 1 or high - low == 1:
            return [list(range(low, high)), *([] for _ in range(places - 1))]
        middle, left = (low + high) // 2, (places + 1) // 2
        if high - middle > middle - low:
            left = places // 2
        return [*deal(low, middle, left), *deal(middle, high, places - left)]

    return deal(0, count, sites)


def _parent(root: Range, where: Range) -> tuple[Range, bool]:
    """The range that a range is a half of, and whether it is the left one."""
    low, high = root
    while True:
        middle = (low + high) // 2
        if where in ((low, middle), (middle, high)):
            return (low, high), where[0] == low
        low, high = (low, middle) if where[1] <= middle else (middle, high)


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return tuple(_plus(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) and a.ndim and a.flags.writeable and a.dtype == np.result_type(a, b):
        a += b
        return a
    return a + b
