"""A site: some blocks in one place, with what was computed for them, and one copy of what is shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..backends import Backend
from .operations import OPERATIONS, Where
from .program import Plan, TreeSum
from .programs import BLOCK, SHARED, SUM, Instruction, Pieces, Program, Ref, stages

OBSERVATIONS = 0  # the key of the observations that a site begins with


class Holder(Protocol):
    """Who has the observations of blocks."""

    def observations(self, block: int) -> Any:
        """Those of a block, to be used now."""
        ...

    def keep(self, value: Any) -> Any:
        """A value for each observation of a block as it is kept from one program to the next."""
        ...

    def done(self, block: int) -> None:
        """The block is not needed again in this group of instructions."""
        ...


class InMemory:
    """All blocks in main memory (or on a device)."""

    def __init__(self, blocks: dict[int, Any]) -> None:
        self.blocks = blocks

    def observations(self, block: int) -> Any:
        return self.blocks[block]

    def keep(self, value: Any) -> Any:
        return value

    def done(self, block: int) -> None:
        pass


Exchange = Callable[[TreeSum], Any]


def alone(found: TreeSum) -> Any:
    """The exchange of a site that has all blocks."""
    return found.total


class Site:
    """Runs programs on its blocks.

    Parameters
    ----------
    backend : Backend
        Who computes here.
    plan : Plan
    numbers : list of int
        The blocks that are here.
    holder : Holder
    exchange : callable
        Makes the sum over all blocks of all sites from that over the blocks here.
    """

    def __init__(self, backend: Backend, plan: Plan, numbers: list[int], holder: Holder, exchange: Exchange = alone) -> None:
        self.backend, self.plan, self.numbers, self.holder, self.exchange = backend, plan, sorted(numbers), holder, exchange
        self._shared: dict[int, Any] = {}
        self._block: dict[int, dict[int, Any]] = {}
        self._kinds: dict[int, str] = {OBSERVATIONS: BLOCK}
        self._everything = Where(backend, 0, plan.shape[1], plan.shape[1])

    def run(self, program: Program) -> list[Any]:
        """What comes back to the caller, one for each such instruction: a dict from blocks, or one value."""
        for key in program.forget:
            self._shared.pop(key, None)
            self._block.pop(key, None)
            self._kinds.pop(key, None)
        found: dict[int, Any] = {}
        places = {id(one): k for k, one in enumerate(program.instructions)}
        passing: set[int] = set()
        groups = stages(program)
        for k, group in enumerate(groups):
            later = {a.key for after in groups[k + 1 :] for one in after for a in one.args if isinstance(a, Ref)}
            self._run_group(group, later, found, places)
            for one in group:
                if one.key >= 0:
                    self._kinds[one.key] = BLOCK if one.kind == BLOCK else SHARED
                    if not one.keep:
                        passing.add(one.key)
        for key in passing:
            self._shared.pop(key, None)
            self._block.pop(key, None)
            self._kinds.pop(key, None)
        return [found[k] for k, one in enumerate(program.instructions) if one.key < 0]

    def put_shared(self, key: int, value: Any) -> None:
        """A value that was computed before, of all columns."""
        self._shared[key], self._kinds[key] = value, SHARED

    def put_blocks(self, key: int, values: dict[int, Any]) -> None:
        """Values that were computed before, of each block here."""
        self._block[key], self._kinds[key] = values, BLOCK

    def _run_group(self, group: list[Instruction], later: set[int], found: dict[int, Any], places: dict[int, int]) -> None:
        for one in group:
            if one.kind == SHARED:
                value = self._call(one, self._everything, None, {})
                if one.key < 0:
                    found[places[id(one)]] = value
                else:
                    self._shared[one.key] = value
        by_block = [one for one in group if one.kind != SHARED]
        if not by_block:
            return
        sums = {id(one): TreeSum(self.plan.count) for one in by_block if one.kind == SUM}
        for block in self.numbers:
            rows = self.plan.rows(block)
            where = Where(self.backend, rows.start, rows.stop, self.plan.shape[1])
            here: dict[int, Any] = {}
            for one in by_block:
                value = self._call(one, where, block, here)
                if one.kind == SUM:
                    sums[id(one)].add((block, block + 1), value)
                elif one.key < 0:
                    found.setdefault(places[id(one)], {})[block] = value
                else:
                    here[one.key] = value
                    if one.keep:
                        kept = self.holder.keep(value) if one.keep > 1 else value
                        self._block.setdefault(one.key, {})[block] = kept
                    elif one.key in later:
                        self._block.setdefault(one.key, {})[block] = value
            self.holder.done(block)
        for one in by_block:
            if one.kind == SUM:
                self._shared[one.key] = self.exchange(sums[id(one)])

    def _call(self, one: Instruction, where: Where, block: int | None, here: dict[int, Any]) -> Any:
        args = [self._value(a, block, here) for a in one.args]
        return OPERATIONS[one.operation](where, *args)

    def _value(self, a: Any, block: int | None, here: dict[int, Any]) -> Any:
        if isinstance(a, Ref):
            if a.key in here:
                return here[a.key]
            if a.key in self._shared:
                return self._shared[a.key]
            assert block is not None
            if a.key == OBSERVATIONS:
                here[OBSERVATIONS] = self.holder.observations(block)
                return here[OBSERVATIONS]
            return self._block[a.key][block]
        if isinstance(a, Pieces):
            assert block is not None
            return _aligned(a.parts[block])
        return _aligned(a)


def _aligned(a: Any) -> Any:
    """Constants as NumPy makes arrays: those that came with a message may lie anywhere, and BLAS would not be asked then."""
    if isinstance(a, np.ndarray):
        return a if a.flags.aligned else a.copy()
    return {key: _aligned(one) for key, one in a.items()} if isinstance(a, dict) else a
