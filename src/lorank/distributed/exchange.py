"""Sums among sites: of short arrays along a tree of sites, of long ones each adds up a slice for all, and hands it round."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .program import Range, TreeSum

SHORT = 1 << 21  # bytes: where a message costs a millisecond or so, few of them are better than few bytes

Send = Callable[[int, Any, list[Range], list[Any]], None]


class Lost(RuntimeError):
    """Another site is gone, or the run has gone on without this one."""


class Mailbox:
    """What other sites have sent, by tag and sender."""

    def __init__(self) -> None:
        self._arrived: dict[Any, dict[int, Any]] = {}
        self._change = threading.Condition()
        self._reason = ""

    def put(self, tag: Any, sender: int, content: Any) -> None:
        with self._change:
            self._arrived.setdefault(tag, {})[sender] = content
            self._change.notify_all()

    def wait(self, tag: Any, count: int) -> dict[int, Any]:
        """All ``count`` letters of a tag; :class:`Lost` where that will never be."""
        with self._change:
            while len(self._arrived.get(tag, ())) < count:
                if self._reason:
                    raise Lost(self._reason)
                self._change.wait()
            return self._arrived.pop(tag) if count else {}

    def close(self, reason: str) -> None:
        """Whoever waits, or will wait, has waited long enough."""
        with self._change:
            self._reason = self._reason or reason
            self._change.notify_all()


class AllSum:
    """The sum over all blocks of all sites, at every site.

    Short arrays go up a tree of sites and come down again: two messages a site, of the whole array, in as many rounds as the
    logarithm of the number of sites says. Of long ones site j owns the j-th slice: it gets that slice of what each site has,
    adds it up, and sends the sum to all. Each site then sends and receives twice the size of an array, however many there are,
    in twice as many messages as there are sites. Either way numbers are added in the order of the tree of blocks.

    Parameters
    ----------
    index, sites : int
        Which one of how many this is.
    mailbox : Mailbox
    send : callable
        ``send(site, tag, ranges, arrays)``, which does not wait.
    """

    def __init__(self, index: int, sites: int, mailbox: Mailbox, send: Send) -> None:
        self.index, self.sites, self.mailbox, self.send = index, sites, mailbox, send
        self._number = 0
        self.bytes = 0

    def __call__(self, found: TreeSum) -> Any:
        if self.sites == 1:
            return found.total
        tag = self._number
        self._number += 1
        first = next(iter(found.terms.values()))
        alone = not isinstance(first, tuple)
        terms = {where: (term,) if alone else term for where, term in found.terms.items()}
        size = sum(a.nbytes for a in next(iter(terms.values())))
        total = (self._along_tree if size <= SHORT else self._in_slices)(tag, terms, found.root[1])
        return total[0] if alone else total

    def _along_tree(self, tag: int, terms: dict[Range, Any], count: int) -> tuple[np.ndarray, ...]:
        """Site k adds what the sites k + 1, k + 2, k + 4 ... have, up to its lowest bit, and sends it to k without that bit."""
        below, step = [], 1
        while step < self.sites and not self.index & step:
            below += [self.index + step] if self.index + step < self.sites else []
            step *= 2
        own = TreeSum(count)
        letters = {self.index: (list(terms), list(terms.values()))} | self.mailbox.wait((tag, "part"), len(below))
        for site in sorted(letters):
            for where, term in zip(*letters[site], strict=True):
                own.add((int(where[0]), int(where[1])), tuple(term))
        if self.index:
            self._send(self.index & (self.index - 1), (tag, "part"), list(own.terms), list(own.terms.values()))
            (answer,) = self.mailbox.wait((tag, "whole"), 1).values()
            total = tuple(answer[1][0])
        else:
            total = own.total
        for site in reversed(below):
            self._send(site, (tag, "whole"), [], [total])
        return tuple(a.copy() for a in total)  # what is sent may still lie here, and a sum may be changed

    def _in_slices(self, tag: int, terms: dict[Range, Any], count: int) -> tuple[np.ndarray, ...]:
        edges = np.linspace(0, len(next(iter(terms.values()))[0]), self.sites + 1).astype(int)

        def cut(arrays: Sequence[np.ndarray], site: int) -> tuple[np.ndarray, ...]:
            return tuple(a[edges[site] : edges[site + 1]] for a in arrays)

        others = [k % self.sites for k in range(self.index + 1, self.index + self.sites)]  # each begins with its neighbour
        ranges = list(terms)
        for site in others:
            self._send(site, (tag, "part"), ranges, [cut(term, site) for term in terms.values()])
        own = TreeSum(count)
        letters = {self.index: (ranges, [cut(term, self.index) for term in terms.values()])}
        letters |= self.mailbox.wait((tag, "part"), self.sites - 1)
        for site in sorted(letters):
            for where, term in zip(*letters[site], strict=True):
                own.add((int(where[0]), int(where[1])), tuple(term))
        for site in others:
            self._send(site, (tag, "whole"), [], [own.total])
        whole = {self.index: ([], [own.total])} | self.mailbox.wait((tag, "whole"), self.sites - 1)
        slices = [whole[site][1][0] for site in range(self.sites)]
        return tuple(np.concatenate(parts) for parts in zip(*slices, strict=True))

    def _send(self, site: int, tag: Any, ranges: list[Range], arrays: list[Any]) -> None:
        self.bytes += sum(a.nbytes for term in arrays for a in term)
        self.send(site, tag, ranges, arrays)
