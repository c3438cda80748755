"""Engine for several devices of one process: one shard and one thread per device."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..backends import Backend
from .exchange import WorkerLost
from .program import Program, Range, TreeSum, join_results
from .shard import Shard


class DeviceBarrier:
    """All-reduce among the shards of a process: the last one to arrive adds up the sums in the order of the tree."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self.backends = backends
        self.bytes = 0
        self._change = threading.Condition()
        self._brought: dict[int, TreeSum] = {}
        self._total: Any = None
        self._round = 0
        self._reason = ""

    def exchange(self, index: int, found: TreeSum) -> Any:
        """The sum over all shards, on the device of shard ``index``."""
        with self._change:
            if self._reason:
                raise WorkerLost(self._reason)
            number = self._round
            self._brought[index] = found
            if len(self._brought) == len(self.backends):
                self._total, self._brought = self._added(found.root), {}
                self._round += 1
                self._change.notify_all()
            while self._round == number and not self._reason:
                self._change.wait()
            if self._round == number:
                raise WorkerLost(self._reason)
            total = self._total
        return _moved(self.backends[index], total, copied=True)

    def close(self, reason: str) -> None:
        """End all waiting with an error."""
        with self._change:
            self._reason, self._brought = reason, {}
            self._change.notify_all()

    def open(self) -> None:
        self._reason, self._brought = "", {}

    def _added(self, root: Range) -> Any:
        whole = TreeSum(root[1])
        for index in sorted(self._brought):
            for where, term in self._brought[index].terms.items():
                here = _moved(self.backends[0], term, copied=False)
                self.bytes += 0 if index == 0 else _size(here)
                whole.add(where, here)
        return whole.total


def _moved(backend: Backend, term: Any, copied: bool) -> Any:
    """Arrays on the device of a backend. A copy may be changed by its shard."""
    if isinstance(term, tuple):
        return tuple(_moved(backend, one, copied) for one in term)
    found = backend.asarray(term)
    return backend.copy(found) if copied else found


def _size(term: Any) -> int:
    return sum(map(_size, term)) if isinstance(term, tuple) else int(term.nbytes)


class MultiDevice:
    """Engine with several shards in this process: see :class:`~lorank.distributed.shard.Engine`."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards, self.layout = list(shards), shards[0].layout
        self.barrier = DeviceBarrier([shard.backend for shard in shards])
        for shard in shards:  # PyTorch loads its GPU solvers at the first call, which two threads must not do at once
            shard.backend.inverses(shard.backend.asarray(np.ones((1, 1, 1))))
        self._pool = ThreadPoolExecutor(len(self.shards), thread_name_prefix="lorank")
        for k, shard in enumerate(self.shards):
            shard.exchange = lambda found, k=k: self.barrier.exchange(k, found)  # type: ignore[misc]

    @property
    def workers(self) -> int:
        return len(self.shards)

    @property
    def bytes(self) -> int:
        return self.barrier.bytes

    def run(self, program: Program) -> list[Any]:
        self.barrier.open()

        def one(shard: Shard) -> list[Any]:
            try:
                return shard.run(program)
            except BaseException as error:
                self.barrier.close(f"another device has failed: {error}")
                raise

        futures = [self._pool.submit(one, shard) for shard in self.shards]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:  # the cause, not the errors of shards that waited for it
            raise next((error for error in errors if not isinstance(error, WorkerLost)), errors[0])
        return join_results([future.result() for future in futures], self.layout.count)
