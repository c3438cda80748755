"""Reweighted least squares with smooth weights: the search for outliers from scratch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..backends import Vector
from ..geometry import FixedRank
from ..loop.solver import Solver
from ..loop.state import State
from ..losses.residual_tails import quantile
from ..problems import Completion
from ..solvers.als import ALS
from ..solvers.rcg import RCG, RCGState
from ..starts.staged import grow_from_rank_one
from .options import SmoothingSchedule, Thresholds
from .weights import Estimate, deviations, sqrt_weights, threshold_weights

RESIDUAL_MEDIANS = 1.5  # unit of the smoothing, in medians of the residual of rank 1, for data with a dominant mean
LIMIT = 8.0  # limit after annealing, in smoothings
MAX_HELD = 80  # steps with the first smoothing
GROWTH = 0.6  # mean weight, over the largest so far, below which the smoothing has become too small


@dataclass(frozen=True, kw_only=True)
class SearchState(Estimate):
    """Memory of :class:`Annealing` and :class:`Following`."""

    epsilon: float  # smoothing
    means: tuple[float, ...] = ()  # mean weights so far
    falling: bool = False  # whether the smoothing falls
    descent: RCGState | None = None


def search_state(inside: Completion, state: State, rank: int, first: float, use_als: bool) -> State:
    """The state at which a search begins: a fit in which large values have small weights.

    The first smoothing is ``first`` medians of the data or, where a fit of rank 1 leaves much less (data with a dominant mean),
    of its residual.
    """
    observed, median, rng = inside.observations, quantile(inside.y, 0.5, inside.backend), np.random.default_rng(0)

    def weighted(d: Vector, unit: float) -> tuple[Completion, FixedRank]:
        weights, _ = sqrt_weights(d, 2 * first * unit, observed.weights)
        found = inside.with_observations(observed.with_weights(weights))
        one = found.rank_one_point(rng)
        assert one is not None
        return found, one

    found, X = weighted(inside.y, median)
    d, unit = deviations(inside, X), median
    rest = RESIDUAL_MEDIANS * quantile(d, 0.5, inside.backend)
    if 0 < rest < median:
        unit = rest
        found, X = weighted(d, unit)
    if rank > 1:
        X = grow_from_rank_one(found, X, rank, rng)
    memory = SearchState(size=median, coarse=first * unit, use_als=use_als, epsilon=first * unit)
    return bare_state(inside, state, inside.project_feasible(X), math.nan).with_memory(memory)


def bare_state(problem: Completion, state: State, X: FixedRank, step: float) -> State:
    """The next state, at X, with deviations but without products: only products with weights will be used."""
    G = problem.gradient(X)
    weights = problem.observations.weights
    vars(G)["residual_norm"] = problem.backend.norm(G.residual if weights is None else weights**0.5 * G.residual)
    return replace(state.next(problem, X, step, None, G), previous=None)


@dataclass(frozen=True)
class Reweighted(Solver):
    """Base of solvers with a step of weighted least squares."""

    descent: RCG
    als: ALS

    def start(self, problem: Completion, state: State) -> SearchState:
        memory: SearchState = state.memory
        return memory

    def weighted_step(self, problem: Completion, state: State, memory: SearchState, weights: Vector) -> State:
        """A step of least squares with these weights."""
        G, alpha = state.gradient.weighted(weights), 1.0
        if memory.use_als:
            assert isinstance(G.problem, Completion)
            X = self.als.moved(G.problem, state.X, G.GV)
        else:
            descent = memory.descent or self.descent.start(G.problem, replace(state, gradient=G))
            alpha, descent = self.descent.move(state.X, G, descent)
            assert descent.direction is not None
            X = state.X.manifold.retract(descent.direction, alpha)
            state.X.manifold.forget(descent.direction)
            memory = replace(memory, descent=descent)
        return replace(bare_state(problem, state, X, alpha), memory=memory, restarted=True)


@dataclass(frozen=True)
class Annealing(Reweighted):
    """Weights ``(1 + |d / epsilon|^2)^(-3/4)`` of deviations d, with an epsilon that falls once the fit has settled.

    Large deviations have less and less weight, and observations that a better fit makes small regain it.
    """

    schedule: SmoothingSchedule

    def step(self, problem: Completion, state: State) -> State:
        memory: SearchState = state.memory
        schedule, epsilon, window = self.schedule, memory.epsilon, self.schedule.window
        weights, mean = sqrt_weights(state.gradient.residual, epsilon, problem.observations.weights)
        means = (*memory.means, mean)
        settled = len(means) > window and mean < (1 + schedule.gain) * means[-1 - window]
        falling = memory.falling or settled or len(means) > MAX_HELD
        if falling and (epsilon < schedule.end * memory.coarse or mean < GROWTH * max(means)):
            return replace(state, memory=replace(memory, limit=LIMIT * epsilon), finished=True)
        epsilon = schedule.rate * epsilon if falling else epsilon
        return self.weighted_step(problem, state, replace(memory, means=means, falling=falling, epsilon=epsilon), weights)


@dataclass(frozen=True)
class Following(Reweighted):
    """ALS sweeps with an epsilon that follows the fit, as a share of the limit.

    A limit alone would include observations that are only a little wrong, which distort their rows.
    """

    thresholds: Thresholds

    def step(self, problem: Completion, state: State) -> State:
        memory: SearchState = state.memory
        thresholds, d, rounds = self.thresholds, state.gradient.residual, memory.rounds + 1
        limit = memory.next_limit(thresholds, problem, d, state.X.rank)
        share = threshold_weights(d, limit)[1]
        level = limit / (thresholds.limit_quantiles * memory.size)
        stalled = rounds > 3 and level > thresholds.stall_ratio * memory.level
        exact = level < thresholds.exact_level
        memory = replace(memory, limit=limit, share=share, rounds=rounds, level=level)
        if exact or stalled:
            return replace(state, memory=replace(memory, use_als=exact), finished=True)
        weights, _ = sqrt_weights(d, limit / thresholds.smoothings_per_limit, problem.observations.weights)
        return self.weighted_step(problem, state, memory, weights)
