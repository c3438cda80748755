"""Replay log: the programs to run again after a worker was lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .operations import PASSES, REBUILT
from .program import OBSERVATIONS, Instruction, Program, Ref, stages

MAX_REBUILD_SHARE = 0.25  # passes of the rebuilding program after a cut, relative to those of the log before it


class Cut(NamedTuple):
    """A way to shorten the log: keys of the arrays to write with their ``keep`` (see
    :class:`~lorank.distributed.program.Instruction`), and a program that makes the other values from them.
    """

    written: dict[int, int]
    rebuild: Program


class ReplayLog:
    """Log of the programs of an engine.

    Attributes
    ----------
    programs : list of Program
        Programs since the last cut.
    written : dict
        Keys of the values in the last snapshot, with their ``keep``.
    rebuild : Program
        Makes the other values of that time from these.
    """

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.written: dict[int, int] = {}
        self.rebuild = Program()
        self._alive: dict[int, int] = {}  # keys that later programs may use, with their keep
        self._made: dict[int, Instruction] = {}  # instructions since the last cut, and those of the rebuilding program

    def add(self, program: Program) -> None:
        self.programs.append(program)
        for key in program.delete:
            self._alive.pop(key, None)
        for one in program.instructions:
            if one.key >= 0:
                self._made[one.key] = one
                if one.keep:
                    self._alive[one.key] = one.keep

    def replay(self) -> Iterator[Program]:
        """Programs to run on new shards that have read the last snapshot."""
        if self.rebuild.instructions:
            yield self.rebuild
        yield from self.programs

    def cut(self) -> Cut | None:
        """The cut to make now; None if too many passes would have to be repeated after it.

        Values with one number per observation are computed again rather than written, if that is cheap.
        """
        limit = MAX_REBUILD_SHARE * sum(map(passes, self.replay()))
        for large in (1, 2):
            written = {
                key: keep
                for key, keep in self._alive.items()
                if key not in self._made or (keep <= large and self._made[key].operation not in REBUILT)
            }
            rebuild = self._slice(written)
            if rebuild is not None and passes(rebuild) <= limit:
                return Cut(written, rebuild)
        return None

    def truncate(self, cut: Cut) -> None:
        """Drop the programs before a cut whose arrays are written."""
        self.programs, self.written, self.rebuild = [], cut.written, cut.rebuild
        self._made = {one.key: one for one in cut.rebuild.instructions}

    def _slice(self, written: dict[int, int]) -> Program | None:
        """Instructions that make the values that are alive and not written; None if an argument is no longer available."""
        wanted, needed = [key for key in self._alive if key not in written], set[int]()
        while wanted:
            key = wanted.pop()
            if key in needed or key in written or key == OBSERVATIONS:
                continue
            if key not in self._made:  # an array of the last snapshot that was deleted since
                return None
            needed.add(key)
            wanted += [a.key for a in self._made[key].args if isinstance(a, Ref)]
        chosen = [self._made[key] for key in sorted(needed)]  # in the order in which they were made
        return Program([one._replace(keep=self._alive.get(one.key, 0)) for one in chosen])


def passes(program: Program) -> int:
    """Number of passes over the observations in a program."""
    return sum(any(one.operation in PASSES for one in group) for group in stages(program))
