"""The paper's metric: rows and columns weighted by the norms of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backends import Array
from ..common.checks import Checked, parameter
from ..geometry import DiagonalWeight, WeightedManifold, Weights
from ..problems import Gradient
from .epsilon import POLICY, Epsilon, Median


@dataclass(frozen=True)
class RowColumn(Checked):
    """``L_t = eps_t I + diag(G_t G_t^H)``, ``R_t = eps_t I + diag(G_t^H G_t)``, weights ``L_t^(1/4)``, ``R_t^(1/4)``.

    On tensors of d modes, in Tucker form and as trains, the weights are ``(eps_t + |G_i|^2)^(1/2d)`` of the slices G_i of each
    mode: a generalization of the matrix case, not the published metrics for tensors (for trains arXiv:2501.13385).

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

    needs: ClassVar[tuple[type, ...]] = (WeightedManifold,)

    def start(self, G: Gradient) -> float:
        return self.epsilon.start(G)

    def weights(self, G: Gradient, memory: float) -> tuple[Weights, float]:
        epsilon = self.epsilon.at(G, memory)
        return diagonal_weights(epsilon, G.squared_norms, G.X), memory


def diagonal_weights(epsilon: float, squares: Sequence[Array], X: Any) -> Weights:
    """Weights ``(epsilon + squares)^(1/2d)`` of d modes, whose products lie between sqrt(epsilon) and sqrt(epsilon + largest).

    Modes that share their array of squares, as rows and columns of a Hermitian G do, share their weight.
    """
    backend, dtype, power = X.backend, np.zeros(0, X.dtype).real.dtype, 0.5 / len(squares)
    distinct = {id(one): one for one in squares}
    weights = {key: DiagonalWeight(backend.astype((epsilon + one) ** power, dtype)) for key, one in distinct.items()}
    largest = max(float(one.max()) for one in distinct.values())
    return Weights(
        tuple(weights[id(one)] for one in squares), low=float(np.sqrt(epsilon)), high=float(np.sqrt(epsilon + largest))
    )
