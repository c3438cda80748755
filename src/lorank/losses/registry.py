"""Losses by name."""

from __future__ import annotations

from typing import Any

from ..common.checks import did_you_mean
from .absolute import Absolute
from .cauchy import Cauchy
from .huber import Huber
from .logistic import Logistic
from .loss import Loss
from .ordinal import Ordinal
from .poisson import Poisson
from .tukey import Tukey

SQUARES = "squares"
ROBUST = "robust"  # squares for all but outliers, which a solver of its own finds
LOSSES: dict[str, type[Loss]] = {
    kind.name: kind for kind in (Huber, Absolute, Tukey, Cauchy, Logistic, Ordinal, Poisson)
}  # beside "squares", which is no object: least squares have passes of their own


def resolve_loss(loss: Any) -> Loss | None:
    """A loss from its name or itself; None for least squares.

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
    """The loss of which :meth:`Loss.parameters` gave these: how a model file brings it back."""
    if parameters is None:
        return None
    given = {key: tuple(a) if isinstance(a, list) else a for key, a in parameters.items() if key != "name"}
    return LOSSES[parameters["name"]](**given)
