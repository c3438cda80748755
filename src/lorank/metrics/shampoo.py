"""Metrics of Shampoo: sums of squared gradients over all iterations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ..common.checks import Checked, parameter, whole
from ..geometry import DenseWeight, FixedRank, WeightedManifold, Weights
from ..problems import Gradient, MatrixProblem
from .epsilon import POLICY, Epsilon, Median
from .row_column import diagonal_weights

FULL_LIMIT = 3000  # rows or columns; each iteration makes two eigendecompositions of that size


@dataclass(frozen=True)
class Shampoo(Checked):
    """Diagonal Shampoo, for any size: ``L_t = eps I + sum_i diag(G_i G_i^H)``, ``R_t`` likewise.

    Parameters
    ----------
    epsilon : Epsilon
        The policy for eps.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(lr.metrics.Shampoo(), lr.steps.Exact())).converged
    True
    """

    epsilon: Epsilon = parameter(factory=Median, expected=POLICY)

    needs: ClassVar[tuple[type, ...]] = (WeightedManifold,)

    def start(self, G: Gradient) -> tuple[Any, ...]:
        return (self.epsilon.start(G),)

    def weights(self, G: Gradient, memory: tuple[Any, ...]) -> tuple[Weights, tuple[Any, ...]]:
        start, *sums = memory  # of the squares of each mode
        squares = G.squared_norms
        shared = all(one is other for a in (sums, squares) for one, other in pairwise(a))  # Hermitian in all iterations so far
        if not sums:
            sums = list(squares)
        elif shared:
            sums = [sums[0] + squares[0]] * len(sums)
        else:
            sums = [total + one for total, one in zip(sums, squares, strict=True)]
        return diagonal_weights(self.epsilon.at(G, start), sums, G.X), (start, *sums)


@dataclass(frozen=True)
class FullShampoo(Checked):
    """Shampoo as published: ``L_t = eps I + sum_i G_i G_i^H`` and ``R_t = eps I + sum_i G_i^H G_i``, for small matrices.

    Parameters
    ----------
    epsilon : Epsilon
        The policy for eps.
    limit : int
        Largest number of rows and columns.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(lr.metrics.FullShampoo(), lr.steps.Exact())).converged
    True
    """

    epsilon: Epsilon = parameter(factory=Median, expected=POLICY)
    limit: int = parameter(FULL_LIMIT, whole(1))

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem,)

    def start(self, G: Gradient) -> tuple[float, np.ndarray, np.ndarray]:
        n1, n2 = G.X.shape
        if max(n1, n2) > self.limit:
            raise ValueError(
                f"full Shampoo keeps dense {n1} x {n1} and {n2} x {n2} matrices and takes their eigenvectors in each "
                f"iteration: it is limited to {self.limit} rows and columns. Use solver='shampoo', which keeps diagonals"
            )
        dtype = np.result_type(G.X.dtype, np.float64)
        return self.epsilon.start(G), np.zeros((n1, n1), dtype), np.zeros((n2, n2), dtype)

    def weights(
        self, G: Gradient, memory: tuple[float, np.ndarray, np.ndarray]
    ) -> tuple[Weights, tuple[float, np.ndarray, np.ndarray]]:
        start, rows, cols = memory
        by_rows, by_cols = (G.X.backend.to_numpy(a) for a in G.outer())
        rows, cols = rows + by_rows, cols + by_cols
        epsilon = self.epsilon.at(G, start)
        (left, largest_left), (right, largest_right) = (_fourth_root(a, epsilon, G.X) for a in (rows, cols))
        # As for the diagonal metric, low is the bound by epsilon: the smallest weight grows over the iterations, and a constant
        # step would grow with it.
        low = float(np.sqrt(epsilon))
        return Weights((left, right), low, largest_left * largest_right), (start, rows, cols)


def _fourth_root(a: np.ndarray, epsilon: float, X: FixedRank) -> tuple[DenseWeight, float]:
    """``(epsilon I + a)^(1/4)`` with its inverse, and its largest eigenvalue; computed with NumPy for all backends."""
    values, vectors = np.linalg.eigh(a)
    roots = (epsilon + np.maximum(values, 0)) ** 0.25
    w, inverse = ((vectors * d) @ vectors.conj().T for d in (roots, 1 / roots))
    asarray = X.backend.asarray
    return DenseWeight(asarray(w, X.dtype), asarray(inverse, X.dtype)), float(roots[-1])
