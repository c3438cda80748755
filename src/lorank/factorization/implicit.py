"""Implicit-feedback ALS (iALS): weighted least squares over the whole matrix, with ones at observed pairs and zeros elsewhere.

With x_u the factors of rows and y_i those of columns, the objective is::

    sum_observed w_ui (x_u y_i - 1)^2 + zeros sum_all (x_u y_i)^2 + sum_u ridge_u |x_u|^2 + sum_i ridge_i |y_i|^2,
    ridge_u = regularization (sum_i w_ui + zeros n2)^scaling,   ridge_i the same with n1,

minimized by ALS (Hu, Koren and Volinsky 2008; frequency-scaled regularization and weights as in Rendle, Krichene, Zhang and
Koren 2022, "Revisiting the Performance of iALS on Item Recommendation Benchmarks"). The sum over all entries is
``zeros x^T (Y^T Y) x`` for each row, which is diagonal in the eigenvectors of Y^T Y: both sides' factors are rotated into them
before each update, which is a few conjugate gradient steps with the diagonal as preconditioner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..backends import Array, Backend, Observations
from ..backends.normal_equations import descend

SMALL = 1e-12  # smaller entries of orthonormal bases are rounding errors
TINY = 1e-18  # whose square is a normal number in single precision
BLOCK = 1 << 16  # rows of factors that are converted to double precision at a time
NONNEGATIVE_CYCLES = 4  # coordinate descent cycles for each conjugate gradient step
EXACT = (1000, 1e-9)  # cycles and tolerance for one row
FINAL_MAX_ITER = 12  # conjugate gradient steps of the last update


@dataclass(frozen=True)
class ImplicitSettings:
    """Settings of a fit.

    Attributes
    ----------
    rank : int
    zeros : float
        Weight of an unobserved pair relative to an observed one.
    regularization : float
    scaling : float
        Exponent of the total weight of a row in its penalty.
    max_iter : int
        Number of ALS iterations.
    inner_max_iter : int
        Conjugate gradient iterations for each side in each ALS iteration.
    seed : int
    nonnegative : bool
        Nonnegative factors, by coordinate descent in double precision.
    """

    rank: int = 64
    zeros: float = 0.1
    regularization: float = 0.01
    scaling: float = 1.0
    max_iter: int = 8
    inner_max_iter: int = 3
    seed: int = 0
    nonnegative: bool = False


class ImplicitFactors(NamedTuple):
    """Factors of rows and columns, (n1, k) and (n2, k) arrays on the backend of the data."""

    rows: Array
    cols: Array


def random_factors(backend: Backend, shape: tuple[int, int], settings: ImplicitSettings, dtype: Any) -> ImplicitFactors:
    """Initial factors: small random numbers."""
    rng = np.random.default_rng(settings.seed)
    scale = 0.1 / np.sqrt(settings.rank)
    rows, cols = (backend.random_normal(rng, (n, settings.rank), dtype) * scale for n in shape)
    return ImplicitFactors(abs(rows), abs(cols)) if settings.nonnegative else ImplicitFactors(rows, cols)


def ridge_penalties(observations: Observations, backend: Backend, settings: ImplicitSettings) -> tuple[Array, Array]:
    """Penalties of rows and columns, in double precision, on the backend of the data."""
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
    """Update the factors of one side, given those of the other."""
    own, other = (sides.cols, sides.rows) if columns else (sides.rows, sides.cols)
    gram, dtype = backend.gram(other, other).astype(np.float64), backend.dtype(own)
    steps = settings.inner_max_iter if inner_max_iter is None else inner_max_iter
    # Vanishing factors would become denormal numbers, which are slow.
    if settings.nonnegative:
        prior, cycles = backend.asarray(settings.zeros * gram), NONNEGATIVE_CYCLES * steps
        found, _ = observations.nonnegative_equations(columns, other, own, ridge, prior=prior, cycles=cycles)
        found = backend.astype(found, dtype)
        found = found * (found > TINY)
    else:
        values, basis = backend.eigh(gram)
        turn = np.where(abs(basis) > SMALL, basis, 0.0).astype(dtype)
        own, other = backend.asarrays(backend.product(own, turn), backend.product(other, turn))
        prior = backend.asarray((settings.zeros * np.maximum(values, 0)).astype(dtype))
        found = observations.normal_steps(columns, other, prior, backend.astype(ridge, dtype), own, steps)
        seen = observations.counts(int(columns)) > 0  # the factors of empty rows are zero up to rounding
        found = found * ((abs(found) > TINY) & seen[:, None])
    return ImplicitFactors(other, found) if columns else ImplicitFactors(found, other)


def fit_implicit(
    observations: Observations,
    backend: Backend,
    settings: ImplicitSettings,
    start: ImplicitFactors | None = None,
    *,
    after_sweep: Any = None,
) -> ImplicitFactors:
    """Fit by ALS, with a more accurate last update of the rows.

    Parameters
    ----------
    observations : Observations
        Ones at the observed pairs, with confidences as weights.
    backend : Backend
    settings : ImplicitSettings
    start : ImplicitFactors, optional
    after_sweep : callable, optional
        ``f(factors)`` after each iteration; a true value ends the fit.
    """
    sides = start or random_factors(backend, observations.shape, settings, backend.dtype(observations.values))
    rows, cols = ridge_penalties(observations, backend, settings)
    for _ in range(settings.max_iter):
        sides = half_sweep(observations, backend, False, sides, rows, settings)
        sides = half_sweep(observations, backend, True, sides, cols, settings)
        if after_sweep is not None and after_sweep(sides):
            break
    return half_sweep(observations, backend, False, sides, rows, settings, FINAL_MAX_ITER)


def solve_row(
    cols: np.ndarray, taken: np.ndarray, weights: np.ndarray, settings: ImplicitSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Exact factors of a row with these columns, and the matrix M of its normal equations.

    The score of column j is ``sum_t w_t y_j^T M^-1 y_t``, a sum over the columns of the row.

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
    for at in range(0, len(cols), BLOCK):  # in double precision, by blocks
        part = cols[at : at + BLOCK].astype(float)
        gram += part.T @ part
    y = cols[taken].astype(float)
    ridge = settings.regularization * (weights.sum() + settings.zeros * len(cols)) ** settings.scaling
    M = (y.T * weights) @ y + settings.zeros * gram + ridge * np.eye(k)
    if settings.nonnegative:
        return descend(M[None], (y.T @ weights)[None], np.zeros((1, k)), *EXACT)[0], M
    return np.linalg.solve(M, y.T @ weights), M
