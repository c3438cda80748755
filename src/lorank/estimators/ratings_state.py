"""What a fitted MatrixCompletion predicts: at pairs, with probabilities or intervals, and for rows that are new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..common.checks import ParameterError
from ..factorization import FactorModel
from ..factorization.folds import clipped
from ..losses import Logistic, Loss, Objective, Ordinal
from .cold_start import foreseen, told_by
from .entries import find_pairs
from .fitting import refuse_intervals, refuse_negative
from .inputs import check_values
from .recommendation import RecommenderMixin

if TYPE_CHECKING:
    from .matrix_completion import MatrixCompletion

FOLD_SWEEPS = 50


class FoldIn(NamedTuple):
    """A new row: its factors (k,), and predictions for all columns (n2,)."""

    factors: np.ndarray
    predictions: np.ndarray


class PredictionMixin(RecommenderMixin):
    """Entries, probabilities, intervals and new rows, of a model whose rows and columns may have ids."""

    model_: FactorModel
    loss_: Loss | None
    bounds: tuple[float, float] | None
    calibration_: np.ndarray
    calibration_size_: int

    def predict(self, X: Any) -> np.ndarray:
        """The entries at index pairs.

        A row or column that was not observed in ``fit`` is predicted as an average one, from the biases (and what factors
        average rows have); a warning says how often, and :meth:`known` where (see ``handle_unknown``).

        Parameters
        ----------
        X : (m, 2) array, list of pairs, or data frame
            Index pairs, or ids after a fit to ids. Of a data frame, the columns named as in ``fit``, or its two columns.
        """
        rows, cols = self._pairs(X)
        self._mind_unknown(
            foreseen(cast("MatrixCompletion", self), rows, cols),
            "pair",
            ("has", "have"),
            "a row or column that was never observed",
        )
        return self._expected(self.model_.predict(rows, cols))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class at index pairs, an (m, classes) array in the order of ``classes_``.

        With ``loss="logistic"`` or ``"ordinal"``.
        """
        rows, cols = self._pairs(X)
        z = self.model_.predict(rows, cols)
        if isinstance(self.loss_, Logistic):
            one = self.loss_.mean(z)
            return np.column_stack([1 - one, one])
        if isinstance(self.loss_, Ordinal):
            return self.loss_.probabilities(z)
        name = "squares" if self.loss_ is None else self.loss_.name
        raise ValueError(f"loss={name!r} has no classes: fit with loss='logistic' or 'ordinal', or use predict")

    def known(self, X: Any) -> np.ndarray:
        """Whether the row and the column of each pair were observed in ``fit``."""
        return self.model_.known(*self._pairs(X))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Bounds between which a share ``coverage`` of new observations falls.

        Split conformal prediction: the errors of held-out observations, each in units of its predicted spread, say how many
        spreads wide an interval has to be. They were predicted by a fit to the other observations; the model itself is
        fitted to all of them, so that intervals are if anything a little too wide.

        Returns
        -------
        low, high : (m,) arrays
        """
        check_is_fitted(self)
        refuse_intervals(self.loss_)
        if not 0 < coverage < 1:
            raise ParameterError("coverage", f"must lie between 0 and 1, got {coverage!r}")
        if not len(self.calibration_):
            raise ValueError("no observations were held out to calibrate intervals: fit with intervals=True")
        rows, cols = self._pairs(X)
        level = min(1.0, np.ceil((self.calibration_size_ + 1) * coverage) / self.calibration_size_)
        width = float(np.interp(level, np.linspace(0, 1, len(self.calibration_)), self.calibration_))
        middle = clipped(self.model_.predict(rows, cols), self.bounds)
        half = width * self.model_.spread(rows, cols)
        return clipped(middle - half, self.bounds), clipped(middle + half, self.bounds)

    def fold_in(self, cols: Any, values: Any, *, features: Any = None) -> FoldIn:
        """A new row from some of its entries, or none, and what is known of it, without fitting again.

        Parameters
        ----------
        cols : (m,) array
            Indices of columns, or their ids; known ones.
        values : (m,) array
        features : data frame of one line, (d,) or (1, d) array, or dict, optional
            After a fit with ``row_features``: those of the new row.
        """
        check_is_fitted(self)
        means = None if features is None else told_by(cast("MatrixCompletion", self), features)
        values = check_values(values, "values")
        cols = self._places(cols, "cols")
        if len(cols) != len(values):
            raise ValueError("fold_in takes a list of columns and as many values")
        cols, group = np.unique(cols, return_inverse=True)
        if self.loss_ is not None and self.loss_.discrete:
            values = self.loss_.encode(values)
        refuse_negative(cast("MatrixCompletion", self), values)
        values = np.bincount(group, values) / np.bincount(group) if len(cols) else values
        factors = self._folded(cols, values, means)
        return FoldIn(factors, self._expected(self.model_.mean + self.model_.cols @ factors))

    def _folded(self, cols: np.ndarray, values: np.ndarray, means: np.ndarray | None = None) -> np.ndarray:
        """The factors of a new row; with a loss, by reweighted least squares."""
        model, at = self.model_, np.array([0, len(cols)])
        if not len(cols):
            return model.unseen_factors(False) if means is None else model.unseen_factors(False) + means
        if self.loss_ is None:
            return model.fold_in(at, cols, values, means=means)[0]
        factors = model.fold_in(np.array([0, 0]), cols[:0], values[:0], means=means)[0]
        for _ in range(FOLD_SWEEPS):
            d = model.mean + model.cols[cols] @ factors - values
            weights, responses = Objective(self.loss_.fit_parameters(d, values)).majorizer(d, values)
            before, factors = factors, model.fold_in(at, cols, responses, weights, means=means)[0]
            if np.abs(factors - before).max() < 1e-6:
                break
        return factors

    def _expected(self, z: np.ndarray) -> np.ndarray:
        """Predictions from entries of the matrix."""
        return clipped(z if self.loss_ is None else self.loss_.mean(z), self.bounds)

    def _pairs(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        return find_pairs(X, self.ids_, self.labels_)
