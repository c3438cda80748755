"""Actor of a Dask worker, and calls of its methods."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import pickle
import traceback
from typing import Any, NamedTuple

from ..backends import get_backend
from .client import import_distributed
from .exchange import AllReduce, Mailbox
from .folder import open_folder
from .memory_mapped import MappedBlocks
from .program import Program
from .shard import Shard
from .snapshots import load_shard, save_shard

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h


class Failure(NamedTuple):
    """Exception raised by an actor, and its traceback as text: a pickled exception has none."""

    error: Exception
    traceback: str


class WorkerTraceback(Exception):
    """Cause of an exception that was raised on a worker: the traceback there."""


class Worker:
    """Actor of a worker process: a shard and a mailbox for the messages of the other actors."""

    def __init__(self, folder: str, blocks: list[int], index: int) -> None:
        _keep_freed_memory()
        self._worker: Any = import_distributed().get_worker()
        self._mailbox, self._index = Mailbox(), index
        self._peers: list[tuple[str, str]] = []
        found = open_folder(folder)
        backend = get_backend()
        mapped = MappedBlocks(found, backend, self._worker.local_directory)
        self._shard = Shard(backend, found.layout, blocks, mapped.observations, mapped.keep)

    def call(self, function: str, *args: Any) -> Any:
        """Result of a method. Exceptions are returned: those that Dask raises instead mean that the actor was not reached."""
        try:
            return getattr(self, function)(*args)
        except Exception as error:
            return Failure(_picklable(error), traceback.format_exc())

    def connect(self, peers: list[tuple[str, str]]) -> None:
        """Set the addresses and keys of all actors, including this one."""
        self._peers = peers
        self._sum = AllReduce(self._index, len(peers), self._mailbox, self._send)
        self._shard.exchange = self._sum

    def run(self, program: Program) -> tuple[list[Any], int]:
        """Results of a program, and the number of bytes sent so far."""
        return self._shard.run(program), self._sum.bytes

    def save(self, path: str, keys: dict[int, int]) -> int:
        """Write arrays to a snapshot; the first actor also writes the shared ones."""
        return save_shard(self._shard, path, keys, self._index == 0)

    def load(self, path: str, keys: dict[int, int]) -> None:
        """Read the arrays of a snapshot that the blocks here need."""
        load_shard(self._shard, path, keys)

    async def deliver(self, tag: Any, sender: int, ranges: Any, arrays: Any) -> None:
        self._mailbox.put(tuple(tag), sender, (ranges, arrays))

    async def abandon(self, reason: str) -> None:
        self._mailbox.close(reason)

    def _send(self, index: int, tag: Any, ranges: Any, arrays: Any) -> None:
        """Send a message to another actor, without waiting."""
        address, key = self._peers[index]

        async def send() -> None:
            try:
                answer = await execute(self._worker.rpc(address), key, "deliver", tag, self._index, ranges, arrays)
                if answer["status"] != "OK":
                    raise OSError(answer)
            except Exception as error:
                self._mailbox.close(f"the worker at {address} cannot be reached: {error}")

        asyncio.run_coroutine_threadsafe(send(), self._worker.loop.asyncio_loop)


async def execute(rpc: Any, key: str, function: str, *args: Any) -> Any:
    """Call a method of an actor.

    Dask's public handle (``future.result().method()``) makes the same call, but it does not report a lost actor: if the worker
    is gone, it waits until the actor is created again, and a KeyError for an unknown actor is never set as the result. On a
    worker it also opens a client. There is no public call that reports the loss, so the handler of the worker is called here.
    """
    from distributed.protocol import to_serialize

    return await rpc.actor_execute(function=function, actor=key, args=[to_serialize(a) for a in args], kwargs={})


def is_lost(error: BaseException, key: str) -> bool:
    """Whether a call failed because its worker, its actor or the connection is gone."""
    if isinstance(error, KeyError):  # raised by the handler for an actor that the worker does not have
        return key in str(error)
    if isinstance(error, RuntimeError):  # a worker that is closing
        return "after shutdown" in str(error)
    return isinstance(error, OSError)


def _picklable(error: Exception) -> Exception:
    """The exception, or one with its text if it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _keep_freed_memory() -> None:
    """Let the C library keep freed memory for reuse, as it does by default.

    Dask starts its workers with ``MALLOC_TRIM_THRESHOLD_=65536``. With that setting every array of more than 128 kB is
    requested from the system and returned to it, page by page.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, 1 << 25), (M_TRIM_THRESHOLD, 1 << 29)):
            mallopt(parameter, value)
