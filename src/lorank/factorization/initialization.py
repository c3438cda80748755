"""Where the sweeps of a factor model begin: biases first, then what the exact solvers find in the rest.

Sweeps from factors that say little take long, and may end in a poor valley. A staged start and a few conjugate gradient steps
(what :func:`lorank.solve` would do) cost about as much as one sweep, and end near the fit that sweeps then regularise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..backends import Array
from ..geometry import FixedRank
from ..problems import Completion
from ..robust.redescending_start import RobustStart
from ..robust.weights import threshold_weights
from ..starts.rank_growth import fit as descend
from ..starts.staged import Staged
from .als import total_weight
from .factors import Factors, zero_factors
from .majorization import LEAST, Origin
from .variational import VariationalALS

OFFSET_SWEEPS = 3  # of biases alone: from then on they change by less than the factors will change them
SETTLE, MAX_STEPS = 3, 12  # conjugate gradient steps: until three of them leave nine tenths of the residual, at most twelve

# Of their size, with biases: from 0.1 on to 0.3 sweeps end alike, from the whole size a little higher on noisy ratings.
# Without biases the first direction holds the mean: made smaller, it leaves so much over that the rest is taken for noise.
SHRUNK = 0.3
ROOM = 3.0  # observations for each degree of freedom
CERTAIN = 0.1  # of the precision that what is left over by the start would mean; at 0.3 noise is taken for components


def initialize(
    problem: Completion,
    rank: int,
    solver: VariationalALS,
    rng: np.random.Generator,
    base: Factors | None = None,
    rest: Completion | None = None,
) -> Factors:
    """Factors of that rank, with priors from before anything is known: those of ``base``, by default biases alone, and more
    directions of what they leave over.

    With biases these are made smaller: an unregularised fit of data with noise is too large, and sweeps grow factors faster
    than they forget what was fitted by chance.

    Parameters
    ----------
    problem : Completion
    rank : int
        Without the biases.
    solver : VariationalALS
        Its biases and starting priors.
    rng : numpy.random.Generator
    base : Factors, optional
        Of another fit, of a smaller rank. The biases alone (:func:`fit_biases`) do for every rank.
    rest : Completion, optional
        What the base leaves over (:func:`left_over`), where several ranks begin there.
    """
    if base is None:
        base, rest = fit_biases(problem, solver) if solver.biases else None, None
    more = rank - (0 if base is None else base.rows.shape[1] - 2 * solver.biases)
    if more < 0:
        raise ValueError(f"start has rank {rank - more}, more than the {rank} asked for")
    if more:
        X = _directions(problem if base is None else residual_problem(problem, base) if rest is None else rest, more, rng)
        base = _side_by_side(problem, base, X, solver.biases)
    assert base is not None
    factors = solver.uninformed(problem, base)
    if solver.biases or solver.noise == "unit" or problem.y_norm == 0:
        return factors
    # Without biases the values are as large as their mean, which says nothing of noise: what is left over does.
    size = problem.y_norm**2 / total_weight(problem)
    left = max(residual_problem(problem, factors).y_norm ** 2 / total_weight(problem), 1e-10 * size)
    return replace(factors, noise=max(factors.noise, CERTAIN / left))


def fit_biases(problem: Completion, solver: VariationalALS) -> Factors:
    """Offsets of rows and columns, and nothing else."""
    simple = replace(solver, noise="one", initial=None, row_features=None, col_features=None)
    factors = simple.uninformed(problem, zero_factors(problem, 0, True))
    for _ in range(OFFSET_SWEEPS):
        factors, _ = simple.sweep(problem, factors)
    return factors


def residual_problem(problem: Completion, base: Factors) -> Completion:
    """The problem of what these factors leave over."""
    rest = problem.y - problem.forward(base.rows, base.cols)
    return problem.with_observations(problem.observations.with_values(rest))


def _directions(problem: Completion, rank: int, rng: np.random.Generator) -> FixedRank:
    if problem.y_norm == 0:
        return FixedRank.zero(problem.shape, rank, np.float64, problem.backend)
    return descend(problem, Staged()(problem, rank, rng), SETTLE, MAX_STEPS)


def _side_by_side(problem: Completion, base: Factors | None, X: FixedRank, biases: bool) -> Factors:
    """Balanced factors of X, with those of ``base`` beside them: biases stay at the end."""
    backend = problem.backend
    root = ((SHRUNK if biases else 1.0) * backend.astype(X.s, np.float64)) ** 0.5
    sides: list[Array] = [backend.astype(backend.asarray(a), np.float64) * root for a in (X.U, X.V)]
    if base is not None:
        at = base.rows.shape[1] - 2 * biases
        sides = [backend.concat([a[:, :at], b, a[:, at:]]) for a, b in zip((base.rows, base.cols), sides, strict=True)]
    k = sides[0].shape[1]
    prior = (np.eye(k), np.zeros(k))
    return Factors(sides[0], sides[1], prior, prior)


def robust_initialization(origin: Origin, rank: int) -> tuple[Completion, Origin] | None:
    """Least squares without the observations that are held for outliers, to begin with, and where the loss's own problems come
    from then: with a scale that up to half of the data may not spoil. None where outliers cannot be told apart, and with losses
    that have no need of it.

    Parameters
    ----------
    origin : Origin
    rank : int
        Offsets included. Where observations are few, outliers are looked for at a smaller one.
    """
    problem = origin.problem
    if problem.loss is None or not problem.loss.redescending:
        return None
    rank = max((k for k in range(1, min(rank, *problem.shape) + 1) if problem.m >= ROOM * problem.dof(k)), default=0)
    if not rank:
        return None
    squares = problem.squares(problem.observations.with_values(problem.y - origin.mean))
    start = RobustStart()
    X = start(squares, rank, np.random.default_rng(0))
    if not start.succeeded:
        return None
    weights, _ = threshold_weights(squares.observations.residual(X.U * X.s, X.V), start.limit, squares.observations.weights)
    kept = squares.with_observations(squares.observations.with_weights(weights + LEAST))
    trusting = start.adjusted(problem)
    assert isinstance(trusting, Completion)
    return kept, replace(origin, problem=trusting)
