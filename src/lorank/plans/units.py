"""Units of a phase: the problem as given, rescaled, or in single precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..geometry import FixedRank
from ..loop.state import State
from ..problems import Problem
from ..problems.capabilities import HasSinglePrecision, Rescalable, TightFrame, supports


@dataclass(frozen=True)
class Units:
    """The problem that a phase computes with, and conversions of points to it and back.

    Attributes
    ----------
    problem : Problem
    kind : str
        ``"data"``, ``"rescaled"`` (rows and columns of about the same size) or ``"single precision"``.
    into, back : callable
        Conversions of points from and to data units; None in data units.
    min_residual : float
        Relative residual below which computations continue in data units.
    """

    problem: Problem
    kind: str = "data"
    into: Callable[[FixedRank], FixedRank] | None = None
    back: Callable[[FixedRank], FixedRank] | None = None
    min_residual: float = 0.0

    @classmethod
    def fastest(cls, problem: Problem, state: State, single_precision_until: float) -> Units:
        """Rescaled where rows or columns differ much in size; else single precision for least squares with many data."""
        rescaled = problem.rescaled() if supports(problem, Rescalable) else None
        if rescaled is not None:
            return cls(rescaled.problem, "rescaled", rescaled.into, rescaled.back)
        single = problem.single_precision() if supports(problem, HasSinglePrecision) else None
        if single is None or not supports(problem, TightFrame) or state.residual <= single_precision_until:
            return cls(problem)
        return cls(single.problem, "single precision", single.into, single.back, min_residual=single_precision_until)

    def enter(self, state: State) -> State:
        """The state in these units."""
        return state if self.into is None else State.at(self.problem, self.into(state.X))

    def leave(self, problem: Problem, state: State, inner: State) -> State:
        """The state in data units that follows ``state``; ``inner`` is the one in these units."""
        if self.back is None:
            return inner
        X = self.back(inner.X)
        if self.kind == "single precision":  # the residual is the same, and the gradient is computed only where it is used
            return replace(inner, X=X, gradient=problem.gradient(X), previous=state.X)
        # A step that lowers the rescaled residual need not lower this one.
        return replace(state.next(problem, X, inner.step), restarted=True)
