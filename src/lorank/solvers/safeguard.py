"""Backtracking safeguard for untuned step sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from ..common.checks import NUMBER, POSITIVE_OR_INFINITE, SHARE, Checked, Expected, instance, parameter, whole
from ..geometry import FixedRank
from ..loop.state import State
from ..loop.steps import STEP_RULE, Exact, Polyak, StepRule
from ..problems import Problem


@dataclass(frozen=True)
class Trust:
    """State of the safeguard.

    Attributes
    ----------
    best : float
        Smallest residual so far.
    stage : int
        0 for the step rule of the solver, k for the k-th fallback.
    fraction : float
        Share of the step to try first.
    waited : int
        Iterations since the smallest residual.
    rejected : int
        Rejected steps in this stage.
    """

    best: float
    stage: int = 0
    fraction: float = 1.0
    waited: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class GuardedState:
    """State of a solver with a metric and a safeguard: the states of both."""

    metric: Any
    trust: Trust


@dataclass(frozen=True)
class Fallback(Checked):
    """Step rule that a safeguard switches to.

    Parameters
    ----------
    rule : StepRule
    growth : float
        Accept a residual of at most ``growth`` times the best so far.
    patience : int or inf
        Iterations without a new best residual before the next fallback is used.
    rejections : int or inf
        Rejected steps before the next fallback is used.

    Examples
    --------
    >>> import lorank as lr
    >>> exact = lr.solvers.Fallback(lr.steps.Exact(0.9), growth=1.05, patience=20, rejections=5)
    >>> lr.solvers.Safeguard(fallbacks=(exact,))
    Safeguard(fallbacks=(Fallback(rule=Exact(relaxation=0.9), growth=1.05, patience=20, rejections=5),))
    """

    rule: StepRule = parameter(expected=STEP_RULE)
    growth: float = parameter(expected=POSITIVE_OR_INFINITE)
    patience: float = parameter(expected=whole(1, infinite=True))
    rejections: float = parameter(expected=whole(1, infinite=True))


_FALLBACKS = Expected(
    "be a tuple of Fallback objects",
    lambda value: isinstance(value, tuple) and all(isinstance(one, Fallback) for one in value),
)
_REGROW = Expected("be a finite number, 1 or more", lambda value: NUMBER.holds(value) and value >= 1)
FALLBACKS = (Fallback(Polyak(0.7), 10.0, 20, 10), Fallback(Exact(0.9), 1.05, math.inf, math.inf))


@dataclass(frozen=True)
class Safeguard(Checked):
    """Nonmonotone backtracking, with other step rules as fallbacks.

    A step is accepted where the residual rises at most slightly above the best so far: on gradients with a few large rows a
    monotone rule may get stuck. Otherwise it is shortened, and later steps grow back slowly. After ``rejections`` rejected
    steps, or ``patience`` iterations without a new best residual, the next fallback replaces the step rule permanently.

    Parameters
    ----------
    growth : float
        Accept a residual of at most ``growth`` times the best so far, or at most the current one.
    patience : int
        Iterations without a new best residual before the first fallback is used.
    rejections : int
        Rejected steps before the first fallback is used.
    fallbacks : tuple of Fallback
        By default Polyak's step, which tolerates a growing residual on badly scaled data, then the exact step, which converges
        on noisy data.
    shrink, regrow : float
        Factors on the step after a rejection and after a success; the step of the rule is never exceeded.
    max_rejections : int
        Rejections in one iteration, after which the step is taken.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> bold = lr.solvers.RGD(lr.metrics.RowColumn(), lr.steps.Constant(0.9), lr.solvers.Safeguard(growth=1.2))
    >>> lr.solve(problem, rank=2, solver=bold).converged
    True
    """

    growth: float = parameter(1.05, POSITIVE_OR_INFINITE)
    patience: int = parameter(10, whole(1, infinite=True))
    rejections: int = parameter(3, whole(1, infinite=True))
    fallbacks: tuple[Fallback, ...] = parameter(FALLBACKS, _FALLBACKS)
    shrink: float = parameter(0.5, SHARE)
    regrow: float = parameter(1.02, _REGROW)
    max_rejections: int = parameter(30, whole(1))

    def __repr__(self) -> str:
        """The parameters that differ from their defaults."""
        changed = [f"{f.name}={v!r}" for f in fields(self) if (v := getattr(self, f.name)) != f.default]
        return f"Safeguard({', '.join(changed)})"

    def rule(self, rule: StepRule, trust: Trust) -> StepRule:
        """The step rule in force: the solver's own, or a fallback."""
        return self.fallbacks[trust.stage - 1].rule if trust.stage else rule

    def advance(
        self,
        problem: Problem,
        state: State,
        trust: Trust,
        alpha: float,
        candidate: Callable[[float], FixedRank],
    ) -> tuple[State, Trust]:
        """The state at ``candidate(step)`` for the longest acceptable step up to ``trust.fraction * alpha``."""
        current = self.fallbacks[trust.stage - 1] if trust.stage else self
        bound = max(current.growth * trust.best, state.residual)
        fraction, rejected = trust.fraction, trust.rejected
        for _ in range(self.max_rejections):
            new = state.next(problem, candidate(fraction * alpha), fraction * alpha)
            if new.residual <= bound:
                break
            fraction, rejected = fraction * self.shrink, rejected + 1
        best, waited = min(trust.best, new.residual), 0 if new.residual < trust.best else trust.waited + 1
        if trust.stage < len(self.fallbacks) and (waited >= current.patience or rejected >= current.rejections):
            return new, Trust(best, trust.stage + 1)
        return new, Trust(best, trust.stage, min(1.0, fraction * self.regrow), waited, rejected)


SAFEGUARD = instance(Safeguard, "a safeguard such as lorank.solvers.Safeguard(growth=1.05)")
UNGUARDED = Safeguard(growth=math.inf, fallbacks=(), max_rejections=1)  # takes every step in full
