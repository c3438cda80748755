"""Shards and engines: a shard runs programs on its blocks, an engine runs them on all blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..backends import Backend
from ..backends.normal_equations import RowSystems
from .operations import OPERATIONS, BlockContext
from .program import (
    OBSERVATIONS,
    SHARED,
    SUM,
    BlockLayout,
    Instruction,
    Program,
    Ref,
    Sharded,
    TreeSum,
    join_results,
    stages,
)

Exchange = Callable[[TreeSum], tuple[Any, ...]]


class Shard:
    """Some blocks in one place, with the values computed for them and a copy of the shared values.

    Parameters
    ----------
    backend : Backend
        Backend that computes here.
    layout : BlockLayout
    blocks : list of int
        Numbers of the blocks of this shard.
    observations : callable
        Returns the observations of a block.
    keep : callable, optional
        Returns a large value of a block in the form in which it is kept from one program to the next.
    exchange : callable, optional
        Makes the sum over the blocks of all shards from that over the blocks here. By default this shard has all blocks.
    """

    def __init__(
        self,
        backend: Backend,
        layout: BlockLayout,
        blocks: list[int],
        observations: Callable[[int], Any],
        keep: Callable[[Any], Any] = lambda value: value,
        exchange: Exchange = lambda found: found.total,
    ) -> None:
        self.backend, self.layout, self.blocks = backend, layout, sorted(blocks)
        self.observations, self.keep, self.exchange = observations, keep, exchange
        self.shared_values: dict[int, Any] = {}
        self.block_values: dict[int, dict[int, Any]] = {}
        self._all_columns = BlockContext(backend, 0, layout.shape[1], layout.shape[1])

    def run(self, program: Program) -> list[Any]:
        """One value for each instruction without a key: a dictionary by block, or the shared value."""
        self._delete(program.delete)
        found: dict[int, Any] = {}
        places = {id(one): k for k, one in enumerate(program.instructions)}
        groups = stages(program)
        try:
            for k, group in enumerate(groups):
                later = {key for after in groups[k + 1 :] for one in after for key in one.uses}
                self._run_group(group, later, found, places)
        finally:
            self._delete([one.key for one in program.instructions if one.key >= 0 and not one.keep])
        return [found[k] for k, one in enumerate(program.instructions) if one.key < 0]

    def _delete(self, keys: list[int]) -> None:
        for key in keys:
            self.shared_values.pop(key, None)
            self.block_values.pop(key, None)

    def _run_group(self, group: list[Instruction], later: set[int], found: dict[int, Any], places: dict[int, int]) -> None:
        for one in group:
            if one.kind == SHARED:
                value = self._call(one, self._all_columns, None, {})
                if one.key < 0:
                    found[places[id(one)]] = value
                else:
                    self.shared_values[one.key] = value
        by_block = [one for one in group if one.kind != SHARED]
        if not by_block:
            return
        sums = {one.key: TreeSum(self.layout.count) for one in by_block if one.kind == SUM}
        single: dict[int, bool] = {}  # whether the terms of a sum are arrays, not tuples of arrays
        for block in self.blocks:
            rows = self.layout.rows(block)
            context = BlockContext(self.backend, rows.start, rows.stop, self.layout.shape[1])
            here: dict[int, Any] = {}
            for one in by_block:
                value = self._call(one, context, block, here)
                if one.kind == SUM:
                    single[one.key] = not isinstance(value, tuple)
                    sums[one.key].add((block, block + 1), (value,) if single[one.key] else value)
                elif one.key < 0:
                    found.setdefault(places[id(one)], {})[block] = value
                else:
                    here[one.key] = value
                    if one.keep or one.key in later:
                        self.block_values.setdefault(one.key, {})[block] = self.keep(value) if one.keep > 1 else value
        for key, found_here in sums.items():
            total = self.exchange(found_here)
            self.shared_values[key] = total[0] if single[key] else total

    def _call(self, one: Instruction, context: BlockContext, block: int | None, here: dict[int, Any]) -> Any:
        return OPERATIONS[one.operation](context, *(self._value(a, block, here) for a in one.args))

    def _value(self, a: Any, block: int | None, here: dict[int, Any]) -> Any:
        if isinstance(a, Ref):
            if a.key in here:
                return here[a.key]
            if a.key in self.shared_values:
                return self.shared_values[a.key]
            assert block is not None
            if a.key == OBSERVATIONS:
                here[OBSERVATIONS] = self.observations(block)
                return here[OBSERVATIONS]
            return self.block_values[a.key][block]
        if isinstance(a, Sharded):
            assert block is not None
            return _aligned(a.parts[block])
        return _aligned(a)


def _aligned(a: Any) -> Any:
    """Constants in aligned memory. Arrays in a message may be unaligned, and NumPy does not pass these to BLAS."""
    if isinstance(a, np.ndarray):
        return a if a.flags.aligned else a.copy()
    return a._replace(prior=_aligned(a.prior), shift=_aligned(a.shift)) if isinstance(a, RowSystems) else a


class Engine(Protocol):
    """Runs programs on all blocks.

    Attributes
    ----------
    layout : BlockLayout
    workers : int
        Number of processes or devices that compute.
    bytes : int
        Bytes sent among them so far.
    """

    layout: BlockLayout

    @property
    def workers(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def run(self, program: Program) -> list[Any]:
        """For each instruction without a key: a list with one value per block, or the shared value."""
        ...


class LocalEngine:
    """Engine with one shard in this process."""

    workers, bytes = 1, 0

    def __init__(self, shard: Shard) -> None:
        self.shard, self.layout = shard, shard.layout

    def run(self, program: Program) -> list[Any]:
        return join_results([self.shard.run(program)], self.layout.count)
