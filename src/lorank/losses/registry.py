"""Losses by name."""

from __future__ import annotations

from typing import Any, TypeVar

from ..common.checks import did_you_mean
from .discrete import Logistic, Ordinal, Poisson
from .loss import Loss
from .robust import Absolute, Cauchy, Huber, Tukey

SQUARES = "squares"
ROBUST = "robust"  # least squares with outlier detection: a solver, not a loss
LOSSES: dict[str, type[Loss]] = {}  # without "squares": least squares has kernels of its own

LossType = TypeVar("LossType", bound=type[Loss])


def register_loss(kind: LossType) -> LossType:
    """Make a loss available by its name: ``loss=kind.name`` is then ``kind()``. Can be used as a class decorator.

    Parameters
    ----------
    kind : type
        Subclass of :class:`Loss` with a ``name`` of its own, and defaults for all parameters.

    Returns
    -------
    type
        The same class.

    Raises
    ------
    ValueError
        For a class that is no loss, or whose name is taken.

    Examples
    --------
    >>> from lorank.losses import Loss, register_loss
    >>> @register_loss
    ... class LogCosh(Loss):
    ...     name = "log-cosh"
    ...     def value(self, xp, d, y):
    ...         return abs(d) + xp.log1p(xp.exp(-2 * abs(d))) - 0.6931471805599453
    ...     def slope(self, xp, d, y):
    ...         return xp.tanh(d)
    ...     def curvature(self, xp, d, y):
    ...         return 1 - xp.tanh(d) ** 2
    >>> type(resolve_loss("log-cosh")).__name__
    'LogCosh'
    >>> _ = LOSSES.pop("log-cosh")
    """
    if not (isinstance(kind, type) and issubclass(kind, Loss)):
        raise ValueError(f"register_loss takes a subclass of lorank.losses.Loss, got {kind!r}")
    if kind.name in (SQUARES, ROBUST, Loss.name) or LOSSES.get(kind.name, kind) is not kind:
        raise ValueError(f"register_loss: the name {kind.name!r} is taken: give {kind.__name__} a name of its own")
    LOSSES[kind.name] = kind
    return kind


for _kind in (Huber, Absolute, Tukey, Cauchy, Logistic, Ordinal, Poisson):
    register_loss(_kind)


def resolve_loss(loss: Any) -> Loss | None:
    """Loss from a name or an instance; None for least squares.

    Examples
    --------
    >>> resolve_loss("huber")
    Huber(threshold=1.345, scale=None, breakdown=0.25)
    >>> resolve_loss("squares") is None
    True
    """
    if loss is None or (isinstance(loss, str) and loss == SQUARES):
        return None
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]()
    if isinstance(loss, Loss):
        return loss
    known = (SQUARES, *LOSSES, ROBUST)
    hint = f"the class {loss.__name__} itself: write {loss.__name__}()" if isinstance(loss, type) else repr(loss)
    raise ValueError(
        f"loss must be one of {', '.join(map(repr, known))}, or an object such as lorank.losses.Huber(scale=1.0): got {hint}"
        + did_you_mean(loss, known)
    )


def loss_from(parameters: dict[str, Any] | None) -> Loss | None:
    """Loss from :meth:`Loss.parameters`, as model files store them; None for None."""
    if parameters is None:
        return None
    given = {key: tuple(a) if isinstance(a, list) else a for key, a in parameters.items() if key != "name"}
    if parameters["name"] not in LOSSES:
        raise ValueError(f"unknown loss {parameters['name']!r}: call lorank.losses.register_loss with its class first")
    return LOSSES[parameters["name"]](**given)
