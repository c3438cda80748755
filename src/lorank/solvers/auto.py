"""The default: conjugate gradients from a staged start, in balanced units, and where they stall, rank by rank."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..geometry import FixedRank
from ..operators import Balanced, Problem
from ..starts import Spectral, grow
from .loop import Solver, State
from .rcg import RCG

FULL, GROWING, GROWN = "at full rank", "growing", "grown"


@dataclass(frozen=True)
class Memory:
    """The balanced problem if there is one, the state there, the rank asked for, the phase, and its residuals so far."""

    balanced: Balanced | None
    inner: State
    rank: int
    phase: str = FULL
    residuals: tuple[float, ...] = ()


@dataclass(frozen=True)
class Auto:
    """Tries the fast way first and the sure way where that fails.

    1. Conjugate gradients at full rank from a staged start: some ten steps on well-sampled data. Where rows or columns differ
       much in size, this happens in units in which they do not (:meth:`~lorank.Problem.balanced`).
    2. Where the residual has not fallen to ``fall`` of itself within ``window`` steps: back to rank 1, and on rank by rank,
       each time from the leading singular pair of what is left over. This gets through ill-conditioned and barely sampled
       problems; in the units of the data, where one pair stands out from the next.

    What it did is told in ``result.status.advice`` and ``result.history.notes``.
    """

    solver: Solver = field(default_factory=RCG)
    window: int = 25
    fall: float = 0.3
    settle: int = 5  # steps over which a rank's residual must still fall by a tenth, or the next rank is tried
    most: int = 30  # steps at each rank

    default_start = "balanced"

    def start(self, problem: Problem, state: State) -> Memory:
        balanced = problem.balanced()
        inner = state if balanced is None else State.at(balanced.problem, balanced.into(state.X))
        inner = inner.remember(self.solver.start(balanced.problem if balanced else problem, inner))
        return Memory(balanced, inner, state.X.rank, residuals=(inner.residual,))

    def step(self, problem: Problem, state: State) -> State:
        memory = state.memory
        if memory.phase == FULL and memory.rank > 1 and self._slow(memory.residuals, state.X.dtype):
            X = problem.restrict(Spectral(tol=1e-2, restarts=2)(problem, 1, np.random.default_rng(0)))
            note = f"the residual stayed near {state.residual:.1e} at rank {memory.rank}: started again, rank by rank"
            return self._begin(problem, state, X, GROWING, note)
        if memory.phase == GROWING and self._settled(memory.residuals):
            X = grow(problem, state.X, 1, np.random.default_rng(state.X.rank))
            phase = GROWING if X.rank < memory.rank else GROWN
            return self._begin(problem, state, X, phase, f"rank {X.rank} from residual {state.residual:.1e}")
        inner = self.solver.step(memory.balanced.problem if memory.balanced else problem, memory.inner)
        recent = (*memory.residuals, inner.residual)[-1 - max(self.window, self.most) :]
        return self._outer(problem, state, replace(memory, inner=inner, residuals=recent))

    def _begin(self, problem: Problem, state: State, X: FixedRank, phase: str, note: str) -> State:
        """Begin anew at X, in the units of the data."""
        inner = state.next(problem, X, float("nan"))
        inner = inner.remember(self.solver.start(problem, inner))
        memory = Memory(None, inner, state.memory.rank, phase, (inner.residual,))
        return replace(self._outer(problem, state, memory), note=note, previous=None)

    def _outer(self, problem: Problem, state: State, memory: Memory) -> State:
        """The state in the units of the data."""
        inner = memory.inner
        if memory.balanced is None:
            new = replace(inner, iteration=state.iteration + 1, memory=memory)
        else:
            new = state.next(problem, memory.balanced.back(inner.X), inner.step, memory)
        # On the way up, a small change from one point to the next says nothing about the end.
        return replace(new, previous=None) if memory.phase == GROWING else new

    def _slow(self, residuals: tuple[float, ...], dtype: Any) -> bool:
        if len(residuals) <= self.window or residuals[-1] < 100 * np.finfo(dtype).eps:  # too early, or as good as it gets
            return False
        return residuals[-1] > self.fall * residuals[-1 - self.window]

    def _settled(self, residuals: tuple[float, ...]) -> bool:
        count = len(residuals) - 1
        return count >= self.most or (count >= self.settle and residuals[-1] > 0.9 * residuals[-1 - self.settle])
