"""Spectral initialization: the leading singular triples of ``A* y``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..common.checks import POSITIVE, YES_OR_NO, Checked, parameter, whole
from ..geometry import FixedRank, FixedRankManifold
from ..geometry.truncated_svd import ImplicitMatrix, truncated_svd
from ..problems import Gradient, Problem


@dataclass(frozen=True)
class Spectral(Checked):
    """``X_0 = H_r(A* y) / operator_scale``: one step of iterative hard thresholding from zero, as in the paper.

    X_0 is scaled to the best fit where it fits worse than zero, as happens with far too few measurements. The paper has no such
    step: ``rescaled=False`` leaves it out.

    Parameters
    ----------
    tol : float
        Accuracy of the singular vectors, relative to the largest singular value.
    restarts : int
        Largest number of restarts of the Krylov method.
    depth : int
        Krylov blocks between restarts.
    rescaled : bool
        Whether to scale X_0 where it fits worse than zero.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, start=lr.starts.Spectral(tol=1e-6)).converged
    True
    """

    tol: float = parameter(1e-3, POSITIVE)
    restarts: int = parameter(6, whole(1))
    depth: int = parameter(2, whole(1))
    rescaled: bool = parameter(True, YES_OR_NO)

    needs: ClassVar[tuple[type, ...]] = (FixedRankManifold,)

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        G = problem.gradient(problem.zero(rank))  # -A* y
        X = leading(problem, G, rank, rng, self.tol, self.restarts, self.depth)
        X = FixedRank(X.U, X.s / problem.operator_scale, X.V, problem.backend)
        if self.rescaled and problem.gradient(X).residual_norm > problem.y_norm:
            X = FixedRank(X.U, X.s * G.exact_step(X.U * X.s, X.V), X.V, problem.backend)
        return X


def leading(
    problem: Problem,
    G: Gradient | ImplicitMatrix,
    rank: int,
    rng: np.random.Generator,
    tol: float,
    restarts: int,
    depth: int = 2,
) -> FixedRank:
    """The leading singular triples of ``-G``; on the semidefinite manifold the leading eigenpairs."""
    backend, block = problem.backend, min(rank + min(rank, max(5, rank // 4)), *problem.shape)
    # One product with the adjoint makes rows and columns without data zero.
    first = -G.adjoint_times(backend.random_normal(rng, (problem.shape[0], block), problem.dtype))
    hermitian = problem.manifold.hermitian  # about half of the triples have negative eigenvalues
    width = block if hermitian else rank
    found = truncated_svd(
        lambda v: -G.times(v), lambda u: -G.adjoint_times(u), first, width, backend, tol=tol, restarts=restarts, depth=depth
    )
    return problem.manifold.nearest(found, rank)
