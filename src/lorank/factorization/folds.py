"""Folds: observations to fit, and others, held out, to judge the fit by."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..backends import Array, backend_of
from ..backends.hold_out import held_out
from ..losses import Loss, Objective, Ordinal
from ..problems import Completion
from .factors import Factors
from .fit import Fit, Settings, centred, centred_problem
from .model import FactorModel

Bounds = tuple[float, float] | None
COVARIANCES = 1 << 30  # bytes of covariances that a model keeps
JUDGED = 1_000_000  # held-out observations at most that calibrate intervals, where observations are not in main memory


class Fold(Protocol):
    """Part of the observations to fit, the others to judge by."""

    def problem(self, settings: Settings) -> tuple[Completion, float]:
        """The problem to fit, of values less their mean, and the mean."""
        ...

    def error(self, problem: Completion, mean: float, factors: Factors, loss: Loss | None) -> float:
        """The root mean squared error of factors on what was held out; with a loss, the root of the mean deviance."""
        ...

    def judged(self, fit: Fit) -> np.ndarray:
        """Values held out, what a fit predicts for them, and how far off it expects to be: three rows."""
        ...


class Observed(NamedTuple):
    """Observations where they are to be fitted: NumPy's arrays, or a device's."""

    rows: Array
    cols: Array
    values: Array
    shape: tuple[int, int]
    weights: Array | None = None

    def part(self, flags: Array) -> Observed:
        at = backend_of(flags).flatnonzero(flags)  # once: flags are slower to follow than places
        weights = None if self.weights is None else self.weights[at]
        return Observed(self.rows[at], self.cols[at], self.values[at], self.shape, weights)


@dataclass(frozen=True)
class ArrayFold:
    """Arrays, and flags of those that are held out."""

    data: Observed
    part: Array
    bounds: Bounds

    @cached_property
    def _hidden(self) -> Observed:
        return self.data.part(self.part)

    def problem(self, settings: Settings) -> tuple[Completion, float]:
        return centred_problem(*self.data.part(~self.part), device=settings.device, centre=settings.biases, loss=settings.loss)

    def error(self, problem: Completion, mean: float, factors: Factors, loss: Loss | None) -> float:
        hidden = self._hidden
        z = mean + problem.backend.entries(factors.rows, factors.cols, hidden.rows, hidden.cols)
        y = hidden.values if loss is None else loss.encode(hidden.values)
        return held_out_error(loss, z, y, hidden.weights, self.bounds)

    def judged(self, fit: Fit) -> np.ndarray:
        hidden = self._hidden
        return _judged(fit, fit.model, hidden.rows, hidden.cols, hidden.values, self.bounds)


@dataclass(frozen=True)
class SplitFold:
    """Two problems of the same rows and columns, wherever their observations are."""

    kept: Completion
    held: Completion
    bounds: Bounds

    def problem(self, settings: Settings) -> tuple[Completion, float]:
        return centred(self.kept, settings.biases)

    def error(self, problem: Completion, mean: float, factors: Factors, loss: Loss | None) -> float:
        z = self.held.forward(factors.rows, factors.cols) + mean
        return held_out_error(loss, z, self.held.y, self.held.observations.weights, self.bounds)

    def judged(self, fit: Fit) -> np.ndarray:
        """Of some of them, in main memory."""
        rows, cols, values, _ = some_of(self.held, JUDGED)
        if isinstance(fit.loss, Ordinal):  # whose problem has numbers for the classes
            values = np.array(fit.loss.classes)[values.astype(int)]
        return _judged(fit, in_main_memory(fit.model), rows, cols, values, self.bounds)


def split_fold(problem: Completion, share: float, seed: int, bounds: Bounds) -> SplitFold:
    """Hold out a share of a problem's observations, where they are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observation")
        return SplitFold(*problem.split(np.random.default_rng(seed), share), bounds)


def some_of(problem: Completion, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns, values and weights of about ``most`` observations, or of all, in main memory."""
    observed: Any = problem.observations
    share = min(1.0, most / problem.m)
    if hasattr(observed, "some"):
        found: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] = observed.some(0, share)
        return found
    indptr, indices, values, weights = observed.host()
    at = np.flatnonzero(held_out(np.arange(len(values)), 0, share))
    weights = np.ones(len(at)) if weights is None else weights[at]
    return np.searchsorted(indptr, at, side="right") - 1, indices[at].astype(np.int64), values[at], weights


def in_main_memory(model: FactorModel) -> FactorModel:
    """A model as NumPy arrays; covariances of very many rows are left out, and what is predicted is only as far off as the
    noise says.
    """
    model = model.host()
    covs = (model.row_cov, model.col_cov)
    if sum(8 * a.shape[0] * a.shape[1] for a in covs if a is not None) > COVARIANCES:
        return model.without_covariance()
    row, col = (None if a is None else backend_of(a).to_numpy(a) for a in covs)
    return replace(model, row_cov=row, col_cov=col)


def _judged(fit: Fit, model: FactorModel, rows: Array, cols: Array, values: Array, bounds: Bounds) -> np.ndarray:
    guess, spread = model.predict(rows, cols), model.spread(rows, cols)
    if fit.loss is not None and fit.loss.discrete:  # no spread of values: what there is to say is in the probabilities
        guess = fit.loss.mean(backend_of(guess).to_numpy(guess))
        spread = np.full(len(guess), np.nan)
    return np.stack([backend_of(a).to_numpy(a) for a in (values, clipped(guess, bounds), spread)])


def held_out_error(loss: Loss | None, z: Array, y: Array, weights: Array | None, bounds: Bounds = None) -> float:
    """The root of the mean squared error of observations that a fit has not seen; with a loss, of their mean deviance."""
    if loss is not None:
        return (
            Objective(loss, weights).held_out_deviance(z - y, y, loss) / float(len(y) if weights is None else weights.sum())
        ) ** 0.5
    squares = (clipped(z, bounds) - y) ** 2
    if weights is None:
        return float(squares.mean()) ** 0.5
    return float((squares * weights).sum() / weights.sum()) ** 0.5


def clipped(values: Array, bounds: Bounds) -> Array:
    return values if bounds is None else values.clip(*bounds)
