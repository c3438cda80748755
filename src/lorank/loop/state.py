"""State of a run: one iterate with its gradient, residual and the solver's memory."""

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
        Or a point of another manifold of the problem.
    gradient : Gradient
        At X.
    residual : float
        ``|A X - y| / |y|``.
    step : float
        Length of the step to X; nan for a start.
    previous : FixedRank or None
        The iterate before; None for a start.
    memory : object
        Memory of the solver, passed from one iteration to the next.
    note : str
        Remark for the history, usually empty.
    restarted : bool
        Whether the solver restarted here: rules on stalls ignore earlier residuals.
    finished : bool
        Whether the solver has reached its own end: further steps would not help, and a plan goes on to its next stage.
    provisional : bool
        Whether X is an intermediate point on which a later stage will improve: a small change is no sign of convergence.
    core_residual : float
        Relative residual of the well-observed core while only the core is solved and X is zero elsewhere; nan otherwise.
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
    finished: bool = False
    provisional: bool = False
    core_residual: float = float("nan")

    @classmethod
    def at(cls, problem: Problem, X: FixedRank) -> State:
        """The state at a start."""
        G = problem.gradient(X)
        return cls(0, X, G, relative(problem, G))

    def next(self, problem: Problem, X: FixedRank, step: float, memory: Any = None, gradient: Gradient | None = None) -> State:
        """The state after a step to X. ``gradient`` at X is computed unless it is given."""
        G = self.gradient.at(X) if gradient is None else gradient
        return State(self.iteration + 1, X, G, relative(problem, G), step, self.X, memory)

    def with_memory(self, memory: Any) -> State:
        """The same state with another memory."""
        return replace(self, memory=memory)


def relative(problem: Problem, G: Gradient) -> float:
    """``|A X - y| / |y|``; the absolute residual where y is zero."""
    return G.residual_norm / (problem.y_norm or 1.0)
