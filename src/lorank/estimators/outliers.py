"""Outliers among the observations that an estimator is fitted to."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from ..backends import Array, backend_of, get_backend
from ..factorization.model import FactorModel
from ..loop.result import OutlierWarning
from ..losses.residual_tails import NORMAL_MEDIAN, look_like_outliers, quantile

SIGMAS, ROUNDS = 4.0, 3
FITTED = 1e-3  # of the values' range: deviations that are all smaller are no gross errors
LOOKED_AT = 250_000  # observations, of more every so many-th: enough to see a tail in


def find_outliers(model: Any, pairs: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Which values are far from what the others say: fitted by Tukey's loss, which large deviations do not move, then by least
    squares without those beyond four standard deviations of the rest, until they stay the same.

    Parameters
    ----------
    model : MatrixCompletion
    pairs : (m, 2) array
    values : (m,) array
    weights : (m,) array or None

    Returns
    -------
    (m,) bool array
    """
    wrong, rank = np.zeros(len(values), bool), model.rank
    counts = np.ones(len(values), bool) if weights is None else weights > 0  # others are never wrong
    for k in range(ROUNDS):
        settings = {"loss": "squares" if k else "tukey", "intervals": False, "rank": rank, "handle_unknown": "ignore"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of parts of the data: the fit itself says what there is to say
            trial = clone(model).set_params(**settings)
            trial.fit(pairs[~wrong], values[~wrong], None if weights is None else weights[~wrong])
            d, rank = values - trial.predict(pairs), trial.rank_
        if weights is not None:  # they say how large a deviation may be
            d = d * np.sqrt(weights)
        scale = quantile(d[~wrong & counts], 0.5, get_backend("reference")) / NORMAL_MEDIAN
        before, wrong = wrong, abs(d) > SIGMAS * scale
        if wrong[counts].mean() > 0.5:
            raise ValueError(
                "loss='robust': more than half of the values are far from any fit. Raise the rank, or use loss='squares'"
            )
        if k and np.array_equal(before, wrong):
            break
    return wrong


def warn_about_outliers(model: FactorModel, rows: Array, cols: Array, values: Array, weights: Array | None) -> None:
    """A warning where what a fit by squares leaves over looks as if some values were grossly wrong."""
    step = max(1, len(values) // LOOKED_AT)
    some = [backend_of(a).to_numpy(a[::step]) for a in (rows, cols)]
    values = backend_of(values).to_numpy(values[::step])
    d = values - model.predict(*some)
    if weights is not None:  # they say how large a deviation may be
        weights = backend_of(weights).to_numpy(weights[::step])
        d, values = (d * np.sqrt(weights))[weights > 0], values[weights > 0]
    off = values - np.median(np.sort(values))
    if np.abs(d).max(initial=0.0) <= FITTED * np.abs(off).max(initial=0.0):  # all is fitted, and what is left has its own tails
        return
    share = look_like_outliers(d, off, 0.0, get_backend("reference"), noise=False)
    if share:
        warnings.warn(
            f"the data look as if some values were grossly wrong: {share:.2%} of them are far out and far from the fit, which "
            "follows them. Fit with loss='robust' to find them (outliers_) and leave them out",
            OutlierWarning,
            stacklevel=3,
        )
