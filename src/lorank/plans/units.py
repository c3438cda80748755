"""Units of a stage: the problem as given, rescaled, in single precision, or its well-observed core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..geometry import FixedRank
from ..loop.state import State
from ..problems import Problem
from ..problems.capabilities import HasCore, HasSinglePrecision, Rescalable, TightFrame, supports


@dataclass(frozen=True)
class Units:
    """The problem that a stage computes with, and conversions of points to it and back.

    Attributes
    ----------
    problem : Problem
    kind : str
        ``"data"``, ``"rescaled"`` (rows and columns of about the same size), ``"single precision"`` or ``"core"`` (the
        well-observed rows and columns alone, zeros elsewhere).
    into, back : callable
        Conversions of points from and to data units; None in data units.
    min_residual : float
        Relative residual below which computations continue in the units ``then``.
    then : Units, optional
        Data units by default.
    """

    problem: Problem
    kind: str = "data"
    into: Callable[[FixedRank], FixedRank] | None = None
    back: Callable[[FixedRank], FixedRank] | None = None
    min_residual: float = 0.0
    then: Units | None = None
    core: Any = None

    @classmethod
    def fastest(cls, problem: Problem, state: State, single_precision_until: float, core: bool = True) -> Units:
        """The well-observed core, where other rows and columns are poorly observed; rescaled where rows or columns differ much
        in size; else single precision for least squares with many data.
        """
        inside = problem.core(state.X.rank) if core and supports(problem, HasCore) else None
        if inside is not None and inside.problem.rescaled() is None:
            units = cls(inside.problem, "core", inside.restrict, core=inside)
            rough = inside.problem.single_precision() if supports(inside.problem, HasSinglePrecision) else None
            if rough is None or units.enter(state).residual <= single_precision_until:
                return units
            into = partial(_through, inside.restrict, rough.into)
            return cls(rough.problem, "core", into, rough.back, single_precision_until, units, inside)
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
        if self.kind == "core":
            X = inner.X if self.back is None else self.back(inner.X)
            inside = inner.residual * self.core.problem.y_norm  # outside the core X is zero, and the residual is the data
            residual = (max(problem.y_norm**2 - self.core.problem.y_norm**2, 0.0) + inside**2) ** 0.5 / (problem.y_norm or 1.0)
            return replace(inner, X=X, gradient=problem.gradient(X), residual=residual, previous=state.X, restarted=True)
        if self.back is None:
            return inner
        X = self.back(inner.X)
        if self.kind == "single precision":  # the residual is the same, and the gradient is computed only where it is used
            return replace(inner, X=X, gradient=problem.gradient(X), previous=state.X)
        # A step that lowers the rescaled residual need not lower this one.
        return replace(state.next(problem, X, inner.step), restarted=True)


def _through(first: Callable[[FixedRank], FixedRank], second: Callable[[FixedRank], FixedRank], X: FixedRank) -> FixedRank:
    return second(first(X))
