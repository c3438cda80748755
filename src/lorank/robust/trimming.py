"""Trimmed least squares: fit the observations within a limit, and let the limit follow the fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple

import numpy as np

from ..backends import Vector
from ..geometry import FixedRank
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import Completion
from ..solvers.als import ALS
from ..solvers.rcg import RCG
from .options import Thresholds
from .reweighting import SearchState
from .row_repair import loses_rows, repair
from .weights import Estimate, deviations, robust_objective, threshold_weights


class Round(NamedTuple):
    """A round that has ended: the point with its deviations, and what to do next.

    ``level`` is the residual, ``exact`` and ``stalled`` whether the fit is, ``reselect`` whether least squares must begin anew
    even if the limit does not change, and ``keep_limit`` whether it must not change.
    """

    X: FixedRank
    d: Vector
    level: float
    exact: bool
    stalled: bool
    reselect: bool
    keep_limit: bool = False


class End(NamedTuple):
    """The end of an attempt; ``objective`` compares them."""

    objective: float
    X: FixedRank
    limit: float
    share: float


@dataclass(frozen=True, kw_only=True)
class TrimmingState(Estimate):
    """Memory of :class:`Trimming`."""

    fit: State  # of least squares with the observations within the limit
    steps: int = 0  # in this round
    repairs: int = 0  # times that rows and columns were refitted
    before: float = math.inf  # residual before the last step
    noisy: bool = False  # whether the limit is that for noise
    lost: bool = False  # whether a lower limit has removed whole rows or columns
    ended: Round | None = None  # a round after which no limit was chosen yet
    objective: float = math.inf  # robust objective at the end of an attempt

    @property
    def outliers(self) -> float:
        """Share of the observations beyond the limit."""
        return 1 - self.share

    @property
    def exact(self) -> bool:
        """Whether the observations within the limit are fitted exactly."""
        return self.ended is not None and self.ended.exact

    def end(self) -> End:
        assert self.ended is not None
        return End(self.objective, self.ended.X, self.limit, self.share)


@dataclass(frozen=True)
class Trimming(Solver):
    """Least squares with the observations within a limit, which is updated after each round of a few steps.

    Parameters
    ----------
    descent : RCG
    als : ALS
    thresholds : Thresholds
    mode : str
        ``"coarse"``: finished when the fit is exact or stalled. ``"full"``: then, single rows and columns are refitted and the
        limit is set for noise; finished when neither helps. ``"accepted"``: never finished.
    end : End, optional
        To begin at, for the end of an earlier attempt.
    """

    descent: RCG
    als: ALS
    thresholds: Thresholds
    mode: Literal["coarse", "full", "accepted"]
    end: End | None = None

    def start(self, problem: Completion, state: State) -> TrimmingState:
        memory = state.memory
        if isinstance(memory, SearchState):
            fit, rounds = state, 0
            if memory.level < self.thresholds.exact_level:  # the ALS sweeps of the search go on
                weights, _ = threshold_weights(state.gradient.residual, memory.limit, problem.observations.weights)
                fit, rounds = State.at(_with_weights(problem, weights), state.X), 1
            known = {one.name: getattr(memory, one.name) for one in fields(Estimate)}
            memory = TrimmingState(**known | {"rounds": rounds, "level": math.inf}, fit=fit)
            return replace(memory, ended=self._round(problem, memory))
        assert isinstance(memory, TrimmingState)
        if self.end is not None:
            _, X, limit, share = self.end
            memory = replace(memory, fit=State.at(problem, X), limit=limit, share=share, noisy=True, rounds=0)
            return replace(memory, ended=self._round(problem, memory))
        ended = memory.ended
        assert ended is not None
        if self.mode == "accepted":
            return replace(memory, ended=ended._replace(keep_limit=ended.exact), noisy=not ended.exact)
        if state.X is not ended.X:  # from single to double precision
            ended = ended._replace(X=state.X, d=deviations(problem, state.X), reselect=True)
        return replace(memory, ended=ended)

    def step(self, problem: Completion, state: State) -> State:
        memory: TrimmingState = state.memory
        note, restarted, judged = "", False, self.mode != "accepted"
        if memory.ended is not None or self._round_ends(memory):
            restarted = judged or memory.ended is not None
            memory, ended = self._end_round(problem, memory)
            if judged and (ended.exact or ended.stalled or memory.rounds >= self.thresholds.max_rounds):
                if self.mode == "full":
                    memory, ended, note = self._improve(problem, memory, ended)
                if memory.ended is not None or self.mode == "coarse":
                    return replace(state, memory=replace(memory, ended=ended), finished=True)
            memory, repaired = self._select(problem, memory, ended)
            note = repaired or note
        solver: Solver = self.als if memory.use_als else self.descent
        fit = solver.step(memory.fit.gradient.problem, memory.fit)
        memory = replace(memory, fit=fit, steps=memory.steps + 1, before=memory.fit.residual)
        new = replace(fit, iteration=state.iteration + 1, memory=memory, note=note, restarted=restarted)
        if judged or memory.lost:  # no end, even if the observations within the limit are fitted
            new = replace(new, residual=max(fit.residual, min(1.0, state.residual)), provisional=True, restarted=True)
        return new

    def _round_ends(self, memory: TrimmingState) -> bool:
        """Whether further steps with the same observations would hardly help."""
        if memory.steps >= self.thresholds.round_max_iter or (self.mode != "accepted" and _is_exact(memory.fit)):
            return True
        return memory.steps >= 2 and memory.fit.residual > self.thresholds.round_end_rate * memory.before

    def _end_round(self, problem: Completion, memory: TrimmingState) -> tuple[TrimmingState, Round]:
        """The round that has ended, with conjugate gradients instead of ALS where that has stalled."""
        if memory.ended is not None:
            return replace(memory, ended=None), memory.ended
        ended = self._round(problem, memory)
        if memory.use_als and ended.stalled and not ended.exact:
            return replace(memory, use_als=False, rounds=1), ended._replace(stalled=False, reselect=True)
        return memory, ended

    def _round(self, problem: Completion, memory: TrimmingState) -> Round:
        """The end of a round at the current fit."""
        first, fit = memory.rounds == 0, memory.fit
        level = math.inf if first else fit.residual
        stalled = memory.rounds > 2 and level > self.thresholds.stall_ratio * memory.level
        return Round(fit.X, deviations(problem, fit.X), level, not first and _is_exact(fit), stalled, reselect=first)

    def _improve(self, problem: Completion, memory: TrimmingState, ended: Round) -> tuple[TrimmingState, Round, str]:
        """Refit rows and columns, or use the limit for noise; ``memory.ended`` is set where neither helps."""
        X, refitted = ended.X, 0
        if memory.repairs < self.thresholds.max_repairs:
            X, refitted = repair(problem, X, ended.d, memory.limit, memory.share, memory.coarse)
        memory = replace(memory, repairs=memory.repairs + 1)
        if refitted:
            ended = ended._replace(X=X, d=deviations(problem, X), level=math.inf, reselect=True, keep_limit=True)
            return memory, ended, _refitted(refitted)
        if not ended.exact and not memory.noisy:
            return replace(memory, noisy=True, rounds=1), ended._replace(level=math.inf), ""
        objective = math.inf if ended.exact else robust_objective(problem, ended.d)
        return replace(memory, ended=ended, objective=objective), ended, ""

    def _select(self, problem: Completion, memory: TrimmingState, ended: Round) -> tuple[TrimmingState, str]:
        """The next round, with a new limit; and a note."""
        X, d, level, _, stalled, reselect, keep = ended
        rank, note = X.rank, ""
        limit = memory.limit if keep else memory.next_limit(self.thresholds, problem, d, rank, memory.noisy)
        if memory.lost and not memory.noisy:  # all other rows and columns fit by now
            X, refitted = repair(problem, X, d, memory.limit, memory.share, memory.coarse)
            memory = replace(memory, lost=False)
            if refitted:
                d, note, reselect, limit = deviations(problem, X), _refitted(refitted), True, memory.limit
        falls = self.mode == "accepted" and not memory.noisy and limit < memory.limit
        if falls and loses_rows(problem, d, (limit, memory.limit), memory.share, rank):
            memory = replace(memory, lost=stalled)
            limit = max(limit, memory.limit / 4) if stalled else memory.limit
        if reselect or limit != memory.limit:
            weights, share = threshold_weights(d, limit, problem.observations.weights)
            fit = memory.fit
            if reselect or share != memory.share or memory.rounds < 3:
                part = _with_weights(problem, weights)
                fit = State.at(part, X)
                fit = fit if memory.use_als else fit.with_memory(self.descent.start(part, fit))
            memory = replace(memory, limit=limit, share=share, fit=fit)
        return replace(memory, rounds=memory.rounds + 1, steps=0, level=level, ended=None), note


def _is_exact(fit: State) -> bool:
    return fit.residual < max(1e-5, 300 * float(np.finfo(fit.X.dtype).eps))


def _with_weights(problem: Completion, weights: Vector) -> Completion:
    return problem.with_observations(problem.observations.with_weights(weights))


def _refitted(count: int) -> str:
    return f"rows and columns refitted: {count:,}"
