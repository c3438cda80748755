"""What keeps constant steps from going wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..geometry import FixedRank
from ..operators import Problem
from ..steps import Exact, StepRule
from .loop import State


@dataclass(frozen=True)
class Trust:
    """The safeguard's memory: how much of a step to take, the best residual, and how long ago that was."""

    fraction: float = 1.0
    best: float = float("inf")
    waited: int = 0


@dataclass(frozen=True)
class Safeguard:
    """Backs off when the residual grows, and changes to exact steps when constant ones lead nowhere.

    A residual may rise a little above the best one so far: on spiky gradients the way down leads over small hills, and a
    monotone rule would never leave the valley. More than that, and the step is halved until it fits; later ones grow back
    slowly. After ``patience`` iterations without a new best residual, the fallback rule takes over for the rest of the run.

    Parameters
    ----------
    growth : float
        Accept a residual of at most ``growth`` times the best so far.
    shrink, regrow : float
        Factors on the step after a rejection, and after a success (never beyond the rule's own step).
    patience : int
        Iterations without a new best before the fallback takes over.
    fallback : StepRule
    most : int
        Rejections in one iteration before the step is taken as it is.
    """

    growth: float = 1.05
    shrink: float = 0.5
    regrow: float = 1.02
    patience: int = 10
    fallback: StepRule = field(default_factory=lambda: Exact(0.9))
    most: int = 30

    def rule(self, rule: StepRule, trust: Trust) -> StepRule:
        """The step rule in force."""
        return rule if trust.waited < self.patience else self.fallback

    def advance(
        self,
        problem: Problem,
        state: State,
        trust: Trust,
        alpha: float,
        candidate: Callable[[float], FixedRank],
    ) -> tuple[State, Trust]:
        """The state at ``candidate(step)`` for the longest acceptable step up to ``trust.fraction * alpha``."""
        fraction = trust.fraction
        for _ in range(self.most):
            new = state.next(problem, candidate(fraction * alpha), fraction * alpha)
            if new.residual <= self.growth * trust.best:
                break
            fraction *= self.shrink
        # waited stops counting once the fallback has taken over, so that it stays
        waited = 0 if new.residual < trust.best and trust.waited < self.patience else trust.waited + 1
        return new, Trust(min(1.0, fraction * self.regrow), min(trust.best, new.residual), waited)
