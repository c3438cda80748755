"""Values that live with the blocks, as the driver sees them: nodes that are computed together, when something is asked for."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .engine import Engine
from .operations import PASSES
from .program import Plan
from .programs import BLOCK, SHARED, Instruction, Pieces, Program, Ref, stages
from .shard import OBSERVATIONS

MOST_NUMBERS = 1000  # that are remembered
WIDE = 48  # numbers for each row: from here on an array of rows goes where vectors of observations go


class Node:
    """One value to be: what makes it, and the key under which the sites keep it."""

    __slots__ = ("__weakref__", "args", "graph", "key", "kind", "operation", "owned", "stored")

    def __init__(self, graph: Graph, key: int, kind: str, operation: str, args: tuple[Any, ...]) -> None:
        self.graph, self.key, self.kind, self.operation, self.args = graph, key, kind, operation, args
        self.stored = False
        self.owned: weakref.ref[Any] | None = None  # the array that stands for it; without one nobody asks for it later

    def __del__(self) -> None:
        if self.stored and self.key != OBSERVATIONS:
            self.graph.garbage.append(self.key)


class Graph:
    """The nodes of one set of observations, and the engine that computes them.

    Attributes
    ----------
    trips : int
        Programs run so far.
    passes : int
        How often the observations were gone through: once for all that a group of instructions does with them.
    watch : callable or None
        Called with this graph after each program.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.plan: Plan = engine.plan
        self.garbage: list[int] = []
        self.trips = self.passes = 0
        self.watch: Callable[[Graph], None] | None = None
        self.grams: dict[Any, Any] = {}  # Gram products that are known, by the keys of their nodes
        self.numbers: dict[Any, Any] = {}  # sums and squared norms that are known
        self._pending: list[weakref.ref[Node]] = []
        self._keys = itertools.count(OBSERVATIONS + 1)
        self.observations = Node(self, OBSERVATIONS, BLOCK, "", ())
        self.observations.stored = True

    def node(self, kind: str, operation: str, *args: Any) -> Node:
        """A value that the next program makes."""
        made = Node(self, next(self._keys), kind, operation, args)
        self._pending.append(weakref.ref(made))
        return made

    def find(self, wanted: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """Run everything that waits, and bring back these: for each operation and its arguments, one value for each block,
        or one value where all arguments are shared.
        """
        nodes = [node for ref in self._pending if (node := ref()) is not None]
        self._pending = []
        program = Program(forget=self.garbage)
        self.garbage = []
        for node in nodes:
            owner = None if node.owned is None else node.owned()
            keep = 0 if owner is None else 2 if _large(owner) else 1
            program.instructions.append(Instruction(node.key, node.kind, node.operation, _args(node.args), keep))
        for operation, args in wanted:
            kind = BLOCK if any(isinstance(a, Pieces) or (isinstance(a, Node) and a.kind == BLOCK) for a in args) else SHARED
            program.instructions.append(Instruction(-1, kind, operation, _args(args)))
        self.trips += 1
        if len(self.numbers) > MOST_NUMBERS:
            self.numbers.clear()
        try:
            found = self.engine.run(program)
        except BaseException:  # Ctrl-C, say: what was to be made can still be asked for
            self._pending = [*map(weakref.ref, nodes), *self._pending]
            self.garbage = [*program.forget, *self.garbage]
            raise
        for node, one in zip(nodes, program.instructions, strict=False):
            node.stored, node.args = one.keep > 0, ()  # what it was made from may go
        self.passes += sum(any(one.operation in PASSES for one in group) for group in stages(program))
        if self.watch is not None:
            self.watch(self)
        return found


def _large(owner: Any) -> bool:
    """Whether an array is as long as the observations are many, or has many numbers for each row (covariances, say)."""
    side, like = getattr(owner, "side", "entries"), owner.like
    return bool(side == "entries" or (side == "rows" and np.prod(like.shape[1:]) >= WIDE))


def _args(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(Ref(a.key) if isinstance(a, Node) else a for a in args)
