"""Engine for several devices of one process: one shard and one thread per device."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .program import Program, TreeSum, join_results
from .shard import Shard


class MultiDevice:
    """Engine with several shards in this process: see :class:`~lorank.distributed.shard.Engine`.

    The thread that arrives last at a sum over blocks adds up the sums of all shards, in the order of the tree.
    """

    _total: tuple[Any, ...]  # stays until all threads have arrived at the next sum

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards, self.layout, self.bytes = list(shards), shards[0].layout, 0
        for shard in shards:  # PyTorch loads its GPU solvers at the first call, which two threads must not do at once
            shard.backend.inverses(shard.backend.asarray(np.ones((1, 1, 1))))
        self._pool = ThreadPoolExecutor(len(self.shards), thread_name_prefix="lorank")
        self._barrier = threading.Barrier(len(self.shards), self._add_up)
        self._sums: dict[int, TreeSum] = {}  # by shard
        for k, shard in enumerate(self.shards):
            shard.exchange = functools.partial(self._exchange, k)

    @property
    def workers(self) -> int:
        return len(self.shards)

    def run(self, program: Program) -> list[Any]:
        self._barrier.reset()

        def one(shard: Shard) -> list[Any]:
            try:
                return shard.run(program)
            except BaseException:
                self._barrier.abort()  # ends the waiting of the others
                raise

        futures = [self._pool.submit(one, shard) for shard in self.shards]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:  # the cause, not the errors of threads that waited for it
            raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
        return join_results([future.result() for future in futures], self.layout.count)

    def _exchange(self, index: int, found: TreeSum) -> tuple[Any, ...]:
        """The sum over all shards, on the device of shard ``index``; a copy, which the shard may change."""
        self._sums[index] = found
        self._barrier.wait()
        backend = self.shards[index].backend
        return tuple(backend.copy(backend.asarray(a)) for a in self._total)

    def _add_up(self) -> None:
        whole, asarray = TreeSum(self.layout.count), self.shards[0].backend.asarray
        for index, found in sorted(self._sums.items()):
            for where, term in found.terms.items():
                self.bytes += 0 if index == 0 else sum(int(a.nbytes) for a in term)
                whole.add(where, tuple(map(asarray, term)))
        self._total = whole.total
