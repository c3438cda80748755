"""Metric of the two factors of X: the metric of R3MC."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..common.checks import Checked, parameter
from ..geometry import Weights
from ..problems import Gradient
from .protocol import METRIC, Canonical, Metric


@dataclass(frozen=True)
class Quotient(Checked):
    """The metric of the factors of ``X = L R^H`` (Mishra and Sepulchre): ``|xi|^2 = min |dL R^H|^2 + |L dR^H|^2``.

    The minimum is over all dL and dR with ``xi = dL R^H + L dR^H``. For ``xi = U M V^H + Up V^H + U Vp^H`` it is
    ``|M|^2 / 2 + |Up|^2 + |Vp|^2``, and the gradient is ``G V V^H + U U^H G``: that of ScaledGD and R3MC, as a tangent vector.
    Conjugate gradients in this metric depend less on the condition number of X than in the Euclidean one, at equal cost.

    On manifolds other than matrices of fixed rank it is the metric ``base``.

    Parameters
    ----------
    base : Metric
        Weights of rows and columns; by default none.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> counted = lr.metrics.Quotient(lr.metrics.Counts())
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RCG(counted)).converged
    True
    """

    base: Metric = parameter(factory=Canonical, expected=METRIC)

    @property
    def needs(self) -> tuple[type, ...]:
        """The capabilities that ``base`` needs."""
        return tuple(getattr(self.base, "needs", ()))

    def start(self, G: Gradient) -> Any:
        return self.base.start(G)

    def weights(self, G: Gradient, memory: Any) -> tuple[Weights, Any]:
        weights, memory = self.base.weights(G, memory)
        return replace(weights, additive=True), memory
