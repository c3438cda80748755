"""The count-normalized matrix of the observations: its singular pairs for initialization, and its spectrum for the rank.

With c and d the numbers of observations of rows and columns, the entries of ``T = c^-1/2 G d^-1/2`` have noise of equal
variance, whatever the sampling, and the expectation of T is proportional to ``c^1/2 X d^1/2``. The singular vectors of T are
therefore multiplied by ``c^-1/2`` and ``d^-1/2``. Rows and columns of T that are heavier than the others hold larger values:
they are scaled down to the root mean square before the SVD, since singular vectors of sparse matrices localize on them, and the
scale is divided out afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..backends import Array
from ..common.checks import ParameterError
from ..geometry import FixedRank
from ..geometry.truncated_svd import ImplicitMatrix
from ..problems import Gradient, Problem
from ..problems.capabilities import HasCounts, HasSplit, missing, supports
from .spectral import leading

FLOOR = 0.5  # of the median count, added to all counts: bounds the factors of rows with few observations
MIN_VALUES, MAX_VALUES = 8, 128  # singular values of a spectrum: twice as many while all stand out
SIGN_FLIPS, MARGIN = 3, 1.05  # of the null edge; no false component in 162 samples of noise, from 60 x 40 to 2000 x 100


class Normalization(NamedTuple):
    """Diagonal scales of a gradient.

    Attributes
    ----------
    rows, cols : (n1, 1) and (n2, 1) arrays
        Scales of the matrix whose singular vectors are computed.
    left, right : (n1, 1) and (n2, 1) arrays
        Factors that turn its singular vectors into those of X.
    """

    rows: Array
    cols: Array
    left: Array
    right: Array

    @classmethod
    def of(cls, G: Gradient) -> Normalization:
        """Normalize by counts, then trim heavy rows and columns."""
        problem: Any = G.problem
        dtype = np.zeros(0, problem.dtype).real.dtype
        a, b = (_normalization(problem, c, dtype) for c in problem.counts())
        times, adjoint_times = problem.products(abs(G.dual) ** 2)
        trim_rows, trim_cols = _trimming(a * a * times(b * b)), _trimming(b * b * adjoint_times(a * a))
        return cls(a * trim_rows, b * trim_cols, a / trim_rows, b / trim_cols)


def _implicit(G: Gradient) -> ImplicitMatrix:
    return ImplicitMatrix(G.times, G.adjoint_times)


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


def normalized_pairs(problem: Problem, rank: int, rng: np.random.Generator, X: FixedRank | None = None) -> FixedRank:
    """A point of that rank: X, and the leading count-normalized pairs of the residual at X, with one exact step of their core.

    Parameters
    ----------
    problem : Problem
    rank : int
    rng : Generator
    X : FixedRank, optional
        A point that is kept, of smaller rank; by default zero.
    """
    backend = problem.backend
    G = problem.gradient(problem.zero(1) if X is None else X)
    scales = Normalization.of(G)
    more = rank - (0 if X is None else X.rank)
    # A tenth per pair on average: conjugate gradients improve the pairs further.
    Y = leading(problem, _implicit(G).scaled(*scales[:2]), more, rng, tol=0.1 * more**0.5, restarts=5, depth=1)
    left, right = scales.left * Y.U, scales.right * Y.V
    if X is not None:
        left, right = backend.concat([X.U, left]), backend.concat([X.V, right])
    U, V = backend.orthonormalize(left), backend.orthonormalize(right)
    direction = -backend.gram(U, G.times(V))  # steepest descent of the core C in X = U C V^H
    core = direction * G.exact_step(backend.product(U, direction), V)
    if X is not None:
        core = core + (backend.gram(U, X.U) * backend.small(X.s)) @ backend.gram(X.V, V)
    return problem.manifold.nearest(FixedRank.from_factors(backend.product(U, core), V, backend=backend))


@dataclass(frozen=True)
class Spectrum:
    """Singular values of the count-normalized observations, and those that noise would have.

    Attributes
    ----------
    values : (k,) array
        The leading singular values, in decreasing order. The unit is arbitrary: compare them with ``edge``.
    edge : float
        Null edge: the largest singular value of the same observations with random signs. Values above it are structure.
    fitted : int
        Rank of the fit whose residual was analysed; 0 for the observations themselves.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, _ = lr.datasets.random_completion(200, 150, rank=3, oversampling=8, factors="gaussian", noise=0.1)
    >>> lr.starts.spectrum(problem).count
    3
    """

    values: np.ndarray
    edge: float
    fitted: int = 0

    @property
    def count(self) -> int:
        """Number of components that stand out, those of the fit included."""
        return self.fitted + int((self.values > self.edge).sum())


def spectrum(problem: Any, X: FixedRank | None = None, *, seed: int = 0, max_rank: int = MAX_VALUES) -> Spectrum:
    """The spectrum of the observations, or of the residual at X: how many components stand out from noise.

    Random signs keep the pattern and the size of every observation, and destroy all structure. The null edge is the largest
    singular value of a few such samples, whatever the distribution of the noise. Where the observations cannot be divided, it
    is that of white noise of the same norm.

    Parameters
    ----------
    problem : Problem
        With counts and a split (:mod:`lorank.problems.capabilities`), such as :class:`~lorank.Completion` on any backend.
        Subtract means or biases of the values before: large common components hide others.
    X : FixedRank, optional
        By default zero.
    seed : int
        Seed of the signs and of the singular vectors.
    max_rank : int
        Largest number of singular values.

    Returns
    -------
    Spectrum

    Raises
    ------
    ParameterError
        If the problem has no counts or no split.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> noise = lr.Completion.from_dense(np.random.default_rng(0).standard_normal((40, 30)))
    >>> lr.starts.spectrum(noise).count
    0
    """
    for need in (HasCounts, HasSplit):
        if not supports(problem, need):
            raise ParameterError("problem", missing(problem, need))
    backend, rng = problem.backend, np.random.default_rng(seed)
    fitted, X = (0, problem.zero(1)) if X is None else (X.rank, X)
    G = problem.gradient(X)
    scales = Normalization.of(G)
    T = _implicit(G).scaled(*scales[:2])
    edge = MARGIN * max(_null_edge(problem, G, scales, np.random.default_rng(seed + k)) for k in range(SIGN_FLIPS))
    top = min(max_rank, *problem.shape)
    count = min(MIN_VALUES, top)
    while True:
        values = backend.to_numpy(leading(problem, T, count, rng, tol=1e-2, restarts=6).s).astype(np.float64)
        if count == top or values[-1] <= edge:
            return Spectrum(values, edge, fitted)
        count = min(2 * count, top)


def _null_edge(problem: Any, G: Gradient, scales: Normalization, rng: np.random.Generator) -> float:
    """The largest singular value of the normalized gradient with random signs."""
    try:
        one, other = (_implicit(half.gradient(G.X)) for half in problem.split(rng, 0.5))
    except ValueError:  # too few observations
        squares = problem.products(abs(G.dual) ** 2)[0](scales.cols**2)
        return float((scales.rows**2 * squares).sum()) ** 0.5 * sum(n**-0.5 for n in problem.shape)
    return float(leading(problem, (one - other).scaled(*scales[:2]), 1, rng, tol=1e-2, restarts=6).s[0])
