"""The Dask engine: worker processes hold the blocks, sums are made among them, and the driver sees small arrays.

Each worker has one actor. A program goes to all of them at once; they run it on their blocks, add up among themselves what
concerns columns, and send back what was asked for: one round trip a program. Everything that was asked of the actors since the
last snapshot is also kept in a journal: when a worker is lost, blocks are dealt out anew among those that are there, which
read the snapshot and run the journal again. Sums do not depend on who holds which block: the answer has the same bits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from typing import Any, NamedTuple

from ..backends import get_backend
from ..common.version import __version__
from ..io.archive import FileError
from .client import ANSWER, ClusterError, import_distributed
from .exchange import AllSum, Lost, Mailbox
from .folder import Folder, open_folder
from .memory_limits import keep_freed_memory
from .memory_mapped import OnDisk
from .opening import plan_of
from .program import share_out
from .programs import Program
from .shard import Site
from .snapshots import Snapshots, load_site, save_site

MOST = 100  # losses of workers in one run
WATCH = 0.5  # seconds between looks at which workers are there, while a program runs
PATIENCE = 60.0  # seconds to wait for a worker where none is left


class Worker:
    """The actor of a worker process: a site, and the letters from the others."""

    def __init__(self, folder: str, numbers: list[int], index: int) -> None:
        distributed = import_distributed()
        keep_freed_memory()
        self._worker: Any = distributed.get_worker()
        self._mailbox, self._index = Mailbox(), index
        self._peers: list[tuple[str, str]] = []
        found = open_folder(folder)
        backend = get_backend()
        holder = OnDisk(found, backend, self._worker.local_directory)
        self._site = Site(backend, plan_of(found), numbers, holder)

    def connect(self, peers: list[tuple[str, str]]) -> None:
        """Addresses and keys of all actors, this one included."""
        self._peers = peers
        self._sum = AllSum(self._index, len(peers), self._mailbox, self._send)
        self._site.exchange = self._sum

    def run(self, program: Program) -> tuple[list[Any], int]:
        """What the program found here, and the bytes sent so far."""
        return self._site.run(program), self._sum.bytes

    def save(self, place: str, keys: dict[int, int]) -> int:
        """Write arrays to a snapshot; the first site also those that all have."""
        return save_site(self._site, place, keys, self._index == 0)

    def load(self, place: str, keys: dict[int, int]) -> None:
        """The arrays of a snapshot, as far as they concern the blocks here."""
        load_site(self._site, place, keys)

    async def deliver(self, tag: Any, sender: int, ranges: Any, arrays: Any) -> None:
        self._mailbox.put(tuple(tag), sender, (ranges, arrays))

    async def abandon(self, reason: str) -> None:
        self._mailbox.close(reason)

    def _send(self, site: int, tag: Any, ranges: Any, arrays: Any) -> None:
        from distributed.protocol import to_serialize

        address, key = self._peers[site]
        args = [to_serialize(a) for a in (tag, self._index, ranges, arrays)]

        async def send() -> None:
            try:
                answer = await self._worker.rpc(address).actor_execute(function="deliver", actor=key, args=args, kwargs={})
                if answer["status"] != "OK":
                    raise OSError(answer)
            except Exception as error:
                self._mailbox.close(f"the worker at {address} cannot be reached: {error}")

        asyncio.run_coroutine_threadsafe(send(), self._worker.loop.asyncio_loop)


class _Place(NamedTuple):
    """A worker's address, its actor's key, the blocks there, and what keeps the actor alive."""

    address: str
    key: str
    blocks: list[int]
    future: Any


class Cluster:
    """Blocks of a folder at the workers of a Dask cluster.

    Parameters
    ----------
    folder : Folder
        Where workers can read it under the same path.
    client : distributed.Client
    scratch : path, optional
        Where snapshots go, a place that all workers see under this name; by default beside the folder.

    Attributes
    ----------
    workers : int
        In use now.
    bytes : int
        Sent among the workers so far.
    recoveries : int
        How often workers were lost.
    replayed : int
        Programs that were run again for that.
    snapshots : Snapshots
    """

    def __init__(self, folder: Folder, client: Any, scratch: Any = None) -> None:
        self.folder, self.client, self.plan = folder, client, plan_of(folder)
        self.address = str(client.scheduler.address)
        self.recoveries = self.replayed = self.bytes = 0
        self.snapshots = Snapshots(folder.path, scratch)
        self._sites: list[_Place] = []
        self._checked: set[str] = set()
        self._begin()

    @property
    def workers(self) -> int:
        return len(self._sites)

    def run(self, program: Program) -> list[Any]:
        self.snapshots.journal.add(program)
        began = time.perf_counter()
        while True:
            try:
                found = self._run(program)
                break
            except Lost as reason:
                self._recover(str(reason), without=1)
        self.snapshots.spent(time.perf_counter() - began)
        if self.snapshots.due:
            self._snapshot()
        return found

    def close(self) -> None:
        self._sites = []

    # -- sites -------------------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        """An actor at each worker, as many as there are blocks."""
        addresses = self._alive()
        if not addresses:
            try:
                self.client.wait_for_workers(1, timeout=PATIENCE)
            except Exception:
                raise ClusterError(f"the cluster has had no workers for {PATIENCE:.0f} seconds: start some") from None
            addresses = self._alive()
        self._check(addresses)
        addresses = addresses[: self.plan.count]
        shares, path = share_out(self.plan.count, len(addresses)), str(self.folder.path.resolve())
        options = {"actor": True, "allow_other_workers": False, "pure": False}
        try:
            made = [
                self.client.submit(Worker, path, blocks, k, workers=[where], **options)
                for k, (where, blocks) in enumerate(zip(addresses, shares, strict=True))
            ]
            for one in made:
                self._wait(one.result, addresses)
            places = zip(addresses, (str(one.key) for one in made), shares, made, strict=True)
            self._sites = [_Place(*place) for place in places]
            peers = [(site.address, site.key) for site in self._sites]
            self._together("connect", [(peers,)] * len(peers))
        except Lost as reason:
            self._count_loss(str(reason))
            time.sleep(WATCH)
            self._begin()

    def _count_loss(self, reason: str) -> None:
        self.recoveries += 1
        self._sites = []
        if self.recoveries > MOST:
            raise ClusterError(f"workers are lost again and again: {reason}")

    def _alive(self) -> list[str]:
        try:
            return sorted(self.client.nthreads())
        except (OSError, RuntimeError, AttributeError, TimeoutError) as error:  # a client that has lost its scheduler
            raise Lost(f"the scheduler does not answer: {error}") from None

    def _check(self, addresses: list[str]) -> None:
        """Workers without lorank, with another version, or that cannot read the folder are refused by name."""
        new = [a for a in addresses if a not in self._checked]
        if new:
            check_workers(self.client, new, self.folder)
            self._checked.update(new)

    def _snapshot(self) -> None:
        """Have the sites write the arrays that are alive, and forget how they were made."""
        journal, began = self.snapshots.journal, time.perf_counter()
        cut = journal.cut()
        if cut is None:
            self.snapshots.put_off()
            return
        try:
            place = self.snapshots.begin()
            self._together("save", [(str(place), cut.written)] * len(self._sites))
        except Lost as reason:
            self._recover(str(reason))
            self.snapshots.broken_off()
            return
        except FileError as error:
            self.snapshots.give_up()
            warnings.warn(f"from here on a lost worker costs all that was computed: {error}", stacklevel=2)
            return
        journal.forget_before(cut)
        self.snapshots.done(place, time.perf_counter() - began)

    def _recover(self, reason: str, without: int = 0) -> None:
        """Deal the blocks out anew, and run again what had been run since the last snapshot, without the last programs."""
        while True:
            with contextlib.suppress(Exception):  # whoever waits for the one that is lost
                self.client.sync(self._abandon, reason)
            self._count_loss(reason)
            try:
                self._reach_scheduler()
                self._begin()
                journal, place = self.snapshots.journal, self.snapshots.place
                if place is not None:
                    self._together("load", [(str(place), journal.written)] * len(self._sites))
                again = list(journal.replay())
                for program in again[: len(again) - without]:
                    self._run(program)
                    self.replayed += 1
                return
            except Lost as another:
                reason = str(another)

    def _reach_scheduler(self) -> None:
        """Where the scheduler is gone, wait until it is there again, with workers."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if self.client.status == "running" and self.client.sync(self._answering):
                    return
            except (OSError, TimeoutError, RuntimeError):
                pass
            if time.monotonic() > end:
                raise ClusterError(
                    f"the scheduler at {self.address} has not answered for {PATIENCE:.0f} seconds: start it again. A run with "
                    "a checkpoint goes on from there"
                )
            time.sleep(WATCH)
            if self.client.status in ("closed", "closing"):  # one that is connecting will
                old, distributed = self.client, import_distributed()
                options = {"direct_to_workers": old.direct_to_workers, "security": old.security, "set_as_default": False}
                with contextlib.suppress(OSError, TimeoutError):
                    self.client = distributed.Client(self.address, timeout=ANSWER / 4, **options)
                    self._checked.clear()

    async def _answering(self) -> bool:
        """Whether the scheduler answers, and has workers."""
        return bool(await asyncio.wait_for(self.client.scheduler.ncores(), ANSWER / 4))

    async def _abandon(self, reason: str) -> None:
        from distributed.protocol import to_serialize

        async def tell(site: _Place) -> None:
            args = [to_serialize(reason)]
            with contextlib.suppress(OSError):
                await self._rpc(site.address).actor_execute(function="abandon", actor=site.key, args=args, kwargs={})

        alive = await self.client.scheduler.ncores()
        tasks = [asyncio.ensure_future(tell(site)) for site in self._sites if site.address in alive]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=WATCH)  # one may be dead, and nobody knows it yet
            for task in late:
                task.cancel()

    # -- programs ------------------------------------------------------------------------------------------------------
    def _run(self, program: Program) -> list[Any]:
        found = self._together("run", [(program.for_blocks(site.blocks),) for site in self._sites])
        self.bytes = sum(one[1] for one in found)
        together = []
        for parts in zip(*(one[0] for one in found), strict=True):
            if all(isinstance(p, dict) for p in parts):
                by_block = {k: v for part in parts for k, v in part.items()}
                together.append([by_block[k] for k in range(self.plan.count)])
            else:
                together.append(parts[0])
        return together

    def _together(self, function: str, args: list[tuple[Any, ...]]) -> list[Any]:
        """The results of a call to each actor; :class:`Lost` where a worker is gone."""
        try:
            answers = self.client.sync(self._answers, function, args)
        except (OSError, RuntimeError, AttributeError) as problem:
            if self.client.status == "running" or isinstance(problem, Lost):
                raise
            raise Lost(f"the scheduler is gone: {problem}") from None
        for answer in answers:
            if answer["status"] != "OK":
                error = answer["exception"]
                if _is_gone(error):
                    raise Lost(f"{error}")
                raise error
        return [answer["result"] for answer in answers]

    async def _answers(self, function: str, args: list[tuple[Any, ...]]) -> list[Any]:
        from distributed.protocol import to_serialize

        async def ask(site: _Place, given: tuple[Any, ...]) -> Any:
            packed = [to_serialize(a) for a in given]
            return await self._rpc(site.address).actor_execute(function=function, actor=site.key, args=packed, kwargs={})

        tasks = [asyncio.ensure_future(ask(*one)) for one in zip(self._sites, args, strict=True)]
        waiting = set(tasks)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=WATCH, return_when=asyncio.FIRST_COMPLETED)
                failed = [t for t in done if t.exception() is not None or t.result()["status"] != "OK"]
                if failed:
                    error = failed[0].exception()
                    if error is not None and _is_gone(error):
                        raise Lost(f"a worker cannot be reached: {error}")
                    return [await failed[0]]
                if not done:
                    try:
                        there = await asyncio.wait_for(self.client.scheduler.ncores(), ANSWER)
                    except (OSError, TimeoutError) as error:
                        raise Lost(f"the scheduler does not answer: {error}") from None
                    gone = {site.address for site in self._sites} - set(there)
                    if gone:
                        raise Lost(f"lost the worker at {min(gone)}")
            return [task.result() for task in tasks]
        finally:
            for task in waiting:
                task.cancel()

    def _rpc(self, address: str) -> Any:
        if self.client.direct_to_workers:
            return self.client.rpc(address)
        from distributed.actor import ProxyRPC

        return ProxyRPC(self.client.scheduler, address)

    def _wait(self, result: Any, addresses: list[str]) -> Any:
        """The result of a future; :class:`Lost` where a worker is gone before it is there."""
        while True:
            try:
                return result(timeout=WATCH)
            except TimeoutError:
                gone = set(addresses) - set(self._alive())
                if gone:
                    raise Lost(f"lost the worker at {min(gone)}") from None


def check_workers(client: Any, addresses: list[str], folder: Folder | None = None) -> None:
    """Refuse workers by name that have no lorank, another version of it, or that cannot read the folder."""
    path, m = (None, 0) if folder is None else (str(folder.path.resolve()), folder.m)
    for address, said in client.run(_about, path, m, workers=addresses, on_error="return").items():
        if isinstance(said, Exception):
            raise ClusterError(f"the worker at {address} cannot run lorank: install lorank {__version__} there ({said})")
        version, problem = said
        if version != __version__:
            raise ClusterError(f"the worker at {address} has lorank {version}, and this is {__version__}: install the same")
        if problem:
            raise ClusterError(f"the worker at {address} cannot use the partitions: {problem}")


def _is_gone(error: BaseException) -> bool:
    """Whether an error means that a worker, its actor or the connection to it is no more."""
    if isinstance(error, RuntimeError) and "after shutdown" in str(error):  # a worker that closes
        return True
    return isinstance(error, (Lost, KeyError, OSError)) and not isinstance(error, FileError)


def _about(folder: str | None, m: int) -> tuple[str, str]:
    """The version of lorank here, and what is wrong with the folder as it is seen from here."""
    from lorank.common.version import __version__ as version
    from lorank.distributed.folder import open_folder as opened

    if folder is None:
        return version, ""
    try:
        found = opened(folder)
    except ValueError as error:
        return version, str(error)
    return version, "" if found.m == m else f"{folder} is another folder there"
