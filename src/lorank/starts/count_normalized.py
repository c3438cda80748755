"""Count-normalized spectral pairs: initialization for evenly and unevenly sampled data.

With c and d the numbers of observations of rows and columns, the entries of ``T = c^-1/2 G d^-1/2`` have noise of equal
variance, whatever the sampling, and the expectation of T is proportional to ``c^1/2 X d^1/2``. The singular vectors of T are
therefore multiplied by ``c^-1/2`` and ``d^-1/2``. Rows and columns of T that are heavier than the others hold larger values:
they are scaled down to the root mean square before the SVD, since singular vectors of sparse matrices localize on them, and the
scale is divided out afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array
from ..geometry import FixedRank
from ..problems import Gradient, Problem
from .spectral import leading

FLOOR = 0.5  # of the median count, added to all counts: bounds the factors of rows with few observations


@dataclass(frozen=True)
class NormalizedGradient:
    """A gradient between diagonal scales, ``diag(rows) G diag(cols)``.

    Attributes
    ----------
    G : Gradient
    rows, cols : (n1, 1) and (n2, 1) arrays
        Scales of the matrix whose singular vectors are computed.
    left, right : (n1, 1) and (n2, 1) arrays
        Factors that turn its singular vectors into those of X.
    """

    G: Gradient
    rows: Array
    cols: Array
    left: Array
    right: Array

    @classmethod
    def of(cls, G: Gradient) -> NormalizedGradient:
        """Normalize by counts, then trim heavy rows and columns."""
        problem: Any = G.problem
        dtype = np.zeros(0, problem.dtype).real.dtype
        a, b = (_normalization(problem, c, dtype) for c in problem.counts())
        times, adjoint_times = problem.products(abs(G.dual) ** 2)
        squares = a * a * times(b * b), b * b * adjoint_times(a * a)
        trim_rows, trim_cols = (_trimming(s) for s in squares)
        return cls(G, a * trim_rows, b * trim_cols, a / trim_rows, b / trim_cols)

    def times(self, v: Array) -> Array:
        return self.rows * self.G.times(self.cols * v)

    def adjoint_times(self, u: Array) -> Array:
        return self.cols * self.G.adjoint_times(self.rows * u)


def _normalization(problem: Problem, counts: Array, dtype: Any) -> Array:
    """``c^-1/2`` of the expected counts: the counts, shrunk towards their mean by the share of chance in their variance.

    Of an even pattern all variance is chance (Poisson), and nothing is normalized.
    """
    backend = problem.backend
    c = backend.astype(counts, np.float64)
    mean = float(c.mean())
    variance = float((c * c).mean()) - mean**2
    c = mean + max(0.0, 1 - mean / variance if variance > 0 else 0.0) * (c - mean)
    c = c + FLOOR * max(backend.median(c), 1.0)
    return backend.astype((c / float(c.mean())) ** -0.5, dtype)[:, None]


def _trimming(squares: Array) -> Array:
    mean = float(squares.mean())
    return (squares / mean if mean > 0 else squares).clip(1.0) ** -0.5


def normalized_pairs(
    problem: Problem,
    rank: int,
    rng: np.random.Generator,
    X: FixedRank | None = None,
    *,
    dtype: Any = None,
    unit: float = 1.0,
) -> FixedRank:
    """A point of that rank: X, and the leading count-normalized pairs of the residual at X, with one exact step of their core.

    Parameters
    ----------
    problem : Problem
    rank : int
    rng : Generator
    X : FixedRank, optional
        A point that is kept, of smaller rank; by default zero.
    dtype : dtype, optional
        Of the result; by default the problem's.
    unit : float
        Factor of the result.
    """
    backend = problem.backend
    G = problem.gradient(problem.zero(1) if X is None else X)
    normalized = NormalizedGradient.of(G)
    more = rank - (0 if X is None else X.rank)
    # A tenth per pair on average: conjugate gradients improve the pairs further.
    Y = leading(problem, normalized, more, rng, tol=0.1 * more**0.5, restarts=5, depth=1)
    left, right = normalized.left * Y.U, normalized.right * Y.V
    if X is not None:
        left, right = backend.concat([X.U, left]), backend.concat([X.V, right])
    U, V = backend.orthonormalize(left), backend.orthonormalize(right)
    direction = -backend.gram(U, G.times(V))  # steepest descent of the core C in X = U C V^H
    core = direction * G.exact_step(backend.product(U, direction), V)
    if X is not None:
        core = core + (backend.gram(U, X.U) * backend.small(X.s)) @ backend.gram(X.V, V)
    left, right = (backend.astype(a, dtype or problem.dtype) for a in (backend.product(U, core) * unit, V))
    return FixedRank.from_factors(left, right, backend=backend)
