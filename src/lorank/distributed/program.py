"""Programs that run on every block, the layout of the blocks, and sums over blocks.

An instruction makes one value from others. A ``BLOCK`` value has one part per block (rows of a tall array, observations, one
number per observation) and stays with its block. A ``SHARED`` value (a column factor) is the same on every shard. A ``SUM`` is
computed block by block and added up over all blocks to a shared value. Values without a key are returned to the caller.

Sums over blocks follow one fixed binary tree over the numbers of the blocks. They have the same bits for any number of shards
and any assignment of blocks to shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

BLOCK, SHARED, SUM = "block", "shared", "sum"
OBSERVATIONS = 0  # key of the observations that a shard begins with
Range = tuple[int, int]


class Ref(NamedTuple):
    """Reference to the value of an earlier instruction."""

    key: int


class Sharded(NamedTuple):
    """Constant with one part per block."""

    parts: list[Any]


class Instruction(NamedTuple):
    """``value = operation(*args)``.

    Attributes
    ----------
    key : int
        Key of the value for later instructions; -1 for a value that is returned to the caller.
    kind : BLOCK, SHARED or SUM
    operation : str
        Name in :mod:`lorank.distributed.operations`.
    args : tuple
        References, sharded constants and constants.
    keep : {0, 1, 2}
        0 if no later program uses the value, 2 if the value is large (as many numbers as observations), 1 otherwise.
    """

    key: int
    kind: str
    operation: str
    args: tuple[Any, ...]
    keep: int = 1

    @property
    def uses(self) -> list[int]:
        """Keys of the values among the arguments."""
        return [a.key for a in self.args if isinstance(a, Ref)]


@dataclass
class Program:
    """Instructions, and keys of values to delete before they run."""

    instructions: list[Instruction] = field(default_factory=list)
    delete: list[int] = field(default_factory=list)

    def for_blocks(self, blocks: list[int]) -> Program:
        """The program with only those parts of sharded constants that these blocks need."""
        if not any(isinstance(a, Sharded) for i in self.instructions for a in i.args):
            return self
        chosen = set(blocks)

        def cut(a: Any) -> Any:
            return Sharded([p if k in chosen else None for k, p in enumerate(a.parts)]) if isinstance(a, Sharded) else a

        return Program([i._replace(args=tuple(map(cut, i.args))) for i in self.instructions], self.delete)


def stages(program: Program) -> list[list[Instruction]]:
    """Instructions in groups. A group uses no sum that is not complete when the group begins."""
    at: dict[int, int] = {}  # stage in which a value is complete; values of earlier programs are
    groups: list[list[Instruction]] = []
    for one in program.instructions:
        stage = max((at.get(key, 0) for key in one.uses), default=0)
        while len(groups) <= stage:
            groups.append([])
        groups[stage].append(one)
        if one.key >= 0:
            at[one.key] = stage + (one.kind == SUM)
    return groups


@dataclass(frozen=True)
class BlockLayout:
    """Blocks of rows of a matrix.

    Attributes
    ----------
    shape : (int, int)
        Shape of the matrix.
    edges : tuple of int
        Block k has the rows ``edges[k] .. edges[k + 1] - 1``.
    """

    shape: tuple[int, int]
    edges: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.edges) - 1

    def rows(self, block: int) -> slice:
        return slice(self.edges[block], self.edges[block + 1])

    def cut(self, a: np.ndarray) -> list[np.ndarray]:
        """Parts of an array with one entry per row, one per block."""
        return [a[self.rows(k)] for k in range(self.count)]


def assign_blocks(count: int, shards: int) -> list[list[int]]:
    """Blocks of each shard: neighbours, cut as the tree of sums is, so that a shard has whole branches of it."""

    def assign(low: int, high: int, places: int) -> list[list[int]]:
        if places == 1 or high - low == 1:
            return [list(range(low, high)), *([] for _ in range(places - 1))]
        middle, left = (low + high) // 2, (places + 1) // 2
        if high - middle > middle - low:
            left = places // 2
        return [*assign(low, middle, left), *assign(middle, high, places - left)]

    return assign(0, count, shards)


class TreeSum:
    """Sum of the terms of ``count`` blocks in the order of the tree.

    Terms are tuples of arrays. The sum owns them and adds to them in place.
    """

    def __init__(self, count: int) -> None:
        self.root: Range = (0, count)
        self.terms: dict[Range, tuple[Any, ...]] = {}

    def add(self, where: Range, term: tuple[Any, ...]) -> None:
        """Add the sum over the blocks of a range of the tree."""
        while where != self.root:
            parent, left = _parent(self.root, where)
            sibling = (where[1], parent[1]) if left else (parent[0], where[0])
            if sibling not in self.terms:
                break
            other = self.terms.pop(sibling)
            term = tuple(map(_plus, term, other) if left else map(_plus, other, term))
            where = parent
        self.terms[where] = term

    @property
    def total(self) -> tuple[Any, ...]:
        return self.terms[self.root]


def tree_total(terms: Sequence[Any]) -> Any:
    """Sum of one term per block in the order of the tree; the terms are not changed."""

    def total(low: int, high: int) -> Any:
        if high - low == 1:
            return terms[low]
        middle = (low + high) // 2
        return total(low, middle) + total(middle, high)

    return total(0, len(terms))


def join_results(results: Sequence[Sequence[Any]], count: int) -> list[Any]:
    """Results of a program from those of each shard: a list with one value per block, or the shared value."""
    joined = []
    for parts in zip(*results, strict=True):
        if all(isinstance(part, dict) for part in parts):
            by_block = {k: value for part in parts for k, value in part.items()}
            joined.append([by_block[k] for k in range(count)])
        else:
            joined.append(parts[0])
    return joined


def _parent(root: Range, where: Range) -> tuple[Range, bool]:
    """The range that a range is one half of, and whether it is the left half."""
    low, high = root
    while True:
        middle = (low + high) // 2
        if where in ((low, middle), (middle, high)):
            return (low, high), where[0] == low
        low, high = (low, middle) if where[1] <= middle else (middle, high)


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray) and a.ndim and a.flags.writeable and a.dtype == np.result_type(a, b):
        a += b
        return a
    return a + b
