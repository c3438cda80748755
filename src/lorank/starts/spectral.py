"""The spectral start: the leading singular triples of ``A* y``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..backends import Array
from ..common.checks import POSITIVE, check_parameters, whole
from ..geometry import FixedRank
from ..geometry.truncated_svd import truncated_svd
from ..problems import Problem


@dataclass(frozen=True)
class Spectral:
    """``X_0 = H_r(A* y) / operator_scale``: one step of iterative hard thresholding from zero, as in the paper.

    Where that fits the data worse than the zero matrix does (far too few measurements), X_0 is scaled down to the best fit.

    Parameters
    ----------
    tol : float
        Accuracy of the singular vectors, relative to the largest singular value.
    restarts : int
        The most restarts of the Krylov method.
    depth : int
        Its blocks between restarts.

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

    def __post_init__(self) -> None:
        check_parameters(self, tol=POSITIVE, restarts=whole(1), depth=whole(1))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        G = problem.gradient(problem.zero(rank))  # -A* y
        X = leading(problem, G, rank, rng, self.tol, self.restarts, self.depth)
        X = FixedRank(X.U, X.s / problem.operator_scale, X.V, problem.backend)
        if problem.gradient(X).residual_norm > problem.y_norm:
            X = FixedRank(X.U, X.s * G.exact_step(X.U * X.s, X.V), X.V, problem.backend)
        return X


ROUGHLY = Spectral(tol=1e-2, restarts=4, depth=1)  # for what is fitted further anyway


class Products(Protocol):
    """A matrix by its products with thin ones."""

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
    # Through the operator once, so that rows and columns without data are zero from the start.
    first = adjoint_times(backend.random_normal(rng, (problem.shape[0], block), problem.dtype))
    return truncated_svd(times, adjoint_times, first, rank, backend, tol=tol, restarts=restarts, depth=depth)
