"""The default: conjugate gradients from a staged start, and where they stall, rank by rank."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..operators import Problem
from ..starts import Spectral, grow
from .loop import Solver, State
from .rcg import RCG

FULL, GROWING, GROWN = "at full rank", "growing", "grown"


@dataclass(frozen=True)
class Memory:
    """The inner solver's memory, the rank asked for, the phase, and the residuals since the rank last changed."""

    inner: Any
    rank: int
    phase: str = FULL
    residuals: tuple[float, ...] = ()


@dataclass(frozen=True)
class Auto:
    """Tries the fast way first and the sure way where that fails.

    1. Conjugate gradients at full rank from a staged start: some ten steps on well-sampled data.
    2. Where the residual has not fallen to ``fall`` of itself within ``window`` steps: back to rank 1, and on rank by rank,
       each time from the leading singular pair of what is left over. This gets through ill-conditioned and barely sampled
       problems.

    What it did is told in ``result.status.advice`` and ``result.history.notes``.
    """

    solver: Solver = field(default_factory=RCG)
    window: int = 25
    fall: float = 0.3
    settle: int = 5  # steps over which a rank's residual must still fall by a tenth, or the next rank is tried
    most: int = 30  # steps at each rank

    default_start = "staged"

    def start(self, problem: Problem, state: State) -> Memory:
        return Memory(self.solver.start(problem, state), state.X.rank, residuals=(state.residual,))

    def step(self, problem: Problem, state: State) -> State:
        memory = state.memory
        if memory.phase == FULL and memory.rank > 1 and self._slow(memory.residuals, state.X.dtype):
            return self._regrow(problem, state)
        if memory.phase == GROWING and self._settled(memory.residuals):
            return self._grow(problem, state)
        new = self.solver.step(problem, replace(state, memory=memory.inner))
        recent = (*memory.residuals, new.residual)[-1 - max(self.window, self.most) :]
        new = new.remember(replace(memory, inner=new.memory, residuals=recent))
        # On the way up, a small change from one point to the next says nothing about the end.
        return replace(new, previous=None) if memory.phase == GROWING else new

    def _slow(self, residuals: tuple[float, ...], dtype: Any) -> bool:
        if len(residuals) <= self.window or residuals[-1] < 100 * np.finfo(dtype).eps:  # too early, or as good as it gets
            return False
        return residuals[-1] > self.fall * residuals[-1 - self.window]

    def _settled(self, residuals: tuple[float, ...]) -> bool:
        count = len(residuals) - 1
        return count >= self.most or (count >= self.settle and residuals[-1] > 0.9 * residuals[-1 - self.settle])

    def _regrow(self, problem: Problem, state: State) -> State:
        X = problem.restrict(Spectral(tol=1e-2, restarts=2)(problem, 1, np.random.default_rng(0)))
        note = f"the residual stayed near {state.residual:.1e} at rank {state.memory.rank}: started again, rank by rank"
        return self._at(problem, state, X, GROWING, note)

    def _grow(self, problem: Problem, state: State) -> State:
        X = grow(problem, state.X, 1, np.random.default_rng(state.X.rank))
        phase = GROWING if X.rank < state.memory.rank else GROWN
        return self._at(problem, state, X, phase, f"rank {X.rank} from residual {state.residual:.1e}")

    def _at(self, problem: Problem, state: State, X: Any, phase: str, note: str) -> State:
        new = state.next(problem, X, float("nan"))
        memory = Memory(self.solver.start(problem, new), state.memory.rank, phase, (new.residual,))
        return replace(new, memory=memory, note=note, previous=None)
