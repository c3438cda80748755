"""A fitted model that learns more observations: the rows and columns that they touch are solved again, and no others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..backends import get_backend
from ..losses import Loss
from .als import held
from .feature_priors import shifted
from .model import FactorModel
from .training_data import Grown, Memory

SHARE = 1 / 32  # of a column's observations: when so many of them are new, it is solved again

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
    scaling : float
        The power of counts in penalties (see :class:`~lorank.factorization.Alternating`).
    share : float
        How much of a column must be new.
    """

    loss: Loss | None = None
    scaling: float = 0.0
    share: float = SHARE

    def __call__(
        self, model: FactorModel, memory: Memory, rows: np.ndarray, owed: np.ndarray, grown: Grown
    ) -> tuple[FactorModel, np.ndarray]:
        """The model with all that is in its memory now, and what it still owes its columns.

        Parameters
        ----------
        model : FactorModel
            Of before.
        memory : Memory
            With the new observations.
        rows : integer array
            Those with new observations, each once and rising.
        owed : (n2,) integer array
            New observations of columns, those of earlier updates included that were not enough then.
        grown : Grown
        """
        model = model.grown(*grown)
        counts = np.diff(memory.entries.indptr), np.bincount(memory.entries.indices, minlength=grown.shape[1])
        before = model.row_counts, model.col_counts
        new_rows, new_cols = (np.flatnonzero((a > 0) & (b == 0)) for a, b in zip(counts, before, strict=True))
        model = replace(model, row_counts=counts[0], col_counts=counts[1])
        rows = rows[counts[0][rows] > 0]  # what has no weight was not observed: strangers stay what they are
        due = (owed > 0) & (owed >= self.share * model.col_counts) & (model.col_counts > 0)
        self._solve(model, memory, new_cols, True)
        self._solve(model, memory, rows, False)
        self._solve(model, memory, np.flatnonzero(due), True)
        for _ in range(AGAIN):  # these are few, and begin far from where they end
            self._solve(model, memory, new_rows, False)
            self._solve(model, memory, new_cols, True)
        return model, np.where(due, 0, owed)

    def _solve(self, model: FactorModel, memory: Memory, at: np.ndarray, columns: bool) -> None:
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
            weights, values = self.loss.majorizer(d, part.values, given)
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
            fixed=held(theirs.shape[1], columns, model.offsets),
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
        if not self.scaling:
            return None
        return (np.maximum(counts[at], 1) / max(counts[counts > 0].mean(), 1)) ** self.scaling
