"""What has to be done again when a worker is lost: programs since the last snapshot, and before it only what led to values
that are alive and are no arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .operations import PASSES, REBUILT
from .programs import Instruction, Program, Ref, stages
from .shard import OBSERVATIONS

CHEAP = 0.25  # of the passes over the observations in the log: what is left of it may cost so many


class Cut(NamedTuple):
    """Where the log can be cut: keys of arrays that are written, with how large they are (see :class:`Instruction`), and a
    program that makes the other values from them.
    """

    written: dict[int, int]
    rebuild: Program


class Journal:
    """The log of an engine.

    Attributes
    ----------
    programs : list of Program
        Since the last cut.
    written : dict
        Keys whose values the last snapshot has, and how large these are.
    rebuild : Program
        Makes from these what else was alive then.
    """

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.written: dict[int, int] = {}
        self.rebuild = Program()
        self._alive: dict[int, int] = {}  # keys that later programs may ask for, and how large they are
        self._made: dict[int, Instruction] = {}  # how values were made, since the last cut or in the program that rebuilds

    def add(self, program: Program) -> None:
        self.programs.append(program)
        for key in program.forget:
            self._alive.pop(key, None)
        for one in program.instructions:
            if one.key >= 0:
                self._made[one.key] = one
                if one.keep:
                    self._alive[one.key] = one.keep

    def replay(self) -> Iterator[Program]:
        """All that is to be run at new sites once they have the arrays of the snapshot."""
        if self.rebuild.instructions:
            yield self.rebuild
        yield from self.programs

    def cut(self) -> Cut | None:
        """Where to cut now; None where too much would have to be computed again even so.

        Numbers for each observation are computed again rather than written, where that is cheap.
        """
        most = CHEAP * sum(map(passes, self.replay()))
        for large in (1, 2):
            written = {
                key: keep
                for key, keep in self._alive.items()
                if key not in self._made or (keep <= large and self._made[key].operation not in REBUILT)
            }
            rebuild = self._slice(written)
            if rebuild is not None and passes(rebuild) <= most:
                return Cut(written, rebuild)
        return None

    def forget_before(self, cut: Cut) -> None:
        """The arrays of a cut are written: what came before is not needed any more."""
        self.programs, self.written, self.rebuild = [], cut.written, cut.rebuild
        self._made = {one.key: one for one in cut.rebuild.instructions}

    def _slice(self, written: dict[int, int]) -> Program | None:
        """The instructions that make the values that are alive and not written; None where something is missing for them."""
        wanted, needed = [key for key in self._alive if key not in written], set[int]()
        while wanted:
            key = wanted.pop()
            if key in needed or key in written or key == OBSERVATIONS:
                continue
            if key not in self._made:  # an array of the last snapshot that nobody has any more
                return None
            needed.add(key)
            wanted += [a.key for a in self._made[key].args if isinstance(a, Ref)]
        # In the order in which they were made; what only led to others goes at the end of the program.
        chosen = [self._made[key] for key in sorted(needed)]
        return Program([one._replace(keep=self._alive.get(one.key, 0)) for one in chosen])


def passes(program: Program) -> int:
    """How often a program goes through the observations."""
    return sum(any(one.operation in PASSES for one in group) for group in stages(program))
