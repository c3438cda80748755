"""Completion where some observations are grossly wrong: which ones, and the matrix that fits all others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..backends import Vector
from ..common.checks import POSITIVE, SHARE, check_parameters, instance, whole
from ..geometry import FixedRank
from ..loop.result import Outliers
from ..loop.runner import Ending, Run, Solver
from ..loop.state import State
from ..losses.residual_tails import (
    NORMAL_MEDIAN,
    NORMAL_THREE_QUARTERS,
    biweight,
    misfit_root,
    quantile,
    smoothed,
    tails,
    within,
)
from ..metrics import Blocks
from ..plans.auto import Auto
from ..plans.noise_test import is_stationary, residual_is_white
from ..plans.registry import register_default
from ..problems import Completion, Problem
from ..solvers.als import ALS
from ..solvers.rcg import RCG
from .row_repair import loses_rows
from .schedule import A_TUPLE_OF_SCHEDULES, SCHEDULES, Schedule
from .start import coarse_start
from .state import ANNEALING, FOLLOWING, PLAIN, SORTED, SORTING, Memory, bare_state, deviations, inside_of, outside, repair
from .validation import doubts

SCARCE = 2.2  # measurements per degree of freedom: with fewer, poor fits of clean data have the tails of outliers, too
REPAIRS = 12  # rounds of them in one attempt
ALIKE = 0.01  # relative difference of the sums by which ends are compared
AMPLE = 4.4  # with as many, a quick fall is tried first, and a fit that looks like noise is believed the first time
STAYS = 0.8  # of a residual, that is hardly less
NEARLY = 1e-5  # relative deviations from which on sweeps need no more weights
SOFT = 4.0  # smoothings in a limit, while they follow the fit
IN_VAIN = (
    "But outliers were looked for in vain, and what is left does not look as if there were none: with so few observations "
    "nobody can tell. Ask for a smaller rank, or get more observations."
)
LIGHT, HEAVY = 1.1, 1.4  # root mean squares of deviations, over those of normal noise with the same median


@dataclass(frozen=True)
class Robust(Solver):
    """Fits all observations but outliers, finds the latter by itself, and needs no scale.

    1. As :class:`Auto` does, where the data allow it: without outliers nothing else happens.
    2. Where the residual stays and has heavy tails: from scratch, conjugate gradients with the weights
       ``(1 + |d/epsilon|^2)^(-3/4)`` of deviations d, those of a smoothed sum of square roots. Epsilon is held at half the
       median of the data (of what rank 1 leaves over, where that is much less) until the fit has settled, and then falls:
       large deviations count for less and less, and those that a better fit makes small come back. Where observations are
       many, sweeps of alternating least squares (:class:`~lorank.solvers.ALS`), a little overrelaxed, take the place of
       conjugate gradients, and epsilon follows the fit, as a multiple of what three quarters of the deviations stay below.
    3. Observations beyond a limit are left out, the others fitted by least squares, and the limit follows the fit:
       ``margin`` times a quantile of what is left, and ``sigmas`` standard deviations where that is noise.
    4. Rows and columns of which suspiciously few observations fit are fitted anew, one by one
       (:func:`~lorank.robust.row_repair.repaired`): with few observations and several outliers, one row may end elsewhere than
       all others. Where most observations of a row are wrong, random choices of a few are tried.
    5. Where what is left is neither small nor noise, the same again with slower schedules, from other smoothings. Where
       observations are few, only two ends that are alike are believed to be noise. The best end is taken, by the sum of square
       roots; and :class:`Auto` goes on with all observations where even that finds no outliers (status ``"stalled"``, then).

    ``result.outliers`` says which observations were left out; ``result.residual`` is that of the others. An end that rows with
    hardly a fitting observation or those held back speak against is no success (:mod:`~lorank.robust.validation`).

    Parameters
    ----------
    plain : Auto
        Of the first phase.
    solver : RCG
        Of the others.
    sweeps : ALS
        Comes before it, where observations are many and the backend has a fused pass for it, as long as sweeps pay.
    schedules : tuple of Schedule
        One for each attempt; the first of several only with many observations.
    every : int
        Steps after which observations are sorted anew, at the latest;
    slowing : float
        sooner where a step leaves more than this share of the residual.
    margin : float
        The limit in quantiles that three quarters of the observations that fit stay below, while the fit gets better;
    sigmas : float
        in standard deviations where it does not.
    suspicious : int
        Steps of the first phase after which it is looked at.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(80, 60, rank=2, oversampling=8, factors="gaussian")
    >>> values = np.array(problem.y)
    >>> values[::20] = 30.0  # one in twenty is wrong
    >>> problem = lr.Completion(problem.rows, problem.cols, values, problem.shape)
    >>> result = lr.solve(problem, rank=2, solver=lr.robust.Robust())
    >>> truth.distance(result.X) < 1e-4 * truth.norm()
    True
    """

    plain: Auto = field(default_factory=Auto)
    solver: RCG = field(default_factory=lambda: RCG(Blocks()))
    sweeps: ALS = field(default_factory=lambda: ALS(relaxation=1.2))
    schedules: tuple[Schedule, ...] = SCHEDULES
    every: int = 6
    slowing: float = 0.7
    margin: float = 20.0
    sigmas: float = 4.0
    suspicious: int = 4

    default_start: ClassVar[str] = "rescaled"

    def __post_init__(self) -> None:
        check_parameters(
            self,
            plain=instance(Auto, "an Auto object"),
            solver=instance(RCG, "an RCG object"),
            sweeps=instance(ALS, "an ALS object"),
            schedules=A_TUPLE_OF_SCHEDULES,
            every=whole(1),
            slowing=SHARE,
            margin=POSITIVE,
            sigmas=POSITIVE,
            suspicious=whole(2),
        )

    finds_outliers: ClassVar[bool] = True

    def start(self, problem: Problem, state: State) -> Memory:
        if not isinstance(problem, Completion):
            raise TypeError(f"Robust is for Completion, and this is a {type(problem).__name__}: use solver='auto'")
        if problem.loss is not None:
            raise TypeError(
                f"Robust finds outliers of least squares: leave out loss={problem.loss.name!r}, or use solver='auto'"
            )
        plain = state.with_memory(self.plain.start(problem, state))
        return Memory(PLAIN, state.X.rank, plain)

    def step(self, problem: Problem, state: State) -> State:
        assert isinstance(problem, Completion)
        memory: Memory = state.memory
        if memory.phase == PLAIN:
            return self._plain(problem, state, memory)
        if memory.phase == ANNEALING:
            return self._anneal(problem, state, memory)
        if memory.phase == FOLLOWING:
            return self._follow(problem, state, memory)
        return self._sort(problem, state, memory)

    def rank_problem(self, problem: Problem) -> Problem:
        """A loss that gives outliers little weight: the rank is searched before any are found."""
        return problem.against_outliers() if isinstance(problem, Completion) else problem

    def finish(self, problem: Problem, X: FixedRank, run: Run) -> Ending:
        """The outliers, the noise of the other observations, and what speaks against a success."""
        memory, doubted = run.last.memory, ""
        if run.status.success:
            doubted = self.doubts(problem, X, memory, noisy=run.status == "noise")
            doubted = IN_VAIN if doubted and self.gave_up(memory) else doubted
        outliers, noise = self.outliers(problem, X, memory)
        return Ending(noise, outliers, doubted)

    def gave_up(self, memory: Any) -> bool:
        """Whether outliers were looked for in vain, so that the end is one of least squares with all observations."""
        return isinstance(memory, Memory) and memory.phase == PLAIN and memory.best is not None

    @staticmethod
    def limit(memory: Any) -> float:
        """The deviation from which on observations are held for outliers, where a run has come to one; else infinite."""
        return memory.limit if isinstance(memory, Memory) and memory.phase not in (ANNEALING, FOLLOWING) else math.inf

    def doubts(self, problem: Problem, X: FixedRank, memory: Any, *, noisy: bool) -> str:
        """What speaks against the end X of a run that calls it a success: a sentence, or nothing."""
        assert isinstance(problem, Completion)
        return doubts(problem, X, self.limit(memory), noisy=noisy, searched=self.gave_up(memory))

    def outliers(self, problem: Problem, X: FixedRank, memory: Any) -> tuple[Outliers, float]:
        """The outliers at X by the limit that a run has come to, and the standard deviation of the other deviations."""
        assert isinstance(problem, Completion)
        d, limit = deviations(problem, X), self.limit(memory)
        fitting, share = within(d, limit, problem.observations.weights)
        weights = problem.in_given_order(biweight(d, limit))
        mask = problem.in_given_order(within(d, limit)[0], missing=1) == 0
        left = share * problem.m - problem.dof(X.rank)
        noise = math.sqrt(problem.backend.inner(fitting * d, d) / left) if left > 0 else math.nan
        return Outliers(mask, weights, limit), noise

    # -- without outliers ----------------------------------------------------------------------------------------------
    def _plain(self, problem: Completion, state: State, memory: Memory) -> State:
        plain, first = memory.plain, replace(memory, attempt=self._first(problem, memory))
        assert plain is not None
        asked = memory.attempt == 0  # whether there are outliers; otherwise it is known that there are none
        scarce = problem.m < SCARCE * problem.dof(memory.rank)
        if asked and not scarce and self._is_suspicious(problem, state, memory):
            return self._begin(problem, state, first, "the residual stays and has heavy tails: looking for outliers")
        inner = self.plain.step(problem, plain)
        auto = inner.memory
        turned = auto.phase.name in (("noise", "best") if scarce else ("irls", "newton", "noise", "best"))
        if asked and (turned or is_stationary(problem, memory.rank, memory.means)):
            if self._tail_ratio(problem, state, memory) > (HEAVY if scarce else LIGHT):
                return self._begin(problem, state, first, "the residual stays: looking for outliers")
            memory, asked = replace(memory, attempt=len(self.schedules)), False
        means = (*memory.means, inner.residual)[-max(self.suspicious, 6) :]
        memory = replace(memory, plain=inner, means=means)
        # Where outliers may be behind it, a residual that stays is not the end.
        return replace(inner, iteration=state.iteration + 1, memory=memory, restarted=inner.restarted or asked)

    def _is_suspicious(self, problem: Completion, state: State, memory: Memory) -> bool:
        """Whether the first steps have left a residual that hardly falls, with heavy tails."""
        soon = state.iteration == 2 and self._amply(problem, memory)  # clean data are fitted quickly then
        steps = 2 if soon else self.suspicious
        past, half = memory.means[-steps:], steps // 2
        if len(past) < steps or state.iteration % half or past[-1] < STAYS * past[half - 1]:
            return False
        return self._tail_ratio(problem, state, memory) > HEAVY

    @staticmethod
    def _tail_ratio(problem: Completion, state: State, memory: Memory) -> float:
        return tails(state.gradient.residual, problem.dof(memory.rank), problem.backend).ratio

    # -- weights that fall with deviations -----------------------------------------------------------------------------
    def _begin(self, problem: Completion, state: State, memory: Memory, note: str) -> State:
        """From scratch, with large values weighing little; in single precision where the data have many observations."""
        single = problem.single_precision()
        if single is not None and single.unit != 1:  # limits have the unit of the data
            single = None
        inside = problem if single is None else single.problem
        coarse, size, X = coarse_start(inside, self.schedules[memory.attempt].first, memory.rank)
        first = memory.best is None and self._amply(problem, memory)
        memory = replace(memory, size=size, swept=first and problem.als_pays(memory.rank))
        memory = replace(memory, phase=ANNEALING, single=single, conjugate=None, epsilon=coarse, coarse=coarse, means=())
        memory = replace(
            memory, falling=False, rounds=0, steps=0, repairs=0, lost=False, level=math.inf, noisy=False, limit=math.inf
        )
        new = outside(problem, state, bare_state(inside, state, X, float("nan")), memory)
        return replace(new, note=note, restarted=True)

    def _anneal(self, problem: Completion, state: State, memory: Memory) -> State:
        schedule, inside, inner = self.schedules[memory.attempt], inside_of(problem, memory), memory.inner
        assert inner is not None
        weights, mean = smoothed(inner.gradient.residual, memory.epsilon, inside.observations.weights)
        means, falling, look = (*memory.means, mean), memory.falling, schedule.look
        falling = falling or (len(means) > look and mean < (1 + schedule.gain) * means[-1 - look]) or len(means) > 80
        if falling and (memory.epsilon < schedule.end * memory.coarse or mean < 0.6 * max(means)):
            memory = replace(memory, limit=8 * memory.epsilon)
            if memory.swept:
                return self._follow(problem, state, replace(memory, phase=FOLLOWING, means=()))
            return self._sort(problem, state, replace(memory, phase=SORTING), begin=True)
        epsilon = schedule.rate * memory.epsilon if falling else memory.epsilon
        return self._weighted(problem, state, replace(memory, means=means, falling=falling, epsilon=epsilon), weights)

    def _weighted(self, problem: Completion, state: State, memory: Memory, weights: Vector) -> State:
        """The next state, by least squares with these weights."""
        inside, inner, conjugate, alpha = inside_of(problem, memory), memory.inner, memory.conjugate, 1.0
        assert inner is not None
        G = inner.gradient.weighted(weights)
        if memory.swept:
            assert isinstance(G.problem, Completion)
            X = self.sweeps.moved(G.problem, inner.X, G.GV)
        else:
            conjugate = conjugate or self.solver.start(G.problem, replace(inner, gradient=G))
            alpha, conjugate = self.solver.move(inner.X, G, conjugate)
            assert conjugate.direction is not None
            X = inner.X.manifold.retract(conjugate.direction, alpha)
            inner.X.manifold.forget(conjugate.direction)
        memory = replace(memory, conjugate=conjugate)
        return replace(outside(problem, state, bare_state(inside, state, X, alpha), memory), restarted=True)

    def _follow(self, problem: Completion, state: State, memory: Memory) -> State:
        """A sweep with weights of which the smoothing follows the fit: observations that are just a little wrong would be
        within any limit, and bend the rows that they are in.
        """
        inside, inner = inside_of(problem, memory), memory.inner
        assert inner is not None
        d = inner.gradient.residual
        limit = self._limit(inside, d, memory)
        fitting, share = within(d, limit, inside.observations.weights)
        level = limit / (self.margin * memory.size)  # what is typical of deviations over what is of the data
        memory = replace(memory, limit=limit, share=share, rounds=memory.rounds + 1)
        if level < NEARLY:
            part = inside.with_observations(inside.observations.with_weights(fitting))
            memory = replace(memory, phase=SORTING, rounds=1, inner=State.at(part, inner.X))
            return self._sort(problem, state, memory, begin=True)
        if memory.rounds > 3 and level > STAYS * memory.level:
            return self._sort(problem, state, replace(memory, phase=SORTING, rounds=0, swept=False), begin=True)
        weights, _ = smoothed(d, limit / SOFT, inside.observations.weights)
        return self._weighted(problem, state, replace(memory, level=level), weights)

    # -- least squares with those within a limit -------------------------------------------------------------------------
    def _sort(self, problem: Completion, state: State, memory: Memory, *, begin: bool = False) -> State:
        note, restarted = "", False
        if begin or memory.steps >= self.every or self._rests(memory):
            turned = self._round(problem, state, memory)
            if turned.memory.phase not in (SORTING, SORTED):
                return turned
            state, memory, note, restarted = turned, turned.memory, turned.note, turned.restarted
        assert memory.inner is not None
        inside, before = memory.inner.gradient.problem, memory.inner.residual
        solver: Solver = self.sweeps if memory.swept else self.solver
        inner = solver.step(inside, memory.inner)
        memory = replace(memory, steps=memory.steps + 1, before=before)
        new = replace(outside(problem, state, inner, memory), note=note, restarted=restarted)
        if memory.phase == SORTING or memory.lost:  # not to be taken for an end, whatever the residual
            new = replace(new, residual=max(new.residual, min(1.0, state.residual)), previous=None, restarted=True)
        return new

    @staticmethod
    def _fits(inner: State) -> bool:
        return inner.residual < max(1e-5, 300 * float(np.finfo(inner.X.dtype).eps))

    def _rests(self, memory: Memory) -> bool:
        """Whether more steps with the observations as they are sorted would be in vain."""
        inner = memory.inner
        assert inner is not None
        if memory.phase == SORTING and self._fits(inner):
            return True
        return memory.steps >= 2 and inner.residual > self.slowing * memory.before

    def _round(self, problem: Completion, state: State, memory: Memory) -> State:
        """Sort the observations anew, and see whether the fit is at its end."""
        inner, begin = memory.inner, memory.rounds == 0
        assert inner is not None
        X, d = inner.X, deviations(inside_of(problem, memory), inner.X)
        note, restarted = "", memory.phase == SORTING
        level = math.inf if begin else inner.residual
        fits = not begin and self._fits(inner)
        stays = memory.rounds > 2 and level > STAYS * memory.level
        anew, turned = begin, False
        if memory.swept and stays and not fits:  # where sweeps are slow, others may not be
            memory, stays, anew = replace(memory, swept=False, rounds=1), False, True
        if memory.phase == SORTING and (fits or stays or memory.rounds >= 24):
            if memory.single is not None:  # from here on with all digits
                X, anew = state.X, True
                memory, d = replace(memory, single=None), deviations(problem, X)
            X, moved = repair(problem, X, memory) if memory.repairs < REPAIRS else (X, 0)
            memory = replace(memory, repairs=memory.repairs + 1)
            if moved:
                d, note, level, anew = deviations(problem, X), f"rows and columns fitted anew: {moved:,}", math.inf, True
                turned = True
            elif not fits and not memory.noisy:  # a limit as for noise, before it is asked whether it is any
                memory, level = replace(memory, noisy=True, rounds=1), math.inf
            elif fits or (self._tried_enough(problem, memory, d) and self._is_noise(memory)):
                memory, turned = replace(memory, phase=SORTED, noisy=not fits), fits
                note = f"{1 - memory.share:.2%} of the observations held for outliers"
            else:
                return self._again(problem, state, memory, d)
        inside = inside_of(problem, memory)
        limit = memory.limit if turned else self._limit(inside, d, memory)
        moved = 0
        if memory.lost and not memory.noisy:  # rows and columns that a lower limit left out, while all others fit by now
            X, moved = repair(problem, X, memory)
            memory = replace(memory, lost=False)
            if moved:
                d, note, anew, limit = deviations(problem, X), f"rows and columns fitted anew: {moved:,}", True, memory.limit
        falls = memory.phase == SORTED and not memory.noisy and limit < memory.limit
        if falls and loses_rows(inside, d, (limit, memory.limit), memory.share, memory.rank):
            memory = replace(memory, lost=stays)
            limit = max(limit, memory.limit / 4) if stays else memory.limit
        if anew or limit != memory.limit:
            weights, share = within(d, limit, inside.observations.weights)
            if anew or share != memory.share or memory.rounds < 3:
                part = inside.with_observations(inside.observations.with_weights(weights))
                inner = State.at(part, X)
                inner = inner if memory.swept else inner.with_memory(self.solver.start(part, inner))
            memory = replace(memory, limit=limit, share=share, inner=inner)
        memory = replace(memory, rounds=memory.rounds + 1, steps=0, level=level)
        return replace(state, X=X, memory=memory, note=note, restarted=restarted)

    def _limit(self, problem: Completion, d: Vector, memory: Memory) -> float:
        """What the deviations of the observations that fit say."""
        backend, dof = problem.backend, problem.dof(memory.rank)
        if memory.rounds == 0:
            memory = replace(memory, share=within(d, memory.limit)[1])
        fitting = memory.share * problem.m
        if memory.noisy:
            if memory.rounds > 40:
                return memory.limit
            scale = quantile(d, 0.5 * memory.share, backend) / NORMAL_MEDIAN * math.sqrt(fitting / max(fitting - dof, 1.0))
            return self.sigmas * scale
        typical = quantile(d, 0.75 * memory.share, backend) / NORMAL_THREE_QUARTERS
        least = 1e3 * float(np.finfo(problem.dtype).eps) * memory.size  # rounding
        return min(memory.limit, max(self.margin * typical, least))

    @staticmethod
    def _is_noise(memory: Memory) -> bool:
        assert memory.inner is not None
        return residual_is_white(memory.inner.gradient.problem, memory.inner)

    def _tried_enough(self, problem: Completion, memory: Memory, d: Vector) -> bool:
        """Where observations are few, a poor fit looks like noise, too: then only two ends that are alike are believed."""
        if self._amply(problem, memory):
            return True
        return memory.best is not None and abs(self._misfit(problem, d) / memory.best[0] - 1) < ALIKE

    @staticmethod
    def _misfit(problem: Completion, d: Vector) -> float:
        return misfit_root(d, 0.015 * quantile(problem.y, 0.5, problem.backend))

    def _first(self, problem: Completion, memory: Memory) -> int:
        return 0 if len(self.schedules) == 1 or self._amply(problem, memory) else 1

    @staticmethod
    def _amply(problem: Completion, memory: Memory) -> bool:
        return problem.m > AMPLE * problem.dof(memory.rank)

    def _again(self, problem: Completion, state: State, memory: Memory, d: Vector) -> State:
        """A slower schedule, and after the last one the best end so far."""
        ended = (self._misfit(problem, d), state.X, memory.limit, memory.share)
        best = ended if memory.best is None or ended[0] < memory.best[0] else memory.best
        memory = replace(memory, best=best)
        if memory.attempt + 1 < len(self.schedules):
            again = replace(memory, attempt=memory.attempt + 1)
            return self._begin(problem, state, again, "what is left is no noise: once more, slower")
        _, X, limit, share = best
        plain = memory.plain
        assert plain is not None
        if share > 0.995 or problem.m < 1.5 * SCARCE * problem.dof(memory.rank):  # as good as none, or just a poor fit
            memory = replace(memory, phase=PLAIN, attempt=len(self.schedules), limit=math.inf)
            new = replace(plain, iteration=state.iteration + 1, memory=memory, previous=None)
            return replace(new, note="no outliers found: on with all observations", restarted=True)
        memory = replace(memory, phase=SORTED, inner=State.at(problem, X), limit=limit, share=share, noisy=True, rounds=0)
        return self._round(problem, replace(state, X=X), memory)


register_default(lambda problem, rank: bool(getattr(problem, "robust", False)), Robust)
