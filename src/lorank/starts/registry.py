"""Starts by name, and checks of points that users pass in."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..backends import as_owned
from ..common.checks import ParameterError, did_you_mean
from ..geometry import FixedRank, FixedRankManifold
from ..problems import Problem
from ..problems.capabilities import HasInitialPoint, require, supports
from .spectral import Spectral
from .staged import Continuation, Staged


class Start(Protocol):
    """An initial point as a function of the problem, the rank and a random generator.

    Examples
    --------
    A user's own start:

    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> def middle(problem, rank, rng):
    ...     return lr.FixedRank.from_factors(rng.random((problem.shape[0], rank)), rng.random((problem.shape[1], rank)))
    >>> lr.solve(problem, rank=2, start=middle).converged
    True
    """

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        """A point of that rank on the manifold of the problem."""


STARTS: dict[str, Start] = {"spectral": Spectral(), "staged": Staged(), "continuation": Continuation()}


def resolve_start(start: Any, problem: Problem, rank: int) -> Start | FixedRank:
    """A start from a name, a callable, a triple (U, s, V) or a point."""
    if isinstance(start, str):
        if start not in STARTS:
            names = ", ".join(map(repr, STARTS))
            raise ValueError(f"unknown start {start!r}: choose one of {names}, or pass a point{did_you_mean(start, STARTS)}")
        require(problem, STARTS[start], parameter="start")
        return STARTS[start]
    if isinstance(start, tuple) and len(start) == 3:
        U, s, V = (as_owned(a) for a in start)
        start = FixedRank(U, s, V)
    if hasattr(start, "manifold"):
        return check_point(start, problem, rank)
    if callable(start) and not isinstance(start, type):
        require(problem, start, parameter="start")
        return start
    got = f"the class {start.__name__} itself: write {start.__name__}()" if isinstance(start, type) else type(start).__name__
    raise ParameterError(
        "start", f"must be a name, a FixedRank point, a triple (U, s, V) or a start such as Spectral(), got {got}"
    )


def start_of_model(problem: Problem, name: str) -> str | Start:
    """The start of that name; on a manifold without named starts the initial point of the model, where it has one."""
    if supports(problem, FixedRankManifold) or not supports(problem, HasInitialPoint):
        return name
    return lambda problem, rank, rng: problem.initial_point(rank, rng)


def check_point(X: Any, problem: Problem, rank: Any) -> FixedRank:
    """The point in the dtype and backend of the problem, or a ValueError."""
    return problem.manifold.check_point(X, problem.shape, rank, problem.dtype, problem.backend)
