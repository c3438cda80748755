"""All-reduce among shards: short arrays along a tree of shards, long arrays slice by slice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .program import Range, TreeSum

TREE_MAX_BYTES = 1 << 21  # a message costs about a millisecond: below this size few messages matter more than few bytes

Send = Callable[[int, Any, list[Range], list[Any]], None]


class WorkerLost(RuntimeError):
    """Another worker is lost, or the run has continued without this one."""


class Mailbox:
    """Messages of other shards, by tag and sender."""

    def __init__(self) -> None:
        self._arrived: dict[Any, dict[int, Any]] = {}
        self._change = threading.Condition()
        self._reason = ""

    def put(self, tag: Any, sender: int, content: Any) -> None:
        with self._change:
            self._arrived.setdefault(tag, {})[sender] = content
            self._change.notify_all()

    def wait(self, tag: Any, count: int) -> dict[int, Any]:
        """The ``count`` messages of a tag; :class:`WorkerLost` if the mailbox is closed before they have arrived."""
        with self._change:
            while len(self._arrived.get(tag, ())) < count:
                if self._reason:
                    raise WorkerLost(self._reason)
                self._change.wait()
            return self._arrived.pop(tag) if count else {}

    def close(self, reason: str) -> None:
        """End all present and future waiting with an error."""
        with self._change:
            self._reason = self._reason or reason
            self._change.notify_all()


class AllReduce:
    """Sum over the blocks of all shards, returned on every shard.

    Short arrays are reduced up a tree of shards and broadcast down again: two messages per shard, in a number of rounds
    logarithmic in the number of shards. Of a long array, shard j owns the j-th slice. It receives that slice of all shards,
    adds them up and sends the sum to all. Each shard then sends and receives twice the size of the array, independent of the
    number of shards, in two messages per other shard. Both ways add numbers in the order of the tree of blocks.

    Parameters
    ----------
    index, count : int
        Number of this shard, and number of shards.
    mailbox : Mailbox
    send : callable
        ``send(shard, tag, ranges, arrays)``, which does not wait.
    """

    def __init__(self, index: int, count: int, mailbox: Mailbox, send: Send) -> None:
        self.index, self.count, self.mailbox, self.send = index, count, mailbox, send
        self._number = 0
        self.bytes = 0

    def __call__(self, found: TreeSum) -> tuple[Any, ...]:
        if self.count == 1:
            return found.total
        tag = self._number
        self._number += 1
        size = sum(a.nbytes for a in next(iter(found.terms.values())))
        return (self._along_tree if size <= TREE_MAX_BYTES else self._in_slices)(tag, found.terms, found.root[1])

    def _along_tree(self, tag: int, terms: dict[Range, Any], blocks: int) -> tuple[np.ndarray, ...]:
        """Shard k adds the sums of the shards k + 1, k + 2, k + 4 ... below its lowest bit, and sends to k without that bit."""
        below, step = [], 1
        while step < self.count and not self.index & step:
            below += [self.index + step] if self.index + step < self.count else []
            step *= 2
        own = self._summed(tag, list(terms), list(terms.values()), len(below), blocks)
        if self.index:
            self._send(self.index & (self.index - 1), (tag, "part"), list(own.terms), list(own.terms.values()))
            (answer,) = self.mailbox.wait((tag, "whole"), 1).values()
            total = tuple(answer[1][0])
        else:
            total = own.total
        for shard in reversed(below):
            self._send(shard, (tag, "whole"), [], [total])
        return tuple(a.copy() for a in total)  # the sent arrays may still be in use, and the caller may change its sum

    def _in_slices(self, tag: int, terms: dict[Range, Any], blocks: int) -> tuple[np.ndarray, ...]:
        edges = np.linspace(0, len(next(iter(terms.values()))[0]), self.count + 1).astype(int)

        def cut(arrays: Sequence[np.ndarray], shard: int) -> tuple[np.ndarray, ...]:
            return tuple(a[edges[shard] : edges[shard + 1]] for a in arrays)

        others = [k % self.count for k in range(self.index + 1, self.index + self.count)]  # each begins with its neighbour
        ranges = list(terms)
        for shard in others:
            self._send(shard, (tag, "part"), ranges, [cut(term, shard) for term in terms.values()])
        own = self._summed(tag, ranges, [cut(term, self.index) for term in terms.values()], self.count - 1, blocks)
        for shard in others:
            self._send(shard, (tag, "whole"), [], [own.total])
        whole = {self.index: ([], [own.total])} | self.mailbox.wait((tag, "whole"), self.count - 1)
        slices = [whole[shard][1][0] for shard in range(self.count)]
        return tuple(np.concatenate(parts) for parts in zip(*slices, strict=True))

    def _summed(self, tag: int, ranges: list[Range], arrays: list[Any], others: int, blocks: int) -> TreeSum:
        """The terms of this shard and of ``others`` further ones that send theirs here, added up."""
        found = TreeSum(blocks)
        messages = {self.index: (ranges, arrays)} | self.mailbox.wait((tag, "part"), others)
        for shard in sorted(messages):
            for where, term in zip(*messages[shard], strict=True):
                found.add((int(where[0]), int(where[1])), tuple(term))
        return found

    def _send(self, shard: int, tag: Any, ranges: list[Range], arrays: list[Any]) -> None:
        self.bytes += sum(a.nbytes for term in arrays for a in term)
        self.send(shard, tag, ranges, arrays)
