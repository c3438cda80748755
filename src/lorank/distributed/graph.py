"""Lazy values on the blocks: nodes that are computed together in one program when a result is requested."""

from __future__ import annotations

import itertools
import threading
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


class _Known(threading.local):
    """Results that a thread remembers: sums and squared norms, and Gram products, by the keys of their nodes."""

    def __init__(self) -> None:
        self.sums: dict[Any, Any] = {}
        self.grams: dict[Any, Any] = {}


class Graph:
    """Nodes of one set of observations, and the engine that computes them.

    Several threads may use a graph: programs run one after the other, each with the nodes of its own thread.

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
        self._known = _Known()
        self._pending: dict[
            int, tuple[int, weakref.ref[Node]]
        ] = {}  # nodes to compute, by key, with the threads that made them
        self._failed: set[int] = set()  # keys of pending nodes in programs that have failed
        self._keys = itertools.count(OBSERVATIONS + 1)
        self._running = threading.Lock()
        self.observations = Node(self, OBSERVATIONS, BLOCK, "", ())
        self.observations.stored = True

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a problem in partitions cannot be pickled or copied deeply: pass the path of its folder, and open it there with "
            "lorank.distributed.from_partitions"
        )

    @property
    def sums(self) -> dict[Any, Any]:
        """Known sums and squared norms."""
        return self._known.sums

    @property
    def grams(self) -> dict[Any, Any]:
        """Known Gram products by the keys of their nodes."""
        return self._known.grams

    def node(self, kind: str, operation: str, *args: Any) -> Node:
        """A value that the next program of this thread computes."""
        made = Node(self, next(self._keys), kind, operation, args)
        self._pending[made.key] = threading.get_ident(), weakref.ref(made)
        return made

    def _due(self, wanted: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Node]:
        """Nodes that the next program computes: all pending ones of this thread, and others only where they are needed.

        Others are those of a failed program and of other threads: these may be about to belong to an array.
        """
        found = [(key, thread, ref()) for key, (thread, ref) in list(self._pending.items())]
        pending = {key: node for key, _, node in found if node is not None}
        own = threading.get_ident()
        todo = [key for key, thread, _ in found if thread == own and key in pending and key not in self._failed]
        todo += [a.key for _, args in wanted for a in args if isinstance(a, Node)]
        due: set[int] = set()
        while todo:
            key = todo.pop()
            if key in pending and key not in due:
                due.add(key)
                todo += [a.key for a in pending[key].args if isinstance(a, Node)]
        for key, _, node in found:
            if node is None or key in due:
                self._pending.pop(key, None)
                self._failed.discard(key)
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
        with self._running:
            found = self._fetch(wanted)
        if self.watch is not None:
            self.watch(self)
        return found

    def _fetch(self, wanted: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
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
            self._pending |= {node.key: (threading.get_ident(), weakref.ref(node)) for node in nodes}
            self._failed |= {node.key for node in nodes}
            self.unused = [*program.delete, *self.unused]
            raise
        for node, one in zip(nodes, program.instructions, strict=False):
            node.stored, node.args = one.keep > 0, ()  # releases the arguments
        self.passes += sum(any(one.operation in PASSES for one in group) for group in stages(program))
        return found


def _large(owner: Any) -> bool:
    """Whether an array has as many entries as there are observations, or many numbers per row (covariances, for example)."""
    side, like = getattr(owner, "side", "entries"), owner.like
    return bool(side == "entries" or (side == "rows" and np.prod(like.shape[1:]) >= LARGE_ROW))


def _args(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(Ref(a.key) if isinstance(a, Node) else a for a in args)
