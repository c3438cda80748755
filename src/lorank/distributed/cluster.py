"""Engine for a Dask cluster: each worker holds some blocks, the workers reduce sums among themselves.

Each worker has one actor. A program is sent to all actors at once. They run it on their blocks, reduce the sums over blocks
among themselves and return the requested values: one round trip per program. A replay log holds the programs since the last
snapshot. If a worker is lost, the blocks are assigned to the remaining workers, which read the snapshot and run the log again.
Sums do not depend on the assignment of blocks, so the result has the same bits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any, NamedTuple

from ..io.archive import FileError
from .client import ANSWER_SECONDS, ClusterError, check_workers, import_distributed
from .exchange import WorkerLost
from .folder import Folder
from .program import Program, assign_blocks, join_results
from .snapshots import Snapshots
from .worker import Failure, Worker, WorkerTraceback, execute, is_lost

MAX_LOSSES = 100  # recoveries in one run,
MAX_LOSSES_PER_PROGRAM = 10  # and during one program: it may need more memory than the workers have
POLL_SECONDS = 0.5  # interval between checks that the workers are present, while a program runs
WAIT_SECONDS = 60.0  # limit for the scheduler to come back, and for a first worker


class _Actor(NamedTuple):
    """Address of a worker, key of its actor, the blocks there, and the future that keeps the actor alive."""

    address: str
    key: str
    blocks: list[int]
    future: Any


class Cluster:
    """Engine whose blocks are held by the workers of a Dask cluster.

    Parameters
    ----------
    folder : Folder
        Folder of partitions. The workers must see it under the same path.
    client : distributed.Client
    scratch : path, optional
        Folder for snapshots, which all workers see under the same path. By default the parent of ``folder``.

    Attributes
    ----------
    workers : int
        Workers in use.
    bytes : int
        Bytes sent among the workers so far.
    recoveries : int
        Number of recoveries from lost workers.
    replayed : int
        Programs that were run again for that.
    snapshots : Snapshots
    """

    def __init__(self, folder: Folder, client: Any, scratch: Any = None) -> None:
        self.folder, self.client, self.layout = folder, client, folder.layout
        self.address = str(client.scheduler.address)
        self.recoveries = self.replayed = self.bytes = 0
        self.snapshots = Snapshots(folder.path, scratch)
        self._actors: list[_Actor] = []
        self._ready = False  # whether the actors hold the values that the log makes
        self._recovering(lambda: None)

    @property
    def workers(self) -> int:
        return len(self._actors)

    def run(self, program: Program) -> list[Any]:
        began = time.perf_counter()
        found: list[Any] = self._recovering(lambda: self._run(program))
        self.snapshots.log.add(program)
        self.snapshots.add_time(time.perf_counter() - began)
        if self.snapshots.due:
            self._snapshot()
        return found

    # -- recovery ----------------------------------------------------------------------------------------------------
    def _recovering(self, task: Callable[[], Any]) -> Any:
        """Result of a task; after a lost worker the actors are restored and the task runs again.

        A task that fails twice although no worker has left is not run again: the cause is in the task.
        """
        losses = failures = 0
        while True:
            try:
                if not self._ready:
                    self._restore()
                return task()
            except WorkerLost as error:
                self._stop(str(error))
                self.recoveries += 1
                time.sleep(POLL_SECONDS)  # the scheduler may not have noticed the loss yet
                losses += 1
                failures += self._all_present()
                if failures > 1:
                    raise ClusterError(
                        f"the same program failed twice with all workers present: {error}. Functions and losses of your own "
                        "must be importable on the workers"
                    ) from error
                if losses > MAX_LOSSES_PER_PROGRAM or self.recoveries > MAX_LOSSES:
                    raise ClusterError(f"workers were lost {losses} times in one program: {error}") from error
            except Exception as error:
                self._stop(str(error))  # actors may wait for sums of the one that failed
                raise

    def _restore(self) -> None:
        """Make an actor at each worker, with the values of the last snapshot and of the programs since then."""
        self._reach_scheduler()
        self._create_actors()
        log, path = self.snapshots.log, self.snapshots.path
        if path is not None:
            self._call_all("load", [(str(path), log.written)] * len(self._actors))
        for program in log.replay():
            self._run(program)
            self.replayed += 1
        self._ready = True

    def _stop(self, reason: str) -> None:
        """Release actors that wait for messages. The next program begins with new actors."""
        self._ready = False
        with contextlib.suppress(Exception):
            self.client.sync(self._abandon, reason)

    def _all_present(self) -> bool:
        """Whether every worker in use is still connected to the scheduler."""
        try:
            return bool(self._actors) and {actor.address for actor in self._actors} <= set(self._addresses())
        except WorkerLost:
            return False

    def _create_actors(self) -> None:
        """One actor per worker, at most as many as there are blocks."""
        addresses = self._addresses()
        if not addresses:
            try:
                self.client.wait_for_workers(1, timeout=WAIT_SECONDS)
            except Exception:
                raise ClusterError(f"the cluster has had no workers for {WAIT_SECONDS:.0f} seconds: start some") from None
            addresses = self._addresses()
        addresses = check_workers(self.client, addresses, self.folder)[: self.layout.count]
        if not addresses:
            raise WorkerLost("the workers were lost while they were checked")
        shares, path = assign_blocks(self.layout.count, len(addresses)), str(self.folder.path.resolve())
        options = {"actor": True, "allow_other_workers": False, "pure": False}
        made = [
            self.client.submit(Worker, path, blocks, k, workers=[address], **options)
            for k, (address, blocks) in enumerate(zip(addresses, shares, strict=True))
        ]
        for one in made:
            self._wait(one, addresses)
        keys = [str(one.key) for one in made]
        self._actors = [_Actor(*parts) for parts in zip(addresses, keys, shares, made, strict=True)]
        peers = list(zip(addresses, keys, strict=True))
        self._call_all("connect", [(peers,)] * len(peers))

    def _addresses(self) -> list[str]:
        """Workers that the scheduler lists."""
        try:
            return sorted(self.client.nthreads())
        except (OSError, RuntimeError, AttributeError, TimeoutError) as error:  # a client that has lost its scheduler
            raise WorkerLost(f"the scheduler does not answer: {error}") from None

    def _wait(self, future: Any, addresses: list[str]) -> Any:
        """Result of a future; :class:`WorkerLost` if a worker is lost meanwhile."""
        while True:
            try:
                return future.result(timeout=POLL_SECONDS)
            except TimeoutError:
                gone = set(addresses) - set(self._addresses())
                if gone:
                    raise WorkerLost(f"lost the worker at {min(gone)}") from None
            except (asyncio.CancelledError, CancelledError) as error:  # the scheduler was lost
                raise WorkerLost(f"the scheduler has dropped an actor: {error}") from None

    def _snapshot(self) -> None:
        """Have the actors write the arrays in use, and shorten the log."""
        log, began = self.snapshots.log, time.perf_counter()
        cut = log.cut()
        if cut is None:
            self.snapshots.postpone()
            return
        try:
            path = self.snapshots.begin()
            self._call_all("save", [(str(path), cut.written)] * len(self._actors))
        except WorkerLost as reason:
            self._stop(str(reason))
            self.recoveries += 1
            self.snapshots.discard_incomplete()
            return
        except FileError as error:
            self.snapshots.disable()
            warnings.warn(f"no further snapshots: after a loss, the whole run is computed again ({error})", stacklevel=2)
            return
        log.truncate(cut)
        self.snapshots.commit(path, time.perf_counter() - began)

    def _reach_scheduler(self) -> None:
        """Wait until the scheduler answers; connect again if the client was closed."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                if self.client.status == "running":
                    self.client.sync(self._listed)
                    return
            except (OSError, TimeoutError, RuntimeError):
                pass
            if time.monotonic() > end:
                raise ClusterError(
                    f"the scheduler at {self.address} has not answered for {WAIT_SECONDS:.0f} seconds: start it again. A run "
                    "with a checkpoint can be resumed"
                )
            time.sleep(POLL_SECONDS)
            if self.client.status in ("closed", "closing"):  # not while it reconnects by itself
                old, distributed = self.client, import_distributed()
                options = {"direct_to_workers": old.direct_to_workers, "security": old.security, "set_as_default": False}
                with contextlib.suppress(OSError, TimeoutError):
                    self.client = distributed.Client(self.address, timeout=ANSWER_SECONDS / 4, **options)

    async def _listed(self) -> set[str]:
        """Workers that the scheduler lists, from within the client's event loop."""
        return set(await asyncio.wait_for(self.client.nthreads(), ANSWER_SECONDS / 4))

    async def _abandon(self, reason: str) -> None:
        """Release the actors that wait for messages of a lost one."""

        async def abandon(actor: _Actor) -> None:
            with contextlib.suppress(Exception):
                await execute(self._rpc(actor.address), actor.key, "abandon", reason)

        listed = await self._listed()
        tasks = [asyncio.ensure_future(abandon(actor)) for actor in self._actors if actor.address in listed]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=POLL_SECONDS)  # a lost worker may still be listed
            for task in late:
                task.cancel()

    # -- programs ----------------------------------------------------------------------------------------------------
    def _run(self, program: Program) -> list[Any]:
        found = self._call_all("run", [(program.for_blocks(actor.blocks),) for actor in self._actors])
        self.bytes = sum(one[1] for one in found)
        return join_results([one[0] for one in found], self.layout.count)

    def _call_all(self, function: str, args: list[tuple[Any, ...]]) -> list[Any]:
        """Results of a method of all actors.

        Raises
        ------
        WorkerLost
            If an actor cannot be reached.
        Exception
            The exception of an actor, with the traceback on its worker as the cause.
        """
        try:
            results = self.client.sync(self._results, function, args)
        except (OSError, RuntimeError, AttributeError) as problem:
            if self.client.status == "running" or isinstance(problem, WorkerLost):
                raise
            raise WorkerLost(f"the connection to the scheduler is lost: {problem}") from None
        failures = [(actor, one) for actor, one in zip(self._actors, results, strict=True) if isinstance(one, Failure)]
        for actor, one in sorted(failures, key=lambda pair: isinstance(pair[1].error, WorkerLost)):  # the cause first
            raise one.error from WorkerTraceback(f"on the worker at {actor.address}\n{one.traceback}")
        return list(results)

    async def _results(self, function: str, args: list[tuple[Any, ...]]) -> list[Any]:
        """Result of each actor, a :class:`Failure` included; None for actors that had not finished when another failed."""
        pairs = zip(self._actors, args, strict=True)
        tasks = [asyncio.ensure_future(self._call(actor, function, given)) for actor, given in pairs]
        waiting = set(tasks)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if any(isinstance(task.result(), Failure) for task in done):
                    break
                if not done:
                    try:
                        gone = {actor.address for actor in self._actors} - await self._listed()
                    except (OSError, TimeoutError) as error:
                        raise WorkerLost(f"the scheduler does not answer: {error}") from None
                    if gone:
                        raise WorkerLost(f"lost the worker at {min(gone)}")
            return [task.result() if task.done() else None for task in tasks]
        finally:
            for task in waiting:
                task.cancel()

    async def _call(self, actor: _Actor, function: str, args: tuple[Any, ...]) -> Any:
        try:
            answer = await execute(self._rpc(actor.address), actor.key, "call", function, *args)
            error = None if answer["status"] == "OK" else answer["exception"]
        except Exception as problem:
            error = problem
        if error is None:
            return answer["result"]
        if is_lost(error, actor.key):
            error = WorkerLost(f"the worker at {actor.address} cannot be reached: {error}")
        return Failure(error, "".join(traceback.format_exception(error)))

    def _rpc(self, address: str) -> Any:
        """Connection to a worker, by way of the scheduler if the client is not to connect to workers directly."""
        if self.client.direct_to_workers:
            return self.client.rpc(address)
        from distributed.actor import ProxyRPC

        return ProxyRPC(self.client.scheduler, address)
