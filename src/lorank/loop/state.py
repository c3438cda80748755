"""One iterate: what travels through the loop that every solver runs in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..geometry import FixedRank
from ..problems import Gradient, Problem


@dataclass(frozen=True)
class State:
    """One iterate.

    Attributes
    ----------
    iteration : int
    X : FixedRank
        Or a point of the problem's own manifold.
    gradient : Gradient
        At X.
    residual : float
        ``|A X - y| / |y|``.
    step : float
        The step that led here; nan for the start.
    previous : FixedRank or None
        The iterate before.
    memory : object
        What the solver carries from one iteration to the next.
    note : str
        What the solver did here that a reader should know; usually nothing. Nothing depends on it.
    restarted : bool
        Whether the solver began anew here, so that earlier residuals say nothing about stalls.
    """

    iteration: int
    X: FixedRank
    gradient: Gradient
    residual: float
    step: float = float("nan")
    previous: FixedRank | None = None
    memory: Any = None
    note: str = ""
    restarted: bool = False

    @classmethod
    def at(cls, problem: Problem, X: FixedRank) -> State:
        """The state at a starting point."""
        G = problem.gradient(X)
        return cls(0, X, G, relative(problem, G))

    def next(self, problem: Problem, X: FixedRank, step: float, memory: Any = None, gradient: Gradient | None = None) -> State:
        """The state after a step to X; ``gradient`` is the gradient there, where a solver has it already."""
        G = self.gradient.at(X) if gradient is None else gradient
        return State(self.iteration + 1, X, G, relative(problem, G), step, self.X, memory)

    def remember(self, memory: Any) -> State:
        """The same state with that memory."""
        return replace(self, memory=memory)


def relative(problem: Problem, G: Gradient) -> float:
    """``|A X - y| / |y|``; the absolute residual where y is zero."""
    return G.residual_norm / (problem.y_norm or 1.0)
