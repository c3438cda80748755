"""Protocol of metrics, and the Euclidean metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ..common.checks import with_methods
from ..geometry import Weights
from ..problems import Gradient


class Metric(Protocol):
    """Weights of rows and columns as a function of the gradient; the memory of a metric is part of the state of the solver.

    Examples
    --------
    Any object with these two methods is a metric. It may list the capabilities that it needs in ``needs``. This one is
    :class:`Canonical`:

    >>> import lorank as lr
    >>> class Plain:
    ...     def start(self, G):
    ...         return None
    ...     def weights(self, G, memory):
    ...         return lr.geometry.Weights(), None
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RCG(Plain())).converged
    True
    """

    def start(self, G: Gradient) -> Any:
        """The memory before the first iteration."""

    def weights(self, G: Gradient, memory: Any) -> tuple[Weights, Any]:
        """The weights at the point where G was taken, and the memory for the next iteration."""


METRIC = with_methods("start", "weights", what="a metric such as lorank.metrics.RowColumn()")


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
