"""The paper's metric: rows and columns weighted by the norms of the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..backends import Array
from ..common.checks import Checked, parameter
from ..geometry import DiagonalWeight, FixedRank, FixedRankManifold, Weights
from ..problems import Gradient
from .epsilon import POLICY, Epsilon, Median


@dataclass(frozen=True)
class RowColumn(Checked):
    """``L_t = eps_t I + diag(G_t G_t^H)``, ``R_t = eps_t I + diag(G_t^H G_t)``, weights ``L_t^(1/4)``, ``R_t^(1/4)``.

    Parameters
    ----------
    epsilon : Epsilon
        The policy for eps_t.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(lr.metrics.RowColumn(lr.metrics.Median()), lr.steps.Exact())).converged
    True
    """

    epsilon: Epsilon = parameter(factory=Median, expected=POLICY)

    needs: ClassVar[tuple[type, ...]] = (FixedRankManifold,)

    def start(self, G: Gradient) -> float:
        return self.epsilon.start(G)

    def weights(self, G: Gradient, memory: float) -> tuple[Weights, float]:
        epsilon = self.epsilon.at(G, memory)
        return diagonal_weights(epsilon, *G.squared_norms, G.X), memory


def diagonal_weights(epsilon: float, row_squares: Array, col_squares: Array, X: FixedRank) -> Weights:
    """Weights ``(epsilon + squares)^(1/4)``, whose products lie between sqrt(epsilon) and sqrt(epsilon + largest)."""
    backend, dtype = X.backend, X.real_dtype
    left = DiagonalWeight(backend.astype((epsilon + row_squares) ** 0.25, dtype))
    right = left  # one weight for both sides of a Hermitian G
    if col_squares is not row_squares:
        right = DiagonalWeight(backend.astype((epsilon + col_squares) ** 0.25, dtype))
    largest = max(float(row_squares.max()), float(col_squares.max()))
    return Weights(
        left,
        right,
        low=float(np.sqrt(epsilon)),
        high=float(np.sqrt(epsilon + largest)),
    )
