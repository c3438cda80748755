"""Euclidean metric of the ambient space."""

from __future__ import annotations

from dataclasses import dataclass

from ..geometry import Weights
from ..problems import Gradient


@dataclass(frozen=True)
class Canonical:
    """The Euclidean metric ``<Z, Y> = Re tr(Z^H Y)``.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(lr.metrics.Canonical(), lr.steps.Exact())).converged
    True
    """

    def start(self, G: Gradient) -> None:
        return None

    def weights(self, G: Gradient, memory: None) -> tuple[Weights, None]:
        return Weights(), None
