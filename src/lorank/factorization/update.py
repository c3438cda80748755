"""A fitted model that learns more observations: the rows and columns that they touch are solved again, and no others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..backends import backend_of, get_backend
from ..losses import Loss, Objective
from ..problems import Completion
from .factors import fixed_coordinate
from .feature_priors import shifted
from .model import FactorModel
from .training_data import Growth, TrainingData

SHARE = 1 / 32  # of a column's observations: when so many of them are new, it is solved again

TINY = 1e-10  # of the largest eigenvalue: what keeps equations regular whose prior says nothing
AGAIN = 1  # more rounds for rows and columns that are new


@dataclass(frozen=True)
class Update:
    """One pass over what has changed, with the priors, the noise and the mean of the fit.

    Columns that are new are found from the rows that have observations in them. Then each row with new observations is solved
    again from all of them, given the columns: the minimiser, as in a sweep of the fit. Then columns, given the rows, but only
    those of whose observations a good part is new: a column that thousands have rated hardly moves for a few more, and pays its
    debt when there are enough of them.

    Attributes
    ----------
    loss : Loss or None
        As it was learned; None for least squares.
    count_scaling : float
        The power of counts in penalties (see :class:`~lorank.factorization.RegularizedALS`).
    share : float
        How much of a column must be new.
    """

    loss: Loss | None = None
    count_scaling: float = 0.0
    share: float = SHARE

    def __call__(
        self, model: FactorModel, memory: TrainingData, rows: np.ndarray, pending: np.ndarray, grown: Growth
    ) -> tuple[FactorModel, np.ndarray]:
        """The model with all that is in its memory now, and what it still owes its columns.

        Parameters
        ----------
        model : FactorModel
            Of before.
        memory : TrainingData
            With the new observations.
        rows : integer array
            Those with new observations, each once and rising.
        pending : (n2,) integer array
            New observations of columns, those of earlier updates included that were not enough then.
        grown : Growth
        """
        model = model.grown(*grown)
        counts = np.diff(memory.entries.indptr), np.bincount(memory.entries.indices, minlength=grown.shape[1])
        before = model.row_counts, model.col_counts
        new_rows, new_cols = (np.flatnonzero((a > 0) & (b == 0)) for a, b in zip(counts, before, strict=True))
        model = replace(model, row_counts=counts[0], col_counts=counts[1])
        rows = rows[counts[0][rows] > 0]  # what has no weight was not observed: strangers stay what they are
        due = (pending > 0) & (pending >= self.share * model.col_counts) & (model.col_counts > 0)
        self._solve(model, memory, new_cols, True)
        self._solve(model, memory, rows, False)
        self._solve(model, memory, np.flatnonzero(due), True)
        for _ in range(AGAIN):  # these are few, and begin far from where they end
            self._solve(model, memory, new_rows, False)
            self._solve(model, memory, new_cols, True)
        return model, np.where(due, 0, pending)

    def _solve(self, model: FactorModel, memory: TrainingData, at: np.ndarray, columns: bool) -> None:
        """Rows (columns) at these places, in the model's own arrays."""
        if not len(at):
            return
        part = memory.some_cols(at, model.shape[1]) if columns else memory.some_rows(at)
        own, other = ("col", "row") if columns else ("row", "col")
        mine, theirs = getattr(model, f"{own}s"), getattr(model, f"{other}s")
        major = np.repeat(at, np.diff(part.indptr))
        values, weights = part.values - model.mean, part.weights
        if self.loss is not None:
            d = np.einsum("ij,ij->i", mine[major], theirs[part.indices]) - values
            given = weights
            weights, values = Objective(self.loss, given).majorizer(d, part.values)
            values = values - model.mean
            if not self.loss.discrete and len(values):
                weights = weights * ((len(values) if given is None else given.sum()) / max(weights.sum(), 1e-300))
        for noise, index in ((getattr(model, f"{own}_noise"), major), (getattr(model, f"{other}_noise"), part.indices)):
            if noise is not None:
                weights = noise[index] * (1.0 if weights is None else weights)
        backend = get_backend()
        passes = backend.make_observations(part.indptr.astype(np.int64), part.indices.astype(np.int32), values, len(theirs))
        if model.nonnegative:
            scale = self._scale(getattr(model, f"{own}_counts"), at)
            mine[at] = model.solve_nonnegative(passes, columns, weights, 1.0 if scale is None else scale)
            return
        cov = getattr(model, f"{own}_cov")
        found, covariance, left = passes.normal_equations(
            False,
            theirs,
            getattr(model, f"{own}_precision"),
            getattr(model, f"{own}_shift"),
            moments=getattr(model, f"{other}_cov"),
            weights=weights,
            scale=self._scale(getattr(model, f"{own}_counts"), at),
            fixed=fixed_coordinate(theirs.shape[1], columns, model.biases),
            noise=model.noise,
            covariance=cov is not None,
        )
        means = getattr(model, f"{own}_means")
        if means is not None and covariance is not None:
            prior = getattr(model, f"{own}_precision"), getattr(model, f"{own}_shift")
            found, _ = shifted(found, covariance, left, prior, means[at], model.noise)
        mine[at] = found
        if cov is not None:
            cov[at] = covariance

    def _scale(self, counts: np.ndarray, at: np.ndarray) -> Any:
        """Factors on the penalties of these."""
        if not self.count_scaling:
            return None
        return (np.maximum(counts[at], 1) / max(counts[counts > 0].mean(), 1)) ** self.count_scaling


def add_unseen(problem: Completion, model: FactorModel) -> FactorModel:
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
        found |= {f"{side}_unseen": shift, f"{side}s": factors}
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
    free = np.arange(k) != fixed_coordinate(k, columns, model.biases)
    v = others[:, free]
    equations = (v * counts[:, None]).T @ v + precision[np.ix_(free, free)] / model.noise
    equations += TINY * max(float(np.trace(equations)), 1e-300) * np.eye(len(equations))
    shift = np.zeros(k)
    shift[free] = np.linalg.solve(equations, v.T @ sums)
    return shift
