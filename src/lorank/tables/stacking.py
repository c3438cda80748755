"""Stacked predictions for time series, and calibration of prediction intervals, both on held-out cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

GRID = np.concatenate([[0.0, 0.0025, 0.005, 0.01, 0.02], np.linspace(0.03, 0.97, 48), [0.98, 0.99, 0.995, 0.9975, 1.0]])
POOLED_CELLS = 40  # errors of a column that weigh as much as those of all columns together
DISTANCE_EDGES = np.array([1.5, 2.5, 4.5, 8.5, 16.5])  # of the classes of distances to observed values, in typical steps
DISTANCE_CLASSES = len(DISTANCE_EDGES) + 1
LINE, STRUCTURAL = 2, 5  # indices of linear interpolation and of the structural model among the predictions
MAX_ERROR_RATIO = 0.97  # of a squared error, above which another prediction is no better
SIGNIFICANCE = 1.5  # standard deviations by which a gain must exceed 0
PRIOR_CELLS = 30.0  # cells that pooled weights count as


@dataclass(frozen=True)
class Calibration:
    """Quantiles and root mean squares of errors, in units of the standard deviations that a model predicts."""

    quantiles: np.ndarray  # (d, len(GRID))
    size: np.ndarray  # (d,)

    @classmethod
    def of(
        cls, errors: np.ndarray, spread: np.ndarray, inflation: float | np.ndarray = 1.0, weights: np.ndarray | None = None
    ) -> Calibration:
        """From (n, d) held-out errors (nan elsewhere) and the deviations predicted there.

        ``inflation`` corrects errors of models that were fitted to the held-out cells too; ``weights`` are each cell's odds of
        being missing.
        """
        ratio = inflation * errors / np.maximum(spread, 1e-9)
        known = ~np.isnan(ratio)
        weights = np.ones_like(ratio) if weights is None else weights
        d = errors.shape[1]
        if not known.any():
            return cls(np.tile(ndtri(np.clip(GRID, 1e-4, 1 - 1e-4)), (d, 1)), np.ones(d))
        overall, _, size = _weighted_quantiles(ratio[known], weights[known])
        quantiles, sizes = np.tile(overall, (d, 1)), np.full(d, size)
        for j in range(d):
            there = known[:, j]
            if there.any():
                own, count, mine = _weighted_quantiles(ratio[there, j], weights[there, j])
                share = count / (count + POOLED_CELLS)
                quantiles[j] = share * own + (1 - share) * overall
                sizes[j] = np.sqrt(share * mine**2 + (1 - share) * size**2)
        return cls(quantiles, sizes)

    def bounds(self, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper quantiles between which that share of errors lies, one per column."""
        low, high = (1 - coverage) / 2, (1 + coverage) / 2
        return tuple(np.array([np.interp(p, GRID, q) for q in self.quantiles]) for p in (low, high))  # type: ignore[return-value]


def _weighted_quantiles(ratio: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Quantiles at GRID, the effective number of cells, and the root mean square.

    With equal weights the i-th of n errors is the quantile i / (n + 1), as in conformal prediction.
    """
    order = np.argsort(ratio)
    x, w = ratio[order], weights[order]
    total = float(w.sum())
    typical = float(w @ w) / total
    place = (np.cumsum(w) - w / 2 + typical / 2) / (total + typical)
    size = float(np.sqrt(w @ np.clip(x, -5, 5) ** 2 / total))
    return np.interp(GRID, place, x), total / typical, size


def gain_is_significant(gain: np.ndarray, size: np.ndarray, stretch: int) -> np.ndarray:
    """Whether reductions of the squared error, an (n, d) array, are significant in each column or in all together.

    Errors within a gap are correlated: sums over stretches of that many rows are the independent samples. ``size`` is the unit.
    """
    stretches = np.add.reduceat(gain, np.arange(0, len(gain), stretch)) / np.maximum(size, 1e-100)  # squares stay finite
    whole = stretches.sum(axis=1)
    own = stretches.sum(axis=0) > SIGNIFICANCE * np.sqrt((stretches**2).sum(axis=0))
    return np.asarray(own | (whole.sum() > SIGNIFICANCE * np.sqrt(whole @ whole)))


def stack(predictions: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted sums of (g, n, d) predictions, with (classes, d, g) weights by class of distance and column."""
    return np.asarray(np.einsum("gij,ijg->ij", predictions, weights[classes, np.arange(classes.shape[1])]))


def stacking_weights(
    predictions: np.ndarray,
    classes: np.ndarray,
    table: np.ndarray,
    there: np.ndarray,
    first: int = LINE,
    prior: float = PRIOR_CELLS,
) -> np.ndarray:
    """Least-squares weights for each class of distances and each column, fitted to the cells ``there`` (a Boolean array).

    They sum to one, and are shrunk towards those of all columns, these towards those of all distances, and these towards the
    prediction ``first``.
    """
    g, d = len(predictions), table.shape[1]
    overall = _shrunk_least_squares(predictions[:, there].T, table[there], np.eye(g)[first], prior)
    weights = np.empty((DISTANCE_CLASSES, d, g))
    for c in range(DISTANCE_CLASSES):
        at = there & (classes == c)
        common = _shrunk_least_squares(predictions[:, at].T, table[at], overall, prior)
        for j in range(d):
            mine = at[:, j]
            weights[c, j] = _shrunk_least_squares(predictions[:, mine, j].T, table[mine, j], common, prior)
    return weights


def _shrunk_least_squares(A: np.ndarray, y: np.ndarray, towards: np.ndarray, prior: float) -> np.ndarray:
    """Least squares with weights that sum to one, shrunk as by ``prior`` cells.

    The unknowns multiply differences of predictions: their size, not that of the predictions, is the unit of the penalty, and a
    trend does not hide it.
    """
    if len(y) < 3:
        return towards
    first = A @ towards
    apart = A - first[:, None]
    ridge = (prior * np.mean(apart**2) + 1e-12) * np.eye(len(towards))
    change = np.linalg.solve(apart.T @ apart + ridge, apart.T @ (y - first))
    return np.asarray(towards * (1 - change.sum()) + change)


def error_spread(errors: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Root mean squares of errors (nan where unknown) by class of distances and column, shrunk towards those of the column."""
    d = errors.shape[1]
    known = ~np.isnan(errors)
    cell = classes * d + np.arange(d)
    shape = DISTANCE_CLASSES, d
    number = np.bincount(cell[known], minlength=DISTANCE_CLASSES * d).reshape(shape)
    squares = np.bincount(cell[known], errors[known] ** 2, DISTANCE_CLASSES * d).reshape(shape)
    column = (squares.sum(axis=0) + 1e-3) / (number.sum(axis=0) + 1e-3)
    return np.asarray(np.sqrt((squares + 10 * column) / (number + 10)))
