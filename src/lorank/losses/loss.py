"""Pointwise losses: the interface of a loss, and the squared loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..backends import Array, Arrays, Vector, entrywise, total


class Loss(ABC):
    """Loss of one entry: compares the prediction z with the observed value y.

    A subclass defines three functions of arrays of residuals ``d = z - y`` and observed values y: :meth:`value`, :meth:`slope`
    and :meth:`curvature`. They are computed entry by entry, with ``xp`` the module of the arrays (``numpy`` or ``torch``).
    Residuals are passed instead of predictions because they have more correct digits near a solution that fits the data.
    :class:`~lorank.losses.Objective` adds the losses of all entries up.

    An instance can be used at once, as in ``Completion(..., loss=MyLoss())``; :func:`~lorank.losses.register_loss` makes it
    available by name.

    Attributes
    ----------
    name : str
        Name in the registry, in messages and in model files.
    discrete : bool
        The values are classes or counts, so that z and y have different units. Default False.
    redescending : bool
        The slope tends to 0 for large residuals; the objective may have local minima. Default False.
    takes_complex : bool
        Complex values are allowed. Default False.
    exact_means : bool
        Repeated observations can be replaced by their weighted mean without changing the minimizer. Default False.
    unit_curvature : bool
        The curvature is 1 at small residuals. Default False.
    ridge : float
        ``ridge |z|^2 / 2`` is added for each observation. It keeps predictions finite where the loss alone has no minimizer
        (separable classes, rows with zero counts only). Default 0.

    Examples
    --------
    >>> import numpy as np, lorank as lr
    >>> class FourthPower(lr.losses.Loss):
    ...     name = "fourth power"
    ...     def value(self, xp, d, y):
    ...         return d**4 / 4
    ...     def slope(self, xp, d, y):
    ...         return d**3
    ...     def curvature(self, xp, d, y):
    ...         return 3 * d**2
    >>> problem = lr.Completion([0, 0, 1], [0, 1, 0], [1.0, 2.0, 3.0], loss=FourthPower())
    >>> problem.objective.slope(np.array([1.0, -2.0, 0.0]), problem.y)
    array([ 1., -8.,  0.])
    """

    name: ClassVar[str] = "custom"
    discrete: ClassVar[bool] = False
    redescending: ClassVar[bool] = False
    takes_complex: ClassVar[bool] = False
    exact_means: ClassVar[bool] = False
    unit_curvature: ClassVar[bool] = False
    ridge: float = 0.0

    # -- entry by entry ------------------------------------------------------------------------------------------------
    @abstractmethod
    def value(self, xp: Any, d: Array, y: Array) -> Array:
        """Loss of each entry, at least 0, without the ridge."""

    @abstractmethod
    def slope(self, xp: Any, d: Array, y: Array) -> Array:
        """Derivative in z, without the ridge."""

    @abstractmethod
    def curvature(self, xp: Any, d: Array, y: Array) -> Array:
        """Nonnegative second derivative, or an upper bound used by Gauss-Newton steps; without the ridge."""

    def majorizer_weight(self, xp: Any, d: Array, y: Array) -> Array:
        """Curvature of a parabola that touches the loss at d and lies above it; by default :meth:`curvature`."""
        return self.curvature(xp, d, y)

    # -- data and predictions --------------------------------------------------------------------------------------------
    def prepare(self, values: Array, backend: Arrays) -> tuple[Array, Self]:
        """Check the observed values; return them in the encoding of the loss, and the loss with what it has to know of them.

        Raises
        ------
        ValueError
            For values that the loss does not take, with the first of them and a remedy.
        """
        return values, self

    def encode(self, values: Array) -> Array:
        """Further observed values in the encoding of a loss that :meth:`prepare` returned."""
        return values

    def mean(self, z: np.ndarray) -> np.ndarray:
        """Expected value of y for the prediction z (inverse link)."""
        return z

    def intercept(self, average: float) -> float | None:
        """Best constant prediction for values with that average; None where it is zero or unknown."""
        return None

    # -- sums over all entries -------------------------------------------------------------------------------------------
    def fit_parameters(self, d: Vector, y: Vector, near: Any = None, weights: Vector | None = None) -> Self:
        """Loss with its free parameters (scale, thresholds) fitted to these residuals, starting from those of ``near``."""
        return self

    def noise(self, d: Vector, y: Vector, dof: float, weights: Vector | None = None) -> float:
        """Noise level of the residuals of a fit with ``dof`` degrees of freedom.

        By default the root of Pearson's dispersion, which is 1 for data that follow the model.
        """

        def pearson(xp: Any, d: Array, y: Array) -> tuple[Array]:
            curve = self.curvature(xp, d, y)
            return (self.slope(xp, d, y) ** 2 / (curve + (curve == 0)),)

        return math.sqrt(weighted_total(pearson, weights, d, y)[0] / max(len(y) - dof, 1.0))

    def for_held_out(self, fitted: Loss, d: Vector, y: Vector, weights: Vector | None = None) -> Loss:
        """Loss by which held-out residuals are compared; ``fitted`` has the parameters of the fit."""
        return fitted

    def parameters(self) -> dict[str, Any]:
        """Name and parameters as a JSON object; :func:`~lorank.losses.loss_from` reads it."""
        names: list[str] = [f.name for f in fields(self)] if is_dataclass(self) else []
        return {"name": self.name, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """Squared loss ``|d|^2 / 2``.

    Examples
    --------
    >>> import numpy as np
    >>> SquaredLoss().value(np, np.array([1.0, -2.0]), np.zeros(2))
    array([0.5, 2. ])
    """

    name: ClassVar[str] = "squares"
    takes_complex: ClassVar[bool] = True
    exact_means: ClassVar[bool] = True
    unit_curvature: ClassVar[bool] = True

    def value(self, xp: Any, d: Array, y: Array) -> Array:
        return abs(d) ** 2 / 2

    def slope(self, xp: Any, d: Array, y: Array) -> Array:
        return d

    def curvature(self, xp: Any, d: Array, y: Array) -> Array:
        return 0 * abs(d) + 1


def weighted(function: Callable[..., Array], weights: Vector | None, *vectors: Vector) -> Vector:
    """``weights * function(xp, *vectors)`` entry by entry."""
    if weights is None:
        return entrywise(function, *vectors)
    return entrywise(lambda xp, *v: v[-1] * function(xp, *v[:-1]), *vectors, weights)


def weighted_total(function: Callable[..., tuple[Array, ...]], weights: Vector | None, *vectors: Vector) -> np.ndarray:
    """Weighted sum of each array that ``function(xp, *vectors)`` returns."""
    if weights is None:
        return total(function, *vectors)
    return total(lambda xp, *v: [v[-1] * one for one in function(xp, *v[:-1])], *vectors, weights)


def first_bad(flags: Array, values: Array, backend: Arrays) -> tuple[int, float]:
    """Position of the first true flag, and the value there."""
    k = backend.first_true(flags)
    return k, float(values[k])
