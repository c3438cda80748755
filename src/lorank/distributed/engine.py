"""Engines: who runs a program on all blocks, and brings back what it finds."""

from __future__ import annotations

from typing import Any, Protocol

from .program import Plan
from .programs import Program
from .shard import Site


class Engine(Protocol):
    """Runs the same short program on every block.

    Attributes
    ----------
    plan : Plan
    workers : int
        Processes that compute.
    bytes : int
        Sent among them so far.
    """

    plan: Plan

    @property
    def workers(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def run(self, program: Program) -> list[Any]:
        """For each instruction without a key: a list with one value for each block, or the value that is shared."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


class Local:
    """One site in this process."""

    workers, bytes = 1, 0

    def __init__(self, site: Site) -> None:
        self.site, self.plan = site, site.plan

    def run(self, program: Program) -> list[Any]:
        return [
            [one[k] for k in range(self.plan.count)] if isinstance(one, dict) and len(one) == self.plan.count else one
            for one in self.site.run(program)
        ]

    def close(self) -> None:
        pass
