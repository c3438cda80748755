"""Updates of fitted models: unseen rows and columns, and more observations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..backends import backend_of, get_backend
from ..losses import Loss, Objective
from ..problems import Completion
from .feature_priors import shifted
from .model import FactorModel
from .training_data import Growth, TrainingData

MIN_NEW_SHARE = 1 / 32  # a column is solved again when this share of its observations is new

TINY = 1e-10  # ridge, relative to the trace, for flat priors
EXTRA_ROUNDS = 1  # for new rows and columns


@dataclass(frozen=True)
class Update:
    """One update of the factors with new observations, with the priors, noise and mean of the fit.

    New columns are solved given the rows with observations in them. Then each row with new observations is solved from all of
    its observations, given the columns. Then columns are solved given the rows, but only those with a sufficient share of new
    observations: a column with thousands of them hardly changes. The others stay pending.

    Attributes
    ----------
    loss : Loss or None
        With its fitted parameters; None for least squares.
    count_scaling : float
        Exponent of counts in penalties (see :class:`~lorank.factorization.RegularizedALS`).
    share : float
        Share of new observations from which a column is solved again.
    """

    loss: Loss | None = None
    count_scaling: float = 0.0
    share: float = MIN_NEW_SHARE

    def __call__(
        self, model: FactorModel, training: TrainingData, rows: np.ndarray, pending: np.ndarray, grown: Growth
    ) -> tuple[FactorModel, np.ndarray]:
        """The updated model, and the numbers of pending observations of columns.

        Parameters
        ----------
        model : FactorModel
            Before the update.
        training : TrainingData
            All observations.
        rows : integer array
            Rows with new observations, ascending.
        pending : (n2,) integer array
            Number of new observations of each column, with those pending from earlier updates.
        grown : Growth
        """
        model = model.grown(*grown)
        counts = np.diff(training.entries.indptr), np.bincount(training.entries.indices, minlength=grown.shape[1])
        before = model.row_counts, model.col_counts
        new_rows, new_cols = (np.flatnonzero((a > 0) & (b == 0)) for a, b in zip(counts, before, strict=True))
        model = replace(model, row_counts=counts[0], col_counts=counts[1])
        rows = rows[counts[0][rows] > 0]  # observations without weight do not count
        due = (pending > 0) & (pending >= self.share * model.col_counts) & (model.col_counts > 0)
        self._solve(model, training, new_cols, True)
        self._solve(model, training, rows, False)
        self._solve(model, training, np.flatnonzero(due), True)
        for _ in range(EXTRA_ROUNDS):  # these are few, and far from converged
            self._solve(model, training, new_rows, False)
            self._solve(model, training, new_cols, True)
        return model, np.where(due, 0, pending)

    def _solve(self, model: FactorModel, training: TrainingData, at: np.ndarray, columns: bool) -> None:
        """Solve rows (columns) at these positions, in the arrays of the model."""
        if not len(at):
            return
        part = training.some_cols(at, model.shape[1]) if columns else training.some_rows(at)
        own, other = model.sides[columns], model.sides[not columns]
        major = np.repeat(at, np.diff(part.indptr))
        values, weights = part.values - model.mean, part.weights
        if self.loss is not None:
            d = np.einsum("ij,ij->i", own.factors[major], other.factors[part.indices]) - values
            given = weights
            weights, values = Objective(self.loss, given).majorizer(d, part.values)
            values = values - model.mean
            if not self.loss.discrete and len(values):
                weights = weights * ((len(values) if given is None else given.sum()) / max(weights.sum(), 1e-300))
        for noise, index in ((own.noise, major), (other.noise, part.indices)):
            if noise is not None:
                weights = noise[index] * (1.0 if weights is None else weights)
        passes = get_backend().make_observations(
            part.indptr.astype(np.int64), part.indices.astype(np.int32), values, len(other.factors)
        )
        scale = self._scale(own.counts, at)
        if model.nonnegative:
            own.factors[at] = model.solve_nonnegative(passes, columns, weights, 1.0 if scale is None else scale)
            return
        found, covariance, left = passes.normal_equations(
            False,
            other.factors,
            own.precision,
            own.shift,
            moments=other.cov,
            weights=weights,
            scale=scale,
            fixed=own.fixed,
            noise=model.noise,
            covariance=own.cov is not None,
        )
        if own.means is not None and covariance is not None:
            found, _ = shifted(found, covariance, left, (own.precision, own.shift), own.means[at], model.noise)
        own.factors[at] = found
        if own.cov is not None:
            own.cov[at] = covariance

    def _scale(self, counts: np.ndarray, at: np.ndarray) -> Any:
        """Scales of the penalties of these rows (columns)."""
        if not self.count_scaling:
            return None
        return (np.maximum(counts[at], 1) / max(counts[counts > 0].mean(), 1)) ** self.count_scaling


def add_unseen(problem: Completion, model: FactorModel) -> FactorModel:
    """The model with shifted factors of rows and columns without observations.

    The prior mean weights all rows equally. But new rows resemble the observations more than the rows: active rows have more
    observations, and columns with many observations have higher values. The shift, the same for all, minimizes the squared
    error of all observations if each row is predicted as an unseen one.

    Parameters
    ----------
    problem : Completion
        Of the centred values, with the squared loss.
    model : FactorModel
        In main memory.
    """
    found: dict[str, Any] = {}
    for columns, name in enumerate(("row", "col")):
        own, shift = model.sides[columns], _shift(problem, model, bool(columns))
        factors = np.array(own.factors)
        factors[own.counts == 0] += shift
        found |= {f"{name}_unseen": shift, f"{name}s": factors}
    return replace(model, **found)


def _shift(problem: Completion, model: FactorModel, columns: bool) -> np.ndarray:
    """Least squares over all observations, with the prior of one row."""
    own, others = model.sides[columns], model.sides[not columns].factors
    backend, observed = problem.backend, problem.observations
    factors = np.tile(own.prior_mean, (problem.shape[columns], 1))
    factors = backend.asarray(factors if own.means is None else factors + own.means)
    left, right = (backend.asarray(others), factors) if columns else (factors, backend.asarray(others))
    left_over = problem.y - problem.forward(left, right)
    if observed.weights is not None:
        left_over = left_over * observed.weights
    across = 0 if columns else 1
    counts, sums = (
        np.asarray(backend_of(a).to_numpy(a), float) for a in (problem.counts()[across], observed.sums(left_over, across))
    )
    free, shift = own.free, np.zeros(len(own.shift))
    v = others[:, free]
    equations = (v * counts[:, None]).T @ v + own.precision[np.ix_(free, free)] / model.noise
    equations += TINY * max(float(np.trace(equations)), 1e-300) * np.eye(len(equations))
    shift[free] = np.linalg.solve(equations, v.T @ sums)
    return shift
