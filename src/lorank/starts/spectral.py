"""Spectral initialization: the leading singular triples of ``A* y``, plain or with heavy rows and columns trimmed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from ..backends import Array
from ..common.checks import POSITIVE, check_parameters, whole
from ..geometry import FixedRank, FixedRankManifold
from ..geometry.truncated_svd import truncated_svd
from ..problems import Gradient, Problem


@dataclass(frozen=True)
class Spectral:
    """``X_0 = H_r(A* y) / operator_scale``: one step of iterative hard thresholding from zero, as in the paper.

    X_0 is scaled to the best fit where it fits worse than zero, as happens with far too few measurements.

    Parameters
    ----------
    tol : float
        Accuracy of the singular vectors, relative to the largest singular value.
    restarts : int
        Largest number of restarts of the Krylov method.
    depth : int
        Krylov blocks between restarts.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, start=lr.starts.Spectral(tol=1e-6)).converged
    True
    """

    tol: float = 1e-3
    restarts: int = 6
    depth: int = 2

    needs: ClassVar[tuple[type, ...]] = (FixedRankManifold,)

    def __post_init__(self) -> None:
        check_parameters(self, tol=POSITIVE, restarts=whole(1), depth=whole(1))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        G = problem.gradient(problem.zero(rank))  # -A* y
        X = leading(problem, G, rank, rng, self.tol, self.restarts, self.depth)
        X = FixedRank(X.U, X.s / problem.operator_scale, X.V, problem.backend)
        if problem.gradient(X).residual_norm > problem.y_norm:
            X = FixedRank(X.U, X.s * G.exact_step(X.U * X.s, X.V), X.V, problem.backend)
        return X


COARSE = Spectral(tol=1e-2, restarts=4, depth=1)  # accuracy for points that are fitted further


class Products(Protocol):
    """A matrix given by its products with thin arrays."""

    def times(self, v: Array) -> Array: ...

    def adjoint_times(self, u: Array) -> Array: ...


def leading(
    problem: Problem, G: Products, rank: int, rng: np.random.Generator, tol: float, restarts: int, depth: int = 2
) -> FixedRank:
    """The leading singular triples of ``-G``."""

    def times(v: Array) -> Array:
        return -G.times(v)

    def adjoint_times(u: Array) -> Array:
        return -G.adjoint_times(u)

    backend, block = problem.backend, min(rank + min(rank, max(5, rank // 4)), *problem.shape)
    # One product with the adjoint makes rows and columns without data zero.
    first = adjoint_times(backend.random_normal(rng, (problem.shape[0], block), problem.dtype))
    return truncated_svd(times, adjoint_times, first, rank, backend, tol=tol, restarts=restarts, depth=depth)


@dataclass(frozen=True)
class Trimmed:
    """A gradient whose rows and columns of larger than average norm are scaled down to the root mean square."""

    G: Gradient
    rows: Array  # (n1, 1), at most 1
    cols: Array  # (n2, 1)

    @classmethod
    def of(cls, G: Gradient) -> Trimmed:
        backend, dtype = G.problem.backend, np.zeros(0, G.problem.dtype).real.dtype

        def scale(squares: Array) -> Array:
            mean = float(squares.mean())
            return backend.astype((squares / mean if mean > 0 else squares).clip(1.0) ** -0.5, dtype)[:, None]

        return cls(G, *map(scale, G.squared_norms))

    def times(self, v: Array) -> Array:
        return self.rows * self.G.times(self.cols * v)

    def adjoint_times(self, u: Array) -> Array:
        return self.cols * self.G.adjoint_times(self.rows * u)


def trimmed_pairs(problem: Problem, rank: int, rng: np.random.Generator, *, dtype: Any = None, unit: float = 1.0) -> FixedRank:
    """The leading singular pairs of ``A* y`` after trimming, times the step of best fit; times ``unit``, in that dtype.

    Singular vectors of a large sparse matrix concentrate on its heaviest rows and columns; trimming prevents that.
    """
    backend, G = problem.backend, problem.gradient(problem.zero(1))
    even = Trimmed.of(G)
    # A tolerance of a tenth per pair: with a fifth, the first pairs, still mostly noise, would pass.
    Y = leading(problem, even, rank, rng, tol=0.1 * rank**0.5, restarts=5, depth=1)
    left, right = Y.U * Y.s / even.rows, Y.V / even.cols
    step = unit * G.exact_step(left, right)
    left, right = (backend.astype(a, dtype or problem.dtype) for a in (left * step, right))
    return FixedRank.from_factors(left, right, backend=backend)
