"""Initialization of ALS: biases, then a low-rank fit to their residual; outlier detection for redescending losses.

ALS from random factors converges slowly and may end in a poor local minimum. A staged start and a few conjugate gradient steps,
as in :func:`lorank.solve`, cost about as much as one iteration of ALS and end near the regularized fit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..backends import Array
from ..geometry import FixedRank
from ..problems import Completion
from ..robust import RobustStart
from ..robust.weights import threshold_weights
from ..starts.staged import Staged
from ..starts.staged import fit as descend
from .als import total_weight
from .factors import Factors, with_unit_priors, zero_factors
from .majorization import MIN_WEIGHT, Origin
from .variational import VariationalALS

BIAS_MAX_ITER = 3  # further iterations change biases by less than the factors will
RCG_WINDOW, RCG_MAX_ITER = 3, 12  # conjugate gradients: until 3 steps reduce the residual by less than 10 %, at most 12

# Factor on the initial singular values, with biases: 0.1 to 0.3 end alike, 1 slightly worse on noisy ratings. Without biases
# the first component contains the mean and is not shrunk: its residual would be mistaken for noise.
INITIAL_SHRINKAGE = 0.3
MIN_OVERSAMPLING = 3.0  # observations per degree of freedom to detect outliers
INITIAL_PRECISION = 0.1  # of the precision of the initial residual; at 0.3 noise is fitted as components


def initialize(
    problem: Completion,
    rank: int,
    solver: VariationalALS,
    rng: np.random.Generator,
    base: Factors | None = None,
    rest: Completion | None = None,
) -> Factors:
    """Initial factors: those of ``base``, by default biases, and a low-rank fit to their residual, with initial priors.

    With biases, the low-rank fit is shrunk: an unregularized fit of noisy data is too large, and ALS increases factors faster
    than it removes overfitting.

    Parameters
    ----------
    problem : Completion
    rank : int
        Rank without the biases.
    solver : VariationalALS
        Defines biases and initial priors.
    rng : numpy.random.Generator
    base : Factors, optional
        Factors of a smaller rank, for example biases (:func:`fit_biases`).
    rest : Completion, optional
        Residual of the base (:func:`residual_problem`), where it is known.
    """
    if base is None:
        base, rest = fit_biases(problem, solver) if solver.biases else None, None
    more = rank - (0 if base is None else base.rows.shape[1] - 2 * solver.biases)
    if more < 0:
        raise ValueError(f"start has rank {rank - more}, more than the {rank} asked for")
    if more:
        X = low_rank_fit(problem if base is None else residual_problem(problem, base) if rest is None else rest, more, rng)
        base = _concatenated(problem, base, X, solver.biases)
    assert base is not None
    factors = solver.uninformed(problem, base)
    if solver.biases or solver.noise == "unit" or problem.y_norm == 0:
        return factors
    # Without biases, the size of the values is that of their mean: the residual estimates the noise.
    size = problem.y_norm**2 / total_weight(problem)
    left = max(residual_problem(problem, factors).y_norm ** 2 / total_weight(problem), 1e-10 * size)
    return replace(factors, noise=max(factors.noise, INITIAL_PRECISION / left))


def fit_biases(problem: Completion, solver: VariationalALS) -> Factors:
    """Fit biases of rows and columns alone."""
    simple = replace(solver, noise="one", initial=None, row_features=None, col_features=None)
    factors = simple.uninformed(problem, zero_factors(problem, 0, True))
    for _ in range(BIAS_MAX_ITER):
        factors, _ = simple.sweep(problem, factors)
    return factors


def residual_problem(problem: Completion, base: Factors) -> Completion:
    """The problem of the residual of these factors."""
    rest = problem.y - problem.forward(base.rows, base.cols)
    return problem.with_observations(problem.observations.with_values(rest))


def low_rank_fit(problem: Completion, rank: int, rng: np.random.Generator) -> FixedRank:
    if problem.y_norm == 0:
        return FixedRank.zero(problem.shape, rank, np.float64, problem.backend)
    return descend(problem, Staged()(problem, rank, rng), RCG_WINDOW, RCG_MAX_ITER)


def _concatenated(problem: Completion, base: Factors | None, X: FixedRank, biases: bool) -> Factors:
    """Balanced factors of X concatenated with those of ``base``; the coordinates of the biases are the last ones."""
    backend = problem.backend
    root = ((INITIAL_SHRINKAGE if biases else 1.0) * backend.astype(X.s, np.float64)) ** 0.5
    sides: list[Array] = [backend.astype(backend.asarray(a), np.float64) * root for a in (X.U, X.V)]
    if base is not None:
        at = base.rows.shape[1] - 2 * biases
        sides = [backend.concat([a[:, :at], b, a[:, at:]]) for a, b in zip((base.rows, base.cols), sides, strict=True)]
    return with_unit_priors(*sides)


def robust_initialization(origin: Origin, rank: int) -> tuple[Completion, Origin] | None:
    """Initialization for redescending losses: a least-squares problem without outliers, and the origin with a robust scale.

    None where outliers cannot be detected, and for other losses.

    Parameters
    ----------
    origin : Origin
    rank : int
        Rank with the biases. With few observations, outliers are detected at a smaller rank.
    """
    problem = origin.problem
    if problem.loss is None or not problem.loss.redescending:
        return None
    rank = max(
        (k for k in range(1, min(rank, *problem.shape) + 1) if problem.m >= MIN_OVERSAMPLING * problem.dof(k)), default=0
    )
    if not rank:
        return None
    squares = problem.squares()  # not centred: without their mean, values may have a larger rank, but no smaller one
    start = RobustStart()
    X = start(squares, rank, np.random.default_rng(0))
    if not start.succeeded:
        return None
    weights, _ = threshold_weights(squares.observations.residual(X.U * X.s, X.V), start.limit, squares.observations.weights)
    centred = problem.observations.with_values(problem.y - origin.mean)
    kept = problem.squares(centred.with_weights(weights + MIN_WEIGHT))
    trusting = start.adjusted(problem)
    assert isinstance(trusting, Completion)
    return kept, replace(origin, problem=trusting)
