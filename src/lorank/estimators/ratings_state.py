"""Fitted state of MatrixCompletion, and the predictions that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..backends import Backend
from ..common.checks import ParameterError, check, one_of
from ..factorization import FactorModel
from ..factorization.folds import clipped
from ..factorization.ranking_model import RankingModel
from ..factorization.training_data import TrainingData
from ..losses import Logistic, Loss, Objective, Ordinal
from .features import SideTable, affine, one_line, predict_factors
from .recommendation import RankedState

FOLD_IN_MAX_ITER = 50
ORDERS = ("auto", "affinity", "similarity", "popularity", "rating")


class SVD(NamedTuple):
    """Singular values, and left and right singular vectors as columns."""

    U: np.ndarray
    s: np.ndarray
    V: np.ndarray


class FoldIn(NamedTuple):
    """A new row: its factors (k,), and predictions for all columns (n2,)."""

    factors: np.ndarray
    predictions: np.ndarray


@dataclass(frozen=True)
class RatingsState(RankedState):
    """Everything that predictions, recommendations, ``partial_fit`` and model files need of a fitted MatrixCompletion.

    Attributes
    ----------
    model : FactorModel
        Factors, biases and priors, in main memory.
    loss : Loss or None
        With its fitted parameters; None for least squares.
    bounds : (float, float) or None
        Predictions are clipped to these.
    ids : dict or None
        Ids of ``"rows"`` and ``"cols"`` in ascending order; None after a fit to index pairs.
    labels : dict or None
        Column names of the training data frame: ``"row"``, ``"col"`` and ``"value"``.
    training : TrainingData or None
        The observations; None after a fit to partitions with too many of them.
    features : mapping
        Features of ``"row"`` and ``"col"``, where the fit had some.
    ranking : RankingModel or None
        Implicit-feedback model that orders recommendations, where it was fitted.
    calibration : array
        Quantiles of the normalized errors of held-out observations, for prediction intervals; empty without them.
    calibration_size : int
        Number of held-out observations.
    count_scaling : float
        Exponent of the numbers of observations in the penalty; 0 with learned priors.
    negative_labels : bool
        Whether the classes of a logistic loss are -1 and 1 instead of 0 and 1.
    """

    model: FactorModel
    loss: Loss | None = None
    bounds: tuple[float, float] | None = None
    ids: dict[str, np.ndarray] | None = None
    labels: dict[str, Any] | None = None
    training: TrainingData | None = None
    features: Mapping[str, SideTable] = field(default_factory=dict)
    ranking: RankingModel | None = None
    calibration: np.ndarray = field(default_factory=lambda: np.empty(0))
    calibration_size: int = 0
    count_scaling: float = 0.0
    negative_labels: bool = False

    words = ("row", "column")
    value_name = "prediction"

    @property
    def classes(self) -> np.ndarray | None:
        """Class labels of a logistic or ordinal loss, in the order of the probabilities."""
        if isinstance(self.loss, Logistic):
            return np.array([-1.0, 1.0] if self.negative_labels else [0.0, 1.0])
        return np.array(self.loss.classes) if isinstance(self.loss, Ordinal) else None

    @cached_property
    def svd(self) -> SVD:
        """Of the factors without biases."""
        point, (n1, n2) = self.model.point(), self.model.shape
        return SVD(np.zeros((n1, 0)), np.zeros(0), np.zeros((n2, 0))) if point is None else SVD(point.U, point.s, point.V)

    @property
    def names(self) -> tuple[str, str]:
        labels = self.labels or {"row": "row", "col": "col"}
        return labels["row"], labels["col"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.model.shape

    @property
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        return self.model.row_counts, self.model.col_counts

    @property
    def never(self) -> np.ndarray:
        """Columns that are never recommended: they have neither observations nor features."""
        counts = self.model.col_counts
        return np.zeros(len(counts), bool) if "col" in self.features else np.asarray(counts == 0)

    @property
    def liked(self) -> np.ndarray:
        """Flags of the positive ratings."""
        return np.zeros(0, bool) if self.training is None else self.training.liked

    def require_ranking(self) -> RankingModel:
        if self.ranking is None:
            raise ValueError(
                "there is no ranking model, which recommend, similar_items, similar_users and explain need: fit with "
                "ranking=True, or call fit_ranking(); recommend(by='rating') orders by predicted values"
            )
        return self.ranking

    def confidences(self) -> np.ndarray:
        return np.where(self.liked, 1.0, self.require_ranking().disliked)

    def new_weights(self, counts: Any, m: int) -> np.ndarray:
        if counts is not None:
            raise ParameterError("counts", "are for implicit feedback: leave them out, or pass ratings to fold_in")
        return np.ones(m)

    def resolve_order(self, by: str) -> str:
        check("by", by, one_of(ORDERS))
        if by == "rating":
            return by
        ranking = self.require_ranking()
        return ranking.resolve(by, (*ranking.orders, "rating"))

    def order_scores(self, order: str, rows: np.ndarray, backend: Backend) -> Any:
        if order != "rating":
            return super().order_scores(order, rows, backend)
        left, right = self.model.padded_factors()
        left, right = left[np.minimum(rows, len(left) - 1)], right[:-1].T
        return lambda part: left[part.start : part.stop] @ right

    def values(self, rows: np.ndarray, cols: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Predictions of recommended columns."""
        there, found = cols >= 0, np.full(cols.shape, np.nan)
        i = np.broadcast_to(rows[:, None], cols.shape)[there]
        found[there] = self.expected(self.model.predict(i, cols[there]))
        return found

    def is_known(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """Whether the row and the column of each pair have observations or features."""
        known = np.ones(len(rows), bool)
        for name, index, side in zip(("row", "col"), (rows, cols), self.model.sides, strict=True):
            known &= index < len(side.counts) if name in self.features else side.is_known(index)
        return known

    def training_pattern(self) -> tuple[np.ndarray, np.ndarray]:
        """Row pointers and column indices of the training data; a ValueError where the model does not store them."""
        if self.training is None:
            raise ValueError(
                "the model was fitted to partitions and does not store its training data: recommend with by='rating' and "
                "exclude_seen=False, or for all rows of the partitions with `lorank recommend --all`"
            )
        return self.training.pattern

    def with_ranking(self, ranking: RankingModel) -> RatingsState:
        """With a ranking model; factors of rows and columns without observations are predicted from their features."""
        rows, cols = (
            predict_factors(factors, side.counts, self.features[name].numbers) if name in self.features else factors
            for name, side, factors in zip(("row", "col"), self.model.sides, (ranking.rows, ranking.cols), strict=True)
        )
        return replace(self, ranking=replace(ranking, rows=rows, cols=cols))

    def prior_shift(self, features: Any) -> np.ndarray:
        """Shift of the prior mean of a new row by its features, (k,)."""
        coefficients = self.model.row_coefficients
        if "row" not in self.features or coefficients is None:
            raise ValueError("the model was fitted without row_features: leave features out, or fit again with row_features")
        return affine(self.features["row"].encoder.encode(one_line(features), "row"), coefficients)[0]

    def expected(self, z: np.ndarray) -> np.ndarray:
        """Predictions from entries of the matrix: the mean of the loss's distribution, clipped to the bounds."""
        return clipped(z if self.loss is None else self.loss.mean(z), self.bounds)

    def predict_proba(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """Probability of each class, an (m, classes) array."""
        z = self.model.predict(rows, cols)
        if isinstance(self.loss, Logistic):
            one = self.loss.mean(z)
            return np.column_stack([1 - one, one])
        if isinstance(self.loss, Ordinal):
            return self.loss.probabilities(z)
        name = "squares" if self.loss is None else self.loss.name
        raise ValueError(f"loss={name!r} has no classes: fit with loss='logistic' or 'ordinal', or use predict")

    def predict_interval(self, rows: np.ndarray, cols: np.ndarray, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds by split conformal prediction."""
        check_intervals(self.loss)
        if not 0 < coverage < 1:
            raise ParameterError("coverage", f"must lie between 0 and 1, got {coverage!r}")
        if not len(self.calibration):
            raise ValueError("no observations were held out to calibrate intervals: fit with intervals=True")
        level = min(1.0, np.ceil((self.calibration_size + 1) * coverage) / self.calibration_size)
        width = float(np.interp(level, np.linspace(0, 1, len(self.calibration)), self.calibration))
        middle = clipped(self.model.predict(rows, cols), self.bounds)
        half = width * self.model.spread(rows, cols)
        return clipped(middle - half, self.bounds), clipped(middle + half, self.bounds)

    def fold_in(self, cols: np.ndarray, values: np.ndarray, prior_shift: np.ndarray | None = None) -> FoldIn:
        """Factors and predictions of a new row from some of its entries.

        Parameters
        ----------
        cols : (m,) integer array
        values : (m,) array
        prior_shift : (k,) array, optional
            Shift of the prior mean by the row's features.
        """
        if len(cols) != len(values):
            raise ValueError("fold_in takes a list of columns and as many values")
        cols, group = np.unique(cols, return_inverse=True)
        if self.loss is not None and self.loss.discrete:
            values = self.loss.encode(values)
        if self.model.nonnegative:
            check_nonnegative(values)
        values = np.bincount(group, values) / np.bincount(group) if len(cols) else values
        factors = self._folded(cols, values, prior_shift)
        return FoldIn(factors, self.expected(self.model.mean + self.model.cols @ factors))

    def _folded(self, cols: np.ndarray, values: np.ndarray, means: np.ndarray | None) -> np.ndarray:
        """Factors of a new row; with a loss, by iteratively reweighted least squares."""
        model, at = self.model, np.array([0, len(cols)])
        if not len(cols):
            return model.sides[0].unseen_factors + (0.0 if means is None else means)
        if self.loss is None:
            return model.fold_in(at, cols, values, means=means)[0]
        factors = model.fold_in(np.array([0, 0]), cols[:0], values[:0], means=means)[0]
        for _ in range(FOLD_IN_MAX_ITER):
            d = model.mean + model.cols[cols] @ factors - values
            weights, responses = Objective(self.loss.fit_parameters(d, values)).majorizer(d, values)
            before, factors = factors, model.fold_in(at, cols, responses, weights, means=means)[0]
            if np.abs(factors - before).max() < 1e-6:
                break
        return factors


def check_nonnegative(values: Any) -> None:
    """A ValueError for negative values, which a nonnegative factorization cannot represent."""
    least = float(values.min()) if len(values) else 0.0
    if least < 0:
        raise ValueError(
            f"nonnegative=True takes values that are not negative, and the least is {least:g}: shift them (subtract the "
            "least), or leave out nonnegative"
        )


def check_intervals(loss: Loss | None) -> None:
    """A ValueError for losses of classes and counts, which have probabilities instead of intervals."""
    if loss is not None and loss.discrete:
        instead = "means, of which Poisson's distribution gives them" if loss.name == "poisson" else "predict_proba"
        raise ValueError(f"loss={loss.name!r} has no intervals: leave out intervals=True, and take {instead}")
