"""Where the sweeps of a factor model begin: offsets first, then what the exact solvers find in the rest.

Sweeps from factors that say little take long, and may end in a poor valley. A staged start and a few conjugate gradient steps
(what :func:`lorank.solve` would do) cost about as much as one sweep, and end near the fit that sweeps then regularise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..backends import Array
from ..geometry import FixedRank
from ..problems import Completion
from ..starts.rank_growth import fit as descend
from ..starts.staged import Staged
from .als import Factors, total_weight
from .variational import Variational

OFFSET_SWEEPS = 3  # of offsets alone: from then on they change by less than the factors will change them
SETTLE, MAX_STEPS = 3, 12  # conjugate gradient steps: until three of them leave nine tenths of the residual, at most twelve

# Of their size, with offsets: from 0.1 on to 0.3 sweeps end alike, from the whole size a little higher on noisy ratings.
# Without offsets the first direction holds the mean: made smaller, it leaves so much over that the rest is taken for noise.
SHRUNK = 0.3
CERTAIN = 0.1  # of the precision that what is left over by the start would mean; at 0.3 noise is taken for components


def begin(
    problem: Completion,
    rank: int,
    solver: Variational,
    rng: np.random.Generator,
    base: Factors | None = None,
    rest: Completion | None = None,
) -> Factors:
    """Factors of that rank, with priors from before anything is known: those of ``base``, by default offsets alone, and more
    directions of what they leave over.

    With offsets these are made smaller: an unregularised fit of data with noise is too large, and sweeps grow factors faster
    than they forget what was fitted by chance.

    Parameters
    ----------
    problem : Completion
    rank : int
        Without the offsets.
    solver : Variational
        Its offsets and starting priors.
    rng : numpy.random.Generator
    base : Factors, optional
        Of another fit, of a smaller rank. The offsets alone (:func:`offsets_alone`) do for every rank.
    rest : Completion, optional
        What the base leaves over (:func:`left_over`), where several ranks begin there.
    """
    if base is None:
        base, rest = offsets_alone(problem, solver) if solver.offsets else None, None
    more = rank - (0 if base is None else base.rows.shape[1] - 2 * solver.offsets)
    if more < 0:
        raise ValueError(f"start has rank {rank - more}, more than the {rank} asked for")
    if more:
        X = _directions(problem if base is None else left_over(problem, base) if rest is None else rest, more, rng)
        base = _side_by_side(problem, base, X, solver.offsets)
    assert base is not None
    factors = solver.uninformed(problem, base)
    if solver.offsets or solver.noise == "unit" or problem.y_norm == 0:
        return factors
    # Without offsets the values are as large as their mean, which says nothing of noise: what is left over does.
    size = problem.y_norm**2 / total_weight(problem)
    left = max(left_over(problem, factors).y_norm ** 2 / total_weight(problem), 1e-10 * size)
    return replace(factors, noise=max(factors.noise, CERTAIN / left))


def offsets_alone(problem: Completion, solver: Variational) -> Factors:
    """Offsets of rows and columns, and nothing else."""
    simple = replace(solver, noise="one", initial=None, row_features=None, col_features=None)
    factors = simple.uninformed(problem, nothing(problem, 0, True))
    for _ in range(OFFSET_SWEEPS):
        factors, _ = simple.sweep(problem, factors)
    return factors


def nothing(problem: Completion, rank: int, offsets: bool) -> Factors:
    """Factors of zero."""
    k = rank + 2 * offsets
    rows, cols = (problem.backend.zeros((n, k), np.float64) for n in problem.shape)
    if offsets:
        rows[:, k - 1] = cols[:, k - 2] = 1
    prior = (np.eye(k), np.zeros(k))
    return Factors(rows, cols, prior, prior)


def left_over(problem: Completion, base: Factors) -> Completion:
    """The problem of what these factors leave over."""
    rest = problem.y - problem.forward(base.rows, base.cols)
    return problem.with_observations(problem.observations.with_values(rest))


def _directions(problem: Completion, rank: int, rng: np.random.Generator) -> FixedRank:
    if problem.y_norm == 0:
        return FixedRank.zero(problem.shape, rank, np.float64, problem.backend)
    return descend(problem, Staged()(problem, rank, rng), SETTLE, MAX_STEPS)


def _side_by_side(problem: Completion, base: Factors | None, X: FixedRank, offsets: bool) -> Factors:
    """Balanced factors of X, with those of ``base`` beside them: offsets stay at the end."""
    backend = problem.backend
    root = ((SHRUNK if offsets else 1.0) * backend.astype(X.s, np.float64)) ** 0.5
    sides: list[Array] = [backend.astype(backend.asarray(a), np.float64) * root for a in (X.U, X.V)]
    if base is not None:
        at = base.rows.shape[1] - 2 * offsets
        sides = [backend.concat([a[:, :at], b, a[:, at:]]) for a, b in zip((base.rows, base.cols), sides, strict=True)]
    k = sides[0].shape[1]
    prior = (np.eye(k), np.zeros(k))
    return Factors(sides[0], sides[1], prior, prior)
