"""Folds: training and held-out observations, in main memory or on other backends."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..backends import Array, backend_of
from ..backends.observations import held_out
from ..losses import Loss, Objective, Ordinal
from ..problems import Completion
from .factors import Factors
from .fit import Fit, Settings, centred, centred_problem
from .model import FactorModel

Bounds = tuple[float, float] | None
MAX_COVARIANCE_BYTES = 1 << 30  # that a model keeps
MAX_CALIBRATION = 1_000_000  # held-out observations that calibrate intervals, where they are not in main memory


class Fold(Protocol):
    """Training and held-out observations."""

    def problem(self, settings: Settings) -> tuple[Completion, float]:
        """The problem of the centred training values, and their mean."""
        ...

    def error(self, problem: Completion, mean: float, factors: Factors, loss: Loss | None) -> float:
        """Root mean squared error on the held-out observations; with a loss, root of the mean deviance."""
        ...

    def assess(self, fit: Fit) -> np.ndarray:
        """Held-out values, their predictions, and predictive standard deviations: three rows."""
        ...


class Observed(NamedTuple):
    """Observations as NumPy arrays or arrays of a device."""

    rows: Array
    cols: Array
    values: Array
    shape: tuple[int, int]
    weights: Array | None = None

    def part(self, flags: Array) -> Observed:
        at = backend_of(flags).flatnonzero(flags)  # indices are faster than flags
        weights = None if self.weights is None else self.weights[at]
        return Observed(self.rows[at], self.cols[at], self.values[at], self.shape, weights)


@dataclass(frozen=True)
class ArrayFold:
    """Observations in arrays, and flags of the held-out ones."""

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

    def assess(self, fit: Fit) -> np.ndarray:
        hidden = self._hidden
        return _assess(fit, fit.model, hidden.rows, hidden.cols, hidden.values, self.bounds)


@dataclass(frozen=True)
class SplitFold:
    """Two problems with the same rows and columns, on any backend."""

    kept: Completion
    held: Completion
    bounds: Bounds

    def problem(self, settings: Settings) -> tuple[Completion, float]:
        return centred(self.kept, settings.biases)

    def error(self, problem: Completion, mean: float, factors: Factors, loss: Loss | None) -> float:
        z = self.held.forward(factors.rows, factors.cols) + mean
        return held_out_error(loss, z, self.held.y, self.held.observations.weights, self.bounds)

    def assess(self, fit: Fit) -> np.ndarray:
        """For a sample of them, in main memory."""
        rows, cols, values, _ = some_of(self.held, MAX_CALIBRATION)
        if isinstance(fit.loss, Ordinal):  # whose classes are encoded
            values = np.array(fit.loss.classes)[values.astype(int)]
        return _assess(fit, in_main_memory(fit.model), rows, cols, values, self.bounds)


def split_fold(problem: Completion, share: float, seed: int, bounds: Bounds) -> SplitFold:
    """Hold out a share of a problem's observations, on its backend."""
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
    """A model as NumPy arrays; too large covariances are dropped, and predictive standard deviations are then those of the
    noise.
    """
    model = model.host()
    covs = (model.row_cov, model.col_cov)
    if sum(8 * a.shape[0] * a.shape[1] for a in covs if a is not None) > MAX_COVARIANCE_BYTES:
        return replace(model, row_cov=None, col_cov=None)
    row, col = (None if a is None else backend_of(a).to_numpy(a) for a in covs)
    return replace(model, row_cov=row, col_cov=col)


def _assess(fit: Fit, model: FactorModel, rows: Array, cols: Array, values: Array, bounds: Bounds) -> np.ndarray:
    guess, spread = model.predict(rows, cols), model.spread(rows, cols)
    if fit.loss is not None and fit.loss.discrete:  # the uncertainty is in the probabilities
        guess = fit.loss.mean(backend_of(guess).to_numpy(guess))
        spread = np.full(len(guess), np.nan)
    return np.stack([backend_of(a).to_numpy(a) for a in (values, clipped(guess, bounds), spread)])


def held_out_error(loss: Loss | None, z: Array, y: Array, weights: Array | None, bounds: Bounds = None) -> float:
    """Root mean squared error of held-out observations; with a loss, root of their mean deviance."""
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
