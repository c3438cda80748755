"""Lazy values on the blocks: nodes that are computed together in one program when a result is requested."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from .operations import PASSES
from .program import BLOCK, OBSERVATIONS, SHARED, BlockLayout, Instruction, Program, Ref, Sharded, stages
from .shard import Engine

MAX_CACHED_SUMS = 1000  # sums and squared norms that are remembered
LARGE_ROW = 48  # numbers per row from which an array of rows is stored like a vector of observations


class Node:
    """A value to be computed: operation, arguments, and the key under which the shards keep it."""

    __slots__ = ("__weakref__", "args", "graph", "key", "kind", "operation", "owner", "stored")

    def __init__(self, graph: Graph, key: int, kind: str, operation: str, args: tuple[Any, ...]) -> None:
        self.graph, self.key, self.kind, self.operation, self.args = graph, key, kind, operation, args
        self.stored = False
        self.owner: weakref.ref[Any] | None = None  # the array that stands for it; a node without one is not kept

    def __del__(self) -> None:
        if self.stored and self.key != OBSERVATIONS:
            self.graph.unused.append(self.key)


class Graph:
    """Nodes of one set of observations, and the engine that computes them.

    Attributes
    ----------
    trips : int
        Programs run so far, each of which is one round trip to the shards.
    passes : int
        Passes over the observations so far. All instructions of a group share one pass.
    watch : callable or None
        Progress callback, called with the graph after each program.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.layout: BlockLayout = engine.layout
        self.unused: list[int] = []  # keys of values to delete
        self.trips = self.passes = 0
        self.watch: Callable[[Graph], None] | None = None
        self.grams: dict[Any, Any] = {}  # known Gram products by the keys of their nodes
        self.sums: dict[Any, Any] = {}  # known sums and squared norms
        self._pending: dict[int, weakref.ref[Node]] = {}  # nodes to compute, by key
        self._failed: set[int] = set()  # keys of pending nodes in programs that have failed
        self._keys = itertools.count(OBSERVATIONS + 1)
        self.observations = Node(self, OBSERVATIONS, BLOCK, "", ())
        self.observations.stored = True

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a problem in partitions cannot be pickled or copied deeply: pass the path of its folder, and open it there with "
            "lorank.distributed.from_partitions"
        )

    def node(self, kind: str, operation: str, *args: Any) -> Node:
        """A value that the next program computes."""
        made = Node(self, next(self._keys), kind, operation, args)
        self._pending[made.key] = weakref.ref(made)
        return made

    def _due(self, wanted: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Node]:
        """Nodes that the next program computes: all pending ones, but those of a failed program only where they are needed."""
        pending = {key: node for key, ref in self._pending.items() if (node := ref()) is not None}
        todo = [key for key in pending if key not in self._failed]
        todo += [a.key for _, args in wanted for a in args if isinstance(a, Node)]
        due: set[int] = set()
        while todo:
            key = todo.pop()
            if key in pending and key not in due:
                due.add(key)
                todo += [a.key for a in pending[key].args if isinstance(a, Node)]
        self._pending = {key: weakref.ref(node) for key, node in pending.items() if key not in due}
        self._failed &= set(self._pending)
        return [pending[key] for key in sorted(due)]

    def fetch(self, wanted: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """Run all pending nodes, and return the values of operations on them.

        Parameters
        ----------
        wanted : sequence of (operation, arguments)

        Returns
        -------
        list
            For each operation a list with one value per block, or one value if all arguments are shared.
        """
        nodes = self._due(wanted)
        program = Program(delete=self.unused)
        self.unused = []
        for node in nodes:
            owner = None if node.owner is None else node.owner()
            keep = 0 if owner is None else 2 if _large(owner) else 1
            program.instructions.append(Instruction(node.key, node.kind, node.operation, _args(node.args), keep))
        for operation, args in wanted:
            kind = BLOCK if any(isinstance(a, Sharded) or (isinstance(a, Node) and a.kind == BLOCK) for a in args) else SHARED
            program.instructions.append(Instruction(-1, kind, operation, _args(args)))
        self.trips += 1
        if len(self.sums) > MAX_CACHED_SUMS:
            self.sums.clear()
        try:
            found = self.engine.run(program)
        except BaseException:  # including Ctrl-C: the nodes stay pending, so that they can be requested again
            self._pending |= {node.key: weakref.ref(node) for node in nodes}
            self._failed |= {node.key for node in nodes}
            self.unused = [*program.delete, *self.unused]
            raise
        for node, one in zip(nodes, program.instructions, strict=False):
            node.stored, node.args = one.keep > 0, ()  # releases the arguments
        self.passes += sum(any(one.operation in PASSES for one in group) for group in stages(program))
        if self.watch is not None:
            self.watch(self)
        return found


def _large(owner: Any) -> bool:
    """Whether an array has as many entries as there are observations, or many numbers per row (covariances, for example)."""
    side, like = getattr(owner, "side", "entries"), owner.like
    return bool(side == "entries" or (side == "rows" and np.prod(like.shape[1:]) >= LARGE_ROW))


def _args(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(Ref(a.key) if isinstance(a, Node) else a for a in args)
