"""Whole-matrix weighted least squares for what people took: observed entries are ones, all others are weak zeros.

With x_u the factors of rows and y_i those of columns, the least value of::

    sum_observed w_ui (x_u y_i - 1)^2 + zeros sum_all (x_u y_i)^2 + sum_u ridge_u |x_u|^2 + sum_i ridge_i |y_i|^2,
    ridge_u = regularization (sum_i w_ui + zeros n2)^scaling,   ridge_i the same with n1,

is looked for by sweeps of alternating least squares (Hu, Koren and Volinsky 2008; the frequency-scaled regularisation and the
weights are those of Rendle, Krichene, Zhang and Koren 2022, "Revisiting the Performance of iALS on Item Recommendation
Benchmarks"). The sum over all entries costs nothing that grows with their number: given Y it is ``zeros x^T (Y^T Y) x`` for
each row. In the eigenvectors of Y^T Y that is diagonal, so both sides' factors are turned into them before each half of a
sweep, and a few steps of conjugate gradients with the diagonal as preconditioner do for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array, Backend, Observations
from ..backends.normal_equations import descend

SMALL = 1e-12  # entries of orthonormal bases below this are rounding, and may be denormal numbers
TINY = 1e-18  # the square is still an ordinary number in single precision
BLOCK = 1 << 16  # rows of factors that are turned into double precision at a time
NONNEGATIVE_CYCLES = 4  # of coordinate descent for each step of conjugate gradients that is asked for
EXACTLY = (1000, 1e-9)  # cycles and tolerance, for one row
FINAL_STEPS = 12  # of conjugate gradients, where factors are not a start for the next sweep


@dataclass(frozen=True)
class ImplicitSettings:
    """How such a model is fitted.

    Attributes
    ----------
    rank : int
    zeros : float
        The weight of an entry that was not observed, 1 being that of an observed one.
    regularization : float
    scaling : float
        The power of a row's weight in its penalty.
    max_iter : int
        Number of ALS iterations.
    inner_max_iter : int
        Conjugate gradient iterations for each side in each ALS iteration.
    seed : int
    nonnegative : bool
        Whether factors may not be negative: then solved by coordinate descent, in double precision.
    """

    rank: int = 64
    zeros: float = 0.1
    regularization: float = 0.01
    scaling: float = 1.0
    max_iter: int = 8
    inner_max_iter: int = 3
    seed: int = 0
    nonnegative: bool = False


@dataclass(frozen=True)
class ImplicitFactors:
    """Factors of rows and of columns, where the data are.

    Attributes
    ----------
    rows, cols : (n1, k) and (n2, k) arrays
    """

    rows: Array
    cols: Array


def random_factors(backend: Backend, shape: tuple[int, int], settings: ImplicitSettings, dtype: Any) -> ImplicitFactors:
    """Where a fit begins: small random factors."""
    rng = np.random.default_rng(settings.seed)
    scale = 0.1 / np.sqrt(settings.rank)
    rows, cols = (backend.random_normal(rng, (n, settings.rank), dtype) * scale for n in shape)
    return ImplicitFactors(abs(rows), abs(cols)) if settings.nonnegative else ImplicitFactors(rows, cols)


def ridge_penalties(observations: Observations, backend: Backend, settings: ImplicitSettings) -> tuple[Array, Array]:
    """The penalties of rows and of columns, in double precision, where the data are."""
    n1, n2 = observations.shape
    found = []
    for side, others in ((0, n2), (1, n1)):
        weights = observations.weights
        total = observations.counts(side) if weights is None else observations.sums(weights, side)
        amount = backend.astype(total, np.float64) + settings.zeros * others
        found.append(settings.regularization * amount**settings.scaling)
    return found[0], found[1]


def half_sweep(
    observations: Observations,
    backend: Backend,
    columns: bool,
    sides: ImplicitFactors,
    ridge: Array,
    settings: ImplicitSettings,
    inner_max_iter: int | None = None,
) -> ImplicitFactors:
    """Factors of one side, given those of the other."""
    if settings.nonnegative:
        return nonnegative_half(observations, backend, columns, sides, ridge, settings, inner_max_iter)
    own, other = (sides.cols, sides.rows) if columns else (sides.rows, sides.cols)
    values, basis = backend.eigh(backend.gram(other, other).astype(np.float64))
    dtype = backend.dtype(own)
    turn = np.where(abs(basis) > SMALL, basis, 0.0).astype(dtype)
    own, other = backend.asarrays(backend.product(own, turn), backend.product(other, turn))
    prior = backend.asarray((settings.zeros * np.maximum(values, 0)).astype(dtype))
    found = observations.normal_steps(
        columns,
        other,
        prior,
        backend.astype(ridge, dtype),
        own,
        settings.inner_max_iter if inner_max_iter is None else inner_max_iter,
    )
    # Where nothing was observed the solution is zero, whatever rounding leaves of it. And factors that fade away would end as
    # denormal numbers, at a hundred times the cost.
    seen = observations.counts(int(columns)) > 0
    found = found * ((abs(found) > TINY) & seen[:, None])
    return ImplicitFactors(other, found) if columns else ImplicitFactors(found, other)


def nonnegative_half(
    observations: Observations,
    backend: Backend,
    columns: bool,
    sides: ImplicitFactors,
    ridge: Array,
    settings: ImplicitSettings,
    inner_max_iter: int | None,
) -> ImplicitFactors:
    """The same with factors that are not negative: cycles over their coordinates in place of conjugate gradients."""
    own, other = (sides.cols, sides.rows) if columns else (sides.rows, sides.cols)
    gram = backend.gram(other, other).astype(np.float64)
    cycles = NONNEGATIVE_CYCLES * (settings.inner_max_iter if inner_max_iter is None else inner_max_iter)
    found, _ = observations.nonnegative_equations(
        columns, other, own, ridge, prior=backend.asarray(settings.zeros * gram), cycles=cycles
    )
    found = backend.astype(found, backend.dtype(own))
    found = found * (found > TINY)  # that fade away: no denormal numbers
    return ImplicitFactors(other, found) if columns else ImplicitFactors(found, other)


def fit_implicit(
    observations: Observations,
    backend: Backend,
    settings: ImplicitSettings,
    start: ImplicitFactors | None = None,
    *,
    after_sweep: Any = None,
) -> ImplicitFactors:
    """Sweeps from a start, and at the end the rows once more, in full, given the columns.

    Parameters
    ----------
    observations : Observations
        Ones on the pattern; the weights are confidences.
    backend : Backend
    settings : ImplicitSettings
    start : ImplicitFactors, optional
    after_sweep : callable, optional
        ``f(sides)``; a true value ends the fit.
    """
    sides = start or random_factors(backend, observations.shape, settings, backend.dtype(observations.values))
    rows, cols = ridge_penalties(observations, backend, settings)
    for _ in range(settings.max_iter):
        sides = half_sweep(observations, backend, False, sides, rows, settings)
        sides = half_sweep(observations, backend, True, sides, cols, settings)
        if after_sweep is not None and after_sweep(sides):
            break
    return half_sweep(observations, backend, False, sides, rows, settings, FINAL_STEPS)


def solve_row(
    cols: np.ndarray, taken: np.ndarray, weights: np.ndarray, settings: ImplicitSettings
) -> tuple[np.ndarray, np.ndarray]:
    """The factors of a row that took these columns, solved exactly, and the matrix M of its normal equations.

    The score of column j is then ``sum_t w_t y_j^T M^-1 y_t``: a sum over what was taken.

    Parameters
    ----------
    cols : (n2, k) array
        Factors of all columns, in main memory.
    taken : (m,) integer array
    weights : (m,) array
    settings : ImplicitSettings
    """
    k = cols.shape[1]
    gram = np.zeros((k, k))
    for at in range(0, len(cols), BLOCK):  # in double precision, without a copy of all
        part = cols[at : at + BLOCK].astype(float)
        gram += part.T @ part
    y = cols[taken].astype(float)
    ridge = settings.regularization * (weights.sum() + settings.zeros * len(cols)) ** settings.scaling
    M = (y.T * weights) @ y + settings.zeros * gram + ridge * np.eye(k)
    if settings.nonnegative:
        return descend(M[None], (y.T @ weights)[None], np.zeros((1, k)), *EXACTLY)[0], M
    return np.linalg.solve(M, y.T @ weights), M


def objective(observations: Observations, backend: Backend, settings: ImplicitSettings, sides: ImplicitFactors) -> float:
    """What is minimised."""
    left = observations.residual(sides.rows, sides.cols)
    weights = observations.weights
    misfit = float((left * left if weights is None else weights * left * left).sum())
    gram = (backend.gram(side, side).astype(np.float64) for side in (sides.rows, sides.cols))
    everywhere = float(np.sum(next(gram) * next(gram)))
    rows, cols = ridge_penalties(observations, backend, settings)
    squares = (backend.astype(backend.row_squares(side), np.float64) for side in (sides.rows, sides.cols))
    return misfit + settings.zeros * everywhere + float((rows * next(squares)).sum() + (cols * next(squares)).sum())
