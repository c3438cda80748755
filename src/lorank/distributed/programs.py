"""Short programs that run on every block, and what can stand in them.

An instruction makes one value from others. Values live where they are made: ``BLOCK`` values, one for each block (its rows of
a tall array, its observations, a vector of one number per observation), stay with the block; ``SHARED`` values (column factors)
are the same at every site. A ``SUM`` is made block by block and added up over all blocks into a shared value. What a program
is to *find* comes back to the caller: small arrays from each block, or from the shared values of one site.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

BLOCK, SHARED, SUM = "block", "shared", "sum"


class Ref(NamedTuple):
    """The value of an earlier instruction."""

    key: int


class Pieces(NamedTuple):
    """A constant of which each block has its own piece."""

    parts: list[Any]


class Instruction(NamedTuple):
    """``value = operation(*args)``.

    Attributes
    ----------
    key : int
        By which later ones know the value; -1 where it is to come back to the caller.
    kind : BLOCK, SHARED or SUM
    operation : str
        See :mod:`lorank.distributed.operations`.
    args : tuple
        References, pieces, and constants.
    keep : {0, 1, 2}
        Whether later programs may ask for it, and whether it is as long as the observations are many.
    """

    key: int
    kind: str
    operation: str
    args: tuple[Any, ...]
    keep: int = 1


@dataclass
class Program:
    """Instructions, and keys of values that nobody needs any more before they run."""

    instructions: list[Instruction] = field(default_factory=list)
    forget: list[int] = field(default_factory=list)

    def for_blocks(self, blocks: list[int]) -> Program:
        """The same with only those pieces of constants that these blocks need."""
        if not any(isinstance(a, Pieces) for i in self.instructions for a in i.args):
            return self
        chosen = set(blocks)

        def cut(a: Any) -> Any:
            return Pieces([p if k in chosen else None for k, p in enumerate(a.parts)]) if isinstance(a, Pieces) else a

        return Program([i._replace(args=tuple(map(cut, i.args))) for i in self.instructions], self.forget)


def stages(program: Program) -> list[list[Instruction]]:
    """The instructions in groups: a group needs no sum that is not complete when it begins.

    Parameters
    ----------
    program : Program
    """
    at: dict[int, int] = {}  # values that earlier programs have left are there
    groups: list[list[Instruction]] = []
    for one in program.instructions:
        stage = max((at.get(a.key, 0) for a in one.args if isinstance(a, Ref)), default=0)
        while len(groups) <= stage:
            groups.append([])
        groups[stage].append(one)
        if one.key >= 0:
            at[one.key] = stage + (one.kind == SUM)
    return groups
