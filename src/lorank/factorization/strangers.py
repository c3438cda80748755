"""Rows and columns of which no observation is known.

The prior's mean is that of all rows, each counting once. But what a stranger is going to rate is like what the others have
rated: who rates much counts for more, and what is rated at all is liked more than what is not. So strangers have the prior's
mean (with features, what these foretell) and a shift, the same for all: the one with which the observations are predicted best
where every row is predicted as if it were a stranger.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..backends import backend_of
from ..problems import Completion
from .als import held
from .model import FactorModel

TINY = 1e-10  # of the largest eigenvalue: what keeps equations regular whose prior says nothing


def with_strangers(problem: Completion, model: FactorModel) -> FactorModel:
    """The model with what strangers have beyond the prior's mean, and with those among its rows and columns moved there.

    Parameters
    ----------
    problem : Completion
        Of the values less the model's mean, by squares.
    model : FactorModel
        In main memory.
    """
    found: dict[str, Any] = {}
    for side, other in (("row", "col"), ("col", "row")):
        shift = _shift(problem, model, side, getattr(model, f"{other}s"))
        factors = np.array(getattr(model, f"{side}s"))
        factors[getattr(model, f"{side}_counts") == 0] += shift
        found |= {f"{side}_stranger": shift, f"{side}s": factors}
    return replace(model, **found)


def _shift(problem: Completion, model: FactorModel, side: str, others: np.ndarray) -> np.ndarray:
    """Least squares over all observations, with the prior of one row."""
    columns, backend, observed = side == "col", problem.backend, problem.observations
    precision, prior = getattr(model, f"{side}_precision"), getattr(model, f"{side}_shift")
    means = getattr(model, f"{side}_means")
    own = np.tile(model._default(precision, prior, columns), (problem.shape[columns], 1))
    own = backend.asarray(own if means is None else own + means)
    left, right = (backend.asarray(others), own) if columns else (own, backend.asarray(others))
    left_over = problem.y - problem.forward(left, right)
    if observed.weights is not None:
        left_over = left_over * observed.weights
    across = 0 if columns else 1
    counts, sums = (
        np.asarray(backend_of(a).to_numpy(a), float) for a in (problem.counts()[across], observed.sums(left_over, across))
    )
    k = others.shape[1]
    free = np.arange(k) != held(k, columns, model.offsets)
    v = others[:, free]
    equations = (v * counts[:, None]).T @ v + precision[np.ix_(free, free)] / model.noise
    equations += TINY * max(float(np.trace(equations)), 1e-300) * np.eye(len(equations))
    shift = np.zeros(k)
    shift[free] = np.linalg.solve(equations, v.T @ sums)
    return shift
