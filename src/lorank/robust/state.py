"""What the search for outliers carries from one step to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..backends import Vector
from ..geometry import FixedRank
from ..loop.state import State
from ..losses.residual_tails import within
from ..problems import Completion, SinglePrecisionProblem
from ..solvers.rcg import RCGState
from .row_repair import repaired, suspicious

PLAIN, ANNEALING, FOLLOWING, SORTING, SORTED = "plain", "annealing", "following", "sorting", "sorted"


@dataclass(frozen=True)
class Memory:
    """What :class:`~lorank.robust.Robust` carries along.

    ``plain`` is the state of the first phase, ``single`` the problem in single precision while it runs there, ``conjugate``
    what the conjugate gradients remember, ``inner`` the state with weights that fall, or of the problem with the observations
    sorted, ``epsilon`` the smoothing in force and ``coarse`` the first one, ``size`` the median of the data, ``limit`` the
    deviation from which on an observation is held for an outlier. ``best`` is the best end of an attempt so far. ``lost`` says
    that a lower limit has left out whole rows, ``swept`` that steps are sweeps.
    """

    phase: str
    rank: int
    plain: State | None = None
    single: SinglePrecisionProblem | None = None
    conjugate: RCGState | None = None
    inner: State | None = None
    attempt: int = 0
    epsilon: float = 0.0
    coarse: float = 0.0
    size: float = 1.0
    means: tuple[float, ...] = ()
    falling: bool = False
    limit: float = math.inf
    share: float = 1.0
    rounds: int = 0
    steps: int = 0
    before: float = math.inf
    repairs: int = 0
    lost: bool = False
    swept: bool = False
    level: float = math.inf
    noisy: bool = False
    best: tuple[float, FixedRank, float, float] | None = None


def inside_of(problem: Completion, memory: Memory) -> Completion:
    """What is computed with: the problem, or that in single precision."""
    found = problem if memory.single is None else memory.single.problem
    assert isinstance(found, Completion)
    return found


def bare_state(inside: Completion, state: State, X: FixedRank, step: float) -> State:
    """The state at X with deviations, but no products yet: those with weights are all that will be asked for."""
    G = inside.gradient(X)
    weights = inside.observations.weights
    vars(G)["residual_norm"] = inside.backend.norm(G.residual if weights is None else weights**0.5 * G.residual)
    return replace(state.next(inside, X, step, None, G), previous=None)


def outside(problem: Completion, state: State, inner: State, memory: Memory) -> State:
    """The next state, in the precision of the data, while ``inner`` is the one computed with."""
    memory = replace(memory, inner=inner)
    if memory.single is None:
        return replace(inner, iteration=state.iteration + 1, memory=memory)
    X = memory.single.back(inner.X)
    return State(state.iteration + 1, X, problem.gradient(X), inner.residual, inner.step, None, memory)


def deviations(problem: Completion, X: FixedRank) -> Vector:
    return problem.observations.residual(X.U * X.s, X.V)


def repair(problem: Completion, X: FixedRank, memory: Memory) -> tuple[FixedRank, int]:
    """Suspicious rows, then columns, fitted anew; and how many."""
    moved, weights = 0, within(deviations(problem, X), memory.limit)[0]
    for side in (0, 1):
        flags = suspicious(problem, weights, memory.share, memory.rank, side)
        if bool(flags.any()):
            X, count = repaired(problem, X, side, flags, memory.limit, memory.coarse)
            moved += count
    return X, moved
