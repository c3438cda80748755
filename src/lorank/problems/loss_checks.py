"""Checks of observations that a loss other than least squares asks for."""

from __future__ import annotations

from typing import Any

from ..backends import Array, backend_of
from ..common.checks import ParameterError
from ..losses import Loss
from .entry_checks import value_array


def check_merging(loss: Loss | None, duplicates: str, weighted: bool) -> None:
    """A ValueError where repeated observations cannot be made one in that way."""
    if weighted and duplicates == "sum":
        raise ValueError("duplicates='sum' has no meaning with weights: use 'mean' or 'last'")
    if loss is None or not loss.discrete or duplicates in ("error", "last"):
        return
    if (duplicates == "mean" and loss.exact_means) or (duplicates == "sum" and loss.name == "poisson"):
        return
    what = {"mean": "the mean of classes is no class", "sum": "the sum of classes is no class"}[duplicates]
    raise ValueError(f"duplicates={duplicates!r} has no meaning with loss={loss.name!r}, {what}: use 'last'")


def with_exposure(loss: Loss | None, exposure: Any, values: Array, weights: Any) -> tuple[Array, Array]:
    """Counts with exposures as rates and weights: ``e exp(z) - y z`` is e times ``exp(z) - (y / e) z``."""
    if loss is None or loss.name != "poisson":
        raise ParameterError("exposure", "is for counts, loss='poisson': leave it out, or divide the values by it")
    e = value_array(exposure, "exposure")
    backend = backend_of(values)
    e = backend.astype(backend.asarray(e), backend.dtype(values))
    if len(e) != len(values):
        raise ValueError(f"exposure and values must be alike in length: got {len(e):,} and {len(values):,}")
    bad = ~((e > 0) & (e < float("inf")))
    if bad.any():
        k = backend.first(bad)
        raise ValueError(f"exposure[{k}] = {float(e[k])}: exposures are positive numbers; leave out what was not looked at")
    return values / e, e if weights is None else e * backend.asarray(value_array(weights, "weights"))
