"""Several places in one process: blocks on several GPUs, or with several threads, and sums made between them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..backends import Backend
from .exchange import Lost
from .program import Range, TreeSum
from .programs import Program
from .shard import Site


class Meeting:
    """Where the sites of a process bring their sums: the last to come adds them up in the order of the tree."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self.backends = backends
        self.bytes = 0
        self._change = threading.Condition()
        self._brought: dict[int, TreeSum] = {}
        self._total: Any = None
        self._round = 0
        self._reason = ""

    def exchange(self, index: int, found: TreeSum) -> Any:
        """The total over all sites, where site ``index`` computes."""
        with self._change:
            if self._reason:
                raise Lost(self._reason)
            number = self._round
            self._brought[index] = found
            if len(self._brought) == len(self.backends):
                self._total, self._brought = self._added(found.root), {}
                self._round += 1
                self._change.notify_all()
            while self._round == number and not self._reason:
                self._change.wait()
            if self._round == number:
                raise Lost(self._reason)
            total = self._total
        return _there(self.backends[index], total, copied=True)

    def close(self, reason: str) -> None:
        """Whoever waits has waited long enough."""
        with self._change:
            self._reason, self._brought = reason, {}
            self._change.notify_all()

    def open(self) -> None:
        self._reason, self._brought = "", {}

    def _added(self, root: Range) -> Any:
        whole = TreeSum(root[1])
        for index in sorted(self._brought):
            for where, term in self._brought[index].terms.items():
                here = _there(self.backends[0], term, copied=False)
                self.bytes += 0 if index == 0 else _size(here)
                whole.add(where, here)
        return whole.total


def _there(backend: Backend, term: Any, copied: bool) -> Any:
    """Arrays where a backend computes; a copy of its own for each site, which may change it."""
    if isinstance(term, tuple):
        return tuple(_there(backend, one, copied) for one in term)
    found = backend.asarray(term)
    return backend.copy(found) if copied else found


def _size(term: Any) -> int:
    if isinstance(term, tuple):
        return sum(map(_size, term))
    return int(term.nbytes)


class Together:
    """Sites of one process, each with a thread: see :class:`~lorank.distributed.engine.Engine`."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites, self.plan = list(sites), sites[0].plan
        self.meeting = Meeting([site.backend for site in sites])
        for site in sites:  # PyTorch loads what it needs for this on a GPU at the first call, and not from two threads at once
            site.backend.inverses(site.backend.asarray(np.ones((1, 1, 1))))
        self._pool = ThreadPoolExecutor(len(self.sites), thread_name_prefix="lorank")
        for k, site in enumerate(self.sites):
            site.exchange = lambda found, k=k: self.meeting.exchange(k, found)  # type: ignore[misc]

    @property
    def workers(self) -> int:
        return len(self.sites)

    @property
    def bytes(self) -> int:
        return self.meeting.bytes

    def run(self, program: Program) -> list[Any]:
        self.meeting.open()

        def one(site: Site) -> list[Any]:
            try:
                return site.run(program)
            except BaseException as error:
                self.meeting.close(f"another device has failed: {error}")
                raise

        futures = [self._pool.submit(one, site) for site in self.sites]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:  # the first cause, and not those who waited for it in vain
            raise next((error for error in errors if not isinstance(error, Lost)), errors[0])
        found = []
        for parts in zip(*(future.result() for future in futures), strict=True):
            if all(isinstance(part, dict) for part in parts):
                by_block = {k: value for part in parts for k, value in part.items()}
                found.append([by_block[k] for k in range(self.plan.count)])
            else:
                found.append(parts[0])
        return found

    def close(self) -> None:
        self._pool.shutdown()
