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
from .weights import Limit, sqrt_weights, threshold_weights, updated_limit

RESIDUAL_MEDIANS = 1.5  # unit of the smoothing, in medians of the residual of rank 1, for data with a dominant mean
LIMIT = 8.0  # limit after annealing, in smoothings
MAX_HELD = 80  # steps with the first smoothing
GROWTH = 0.6  # mean weight, over the largest so far, below which the smoothing has become too small


@dataclass(frozen=True)
class SearchState:
    """Memory of :class:`Annealing` and :class:`Following`."""

    size: float  # median of the absolute data
    coarse: float  # first smoothing
    epsilon: float  # smoothing
    use_als: bool  # whether steps are ALS sweeps, not conjugate gradients
    means: tuple[float, ...] = ()  # mean weights so far
    falling: bool = False  # whether the smoothing falls
    descent: RCGState | None = None
    limit: float = math.inf  # deviation beyond which observations are considered outliers
    share: float = 1.0  # of the other observations
    rounds: int = 0  # steps of Following
    level: float = math.inf  # typical deviation over size


def coarse_start(inside: Completion, first: float, rank: int) -> tuple[float, float, FixedRank]:
    """The first smoothing, the median of the absolute data, and an initial point, fitted with small weights of large values.

    The smoothing is ``first`` medians of the data or, where a fit of rank 1 leaves much less (data with a dominant mean), of
    its residual.
    """
    observed, median, rng = inside.observations, quantile(inside.y, 0.5, inside.backend), np.random.default_rng(0)

    def weighted(d: Vector, epsilon: float) -> Completion:
        return inside.with_observations(observed.with_weights(sqrt_weights(d, epsilon, observed.weights)[0]))

    found = weighted(inside.y, 2 * first * median)
    one = found.rank_one_point(rng)
    assert one is not None
    d = observed.residual(one.U * one.s, one.V)
    rest = RESIDUAL_MEDIANS * quantile(d, 0.5, inside.backend)
    unit = min(rest, median) if rest > 0 else median
    if unit < median:
        found = weighted(d, 2 * first * unit)
        one = found.rank_one_point(rng)
    assert one is not None
    X = one if rank == 1 else grow_from_rank_one(found, one, rank, rng)
    return first * unit, median, inside.project_feasible(X)


def search_state(problem: Completion, state: State, rank: int, first: float, use_als: bool) -> State:
    """The state at which a search begins: a fit in which large values have small weights."""
    coarse, size, X = coarse_start(problem, first, rank)
    return bare_state(problem, state, X, math.nan).with_memory(SearchState(size, coarse, coarse, use_als))


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
        limit = updated_limit(
            thresholds, problem, d, state.X.rank, Limit(memory.limit, memory.share), memory.size, memory.rounds
        )
        share = threshold_weights(d, limit)[1]
        level = limit / (thresholds.limit_quantiles * memory.size)
        stalled = rounds > 3 and level > thresholds.stall_ratio * memory.level
        exact = level < thresholds.exact_level
        memory = replace(memory, limit=limit, share=share, rounds=rounds, level=level)
        if exact or stalled:
            return replace(state, memory=replace(memory, use_als=exact), finished=True)
        weights, _ = sqrt_weights(d, limit / thresholds.smoothings_per_limit, problem.observations.weights)
        return self.weighted_step(problem, state, memory, weights)
