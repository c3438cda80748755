"""Interface of solvers; :func:`lorank.loop.runner.run` iterates them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..common.checks import instance
from ..geometry import FixedRank
from ..problems import Problem
from .result import Outliers
from .state import State

if TYPE_CHECKING:
    from .runner import Run


class Ending(NamedTuple):
    """Results of a solver beyond the final point."""

    noise: float | None = None  # standard deviation of the noise; None for that of the residual
    outliers: Outliers | None = None
    doubt: str = ""  # reason why a successful status is not trusted; empty if there is none


class Solver:
    """Base of solvers: a memory at the start, and a step from one state to the next, called by :func:`run`."""

    needs: ClassVar[tuple[type, ...]] = ()  # capabilities, see lorank.problems.capabilities
    default_start: ClassVar[str] = "spectral"
    divergence: ClassVar[float] = 100.0  # ratio of the residual to the first one (or to 1) at which solve ends a run

    def start(self, problem: Any, state: State) -> Any:
        """The solver's memory at the initial point, before the first step."""
        raise NotImplementedError

    def step(self, problem: Any, state: State) -> State:
        """The next state."""
        raise NotImplementedError

    def parts(self) -> tuple[Any, ...]:
        """Parts of the solver with needs of their own."""
        return tuple(getattr(self, name, None) for name in ("metric", "reweighting"))

    def rank_search(self, problem: Any) -> tuple[Problem, float]:
        """The problem on which ``rank="auto"`` searches, and the measurements per degree of freedom that it leaves."""
        return problem, 1.05

    def finish(self, problem: Any, X: FixedRank, run: Run) -> Ending:
        """Results beyond the final point X of a run."""
        return Ending()


SOLVER = instance(Solver, "a name or a solver such as lorank.solvers.RGD(RowColumn())")
