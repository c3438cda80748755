"""Stopping rules: immutable values, joined by ``|`` (either) and ``&`` (both)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..common.checks import (
    NOT_NEGATIVE,
    NOT_NEGATIVE_OR_INFINITE,
    POSITIVE,
    POSITIVE_OR_INFINITE,
    Checked,
    between,
    counted,
    instance,
    parameter,
    whole,
    with_methods,
)
from ..geometry import FixedRank
from ..problems import Problem
from .result import History, Status

if TYPE_CHECKING:
    from ..common.timer import Timer
    from .state import State

__all__ = [
    "Both",
    "Divergence",
    "Either",
    "Iterations",
    "RankCollapse",
    "RelativeChange",
    "RelativeResidual",
    "Rule",
    "Seconds",
    "Slowdown",
    "Stall",
    "TruthDistance",
]


class Rule:
    """A stopping rule: :meth:`check` returns a status where the run should end, else None.

    Examples
    --------
    >>> from lorank.loop.stopping import Iterations, RelativeChange, Seconds
    >>> RelativeChange(1e-5) | Seconds(60)
    (RelativeChange(tol=1e-05) | Seconds(limit=60))
    >>> RelativeChange(1e-5) & Iterations(10)
    (RelativeChange(tol=1e-05) & Iterations(limit=10))
    """

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        raise NotImplementedError

    def __or__(self, other: Rule) -> Rule:
        return Either(self, other)

    def __and__(self, other: Rule) -> Rule:
        return Both(self, other)


A_POINT = with_methods("distance", "norm", what="a point such as FixedRank.from_dense(X, rank)")
A_RULE = instance(Rule, "a rule such as lorank.stopping.RelativeChange(1e-5)")


@dataclass(frozen=True)
class Either(Checked, Rule):
    """Stop when either of two rules applies. Where both do, a success takes precedence.

    Parameters
    ----------
    first, second : Rule

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> either = lr.stopping.Either(lr.stopping.Iterations(2), lr.stopping.Seconds(600))
    >>> lr.solve(problem, rank=2, stop=either).status == "max_iter"
    True
    """

    first: Rule = parameter(expected=A_RULE)
    second: Rule = parameter(expected=A_RULE)

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        found = [s for rule in (self.first, self.second) if (s := rule.check(problem, state, history, clock)) is not None]
        return next((s for s in found if s.success), found[0] if found else None)

    def __repr__(self) -> str:
        return f"({self.first!r} | {self.second!r})"


@dataclass(frozen=True)
class Both(Checked, Rule):
    """Stop when both rules apply. It is a success if both are.

    Parameters
    ----------
    first, second : Rule

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> both = lr.stopping.Both(lr.stopping.Iterations(2), lr.stopping.Iterations(3))
    >>> lr.solve(problem, rank=2, stop=both).n_iter
    3
    """

    first: Rule = parameter(expected=A_RULE)
    second: Rule = parameter(expected=A_RULE)

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        a = self.first.check(problem, state, history, clock)
        b = self.second.check(problem, state, history, clock)
        if a is None or b is None:
            return None
        return a if not a.success or b.success else b

    def __repr__(self) -> str:
        return f"({self.first!r} & {self.second!r})"


@dataclass(frozen=True)
class RelativeResidual(Checked, Rule):
    """Stop when the relative residual is small: ``|A X - y| <= tol |y|``. A success.

    Parameters
    ----------
    tol : float
        Tolerance.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, stop=lr.stopping.RelativeResidual(1e-3)).status == "converged"
    True
    """

    tol: float = parameter(1e-6, NOT_NEGATIVE)

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        if state.residual <= self.tol:
            return Status(
                "converged", advice=f"Relative residual {state.residual:.1e}, tolerance {self.tol:.1e}.", success=True
            )
        return None


@dataclass(frozen=True)
class RelativeChange(Checked, Rule):
    """Stop when X changes little: ``|X_{t+1} - X_t|_F <= tol max(1, |X_t|_F)``, the paper's rule for noisy data. A success.

    Provisional points of a plan are ignored.

    Parameters
    ----------
    tol : float
        Tolerance.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, stop=lr.stopping.RelativeChange(1e-3)).status == "settled"
    True
    """

    tol: float = parameter(1e-5, NOT_NEGATIVE)

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        if state.previous is None or state.provisional:
            return None
        change = state.previous.distance(state.X)
        if change <= self.tol * max(1.0, state.previous.norm()):
            return Status(
                "settled",
                advice=f"The last step changed X by {change:.1e} in norm, relative tolerance {self.tol:.1e}.",
                success=True,
            )
        return None


@dataclass(frozen=True)
class TruthDistance(Checked, Rule):
    """Stop when a known X is recovered: ``|X_t - X|_F <= tol |X|_F``. A success. Its computation is not timed.

    Parameters
    ----------
    truth : FixedRank
        The known X.
    tol : float
        Tolerance.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, stop=lr.stopping.TruthDistance(truth, 1e-3)).status == "recovered"
    True
    """

    truth: FixedRank = parameter(expected=A_POINT)
    tol: float = parameter(1e-4, NOT_NEGATIVE)

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        with clock.paused():
            distance = self.truth.distance(state.X) / self.truth.norm()
        if distance <= self.tol:
            return Status("recovered", advice=f"Relative error {distance:.1e}, tolerance {self.tol:.1e}.", success=True)
        return None

    def __repr__(self) -> str:
        return f"TruthDistance(tol={self.tol})"


@dataclass(frozen=True)
class Iterations(Checked, Rule):
    """Stop after a number of iterations.

    Parameters
    ----------
    limit : int
        Largest number of iterations.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, stop=lr.stopping.Iterations(3)).status == "max_iter"
    True
    """

    limit: int = parameter(500, whole(0))

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        if state.iteration < self.limit:
            return None
        return Status(
            "max_iter",
            advice=f"Stopped after {counted(state.iteration, 'iteration')} at relative residual {state.residual:.1e}: raise "
            "max_iter if it is still falling, or tol if the data are noisy.",
        )


@dataclass(frozen=True)
class Seconds(Checked, Rule):
    """Stop after a time, without callbacks.

    Parameters
    ----------
    limit : float
        Seconds.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, stop=lr.stopping.Seconds(0)).status == "time"
    True
    """

    limit: float = parameter(expected=NOT_NEGATIVE_OR_INFINITE)

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        if clock.seconds < self.limit:
            return None
        return Status(
            "time",
            advice=f"Stopped after {clock.seconds:.1f} s at relative residual {state.residual:.1e}: allow more "
            "time, or continue with start=result.X.",
        )


@dataclass(frozen=True)
class Stall(Checked, Rule):
    """Stop when the residual stalls: the best of the last ``window`` iterations is hardly below the best of those before.

    Parameters
    ----------
    window : int
        Number of iterations.
    improvement : float
        Share by which the best residual must fall.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=6, noise=0.1)
    >>> lr.solve(problem, rank=2, stop=lr.stopping.Stall(window=10)).status == "stalled"
    True
    """

    window: int = parameter(50, whole(1))
    improvement: float = parameter(1e-3, between(0, 1, closed=True))

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        recent = history.recent(2 * self.window)
        if len(recent) < 2 * self.window:
            return None
        before, after = min(recent[: self.window]), min(recent[self.window :])
        if after <= (1 - self.improvement) * before:
            return None
        rank = state.X.rank
        low = "" if problem.default_rank == rank else f"a low rank ({rank}), "
        return Status(
            "stalled",
            advice=f"The relative residual has stalled at {after:.1e} for {self.window} iterations. Possible reasons: noise, "
            f"outliers, {low}few measurements ({problem.m / problem.dof(rank):.2g} per degree of freedom), "
            f"the limits of {'single' if np.finfo(problem.dtype).bits == 32 else 'double'} precision.",
        )


@dataclass(frozen=True)
class Slowdown(Checked, Rule):
    """Stop when ``steps`` iterations leave more than ``fall`` of the residual. A success: for runs that compute a start.

    Parameters
    ----------
    steps : int
        Number of iterations.
    fall : float
        Ratio of the last residual to the first of them.

    Examples
    --------
    >>> Slowdown(steps=5, fall=0.9)
    Slowdown(steps=5, fall=0.9)
    """

    steps: int = parameter(5, whole(1))
    fall: float = parameter(0.9, POSITIVE)

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        recent = history.recent(self.steps + 1)
        if len(recent) <= self.steps or recent[-1] <= self.fall * recent[0]:
            return None
        share = recent[-1] / recent[0]
        return Status("slow", advice=f"The last {self.steps} steps left {share:.2g} of the residual.", success=True)


@dataclass(frozen=True)
class Divergence(Checked, Rule):
    """Stop when the residual is not finite, or larger than ``factor`` times the first one.

    Parameters
    ----------
    factor : float
        Ratio to the first residual, or to 1 if that is smaller.

    Examples
    --------
    ``solve`` always includes it. Alone, it lets a run continue until ``max_iter``:

    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, stop=lr.stopping.Divergence(), max_iter=4).status == "max_iter"
    True
    """

    factor: float = parameter(100.0, POSITIVE_OR_INFINITE)

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        if math.isfinite(state.residual) and state.residual <= self.factor * max(history.first_residual, 1.0):
            return None
        return Status(
            "diverged",
            advice="The residual diverged; X is the best point. Use shorter steps, or a "
            "solver with a safeguard such as 'auto'.",
        )


@dataclass(frozen=True)
class RankCollapse(Rule):
    """Stop when a singular value vanishes while the data are not fitted.

    Examples
    --------
    ``solve`` always includes it. A matrix of rank 1 has no second singular value:

    >>> import lorank as lr
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=1, oversampling=9)
    >>> lr.solve(problem, rank=2, stop=lr.stopping.RankCollapse(), max_iter=200).status in ("rank_collapsed", "max_iter")
    True
    """

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        if state.iteration == 0 or state.residual == 0 or not hasattr(state.X, "s"):
            return None
        s = state.X.backend.to_numpy(state.X.s)
        left = int((s > np.finfo(s.dtype).eps * s[0]).sum())
        if left == len(s):
            return None
        return Status(
            "rank_collapsed",
            advice=f"Only {left} of {len(s)} singular values are nonzero at relative residual "
            f"{state.residual:.1e}: use rank={max(left, 1)}, or another start.",
        )
