"""How large errors are where cells were hidden: intervals from their quantiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

GRID = np.concatenate([[0.0, 0.0025, 0.005, 0.01, 0.02], np.linspace(0.03, 0.97, 48), [0.98, 0.99, 0.995, 0.9975, 1.0]])
FEW = 40  # errors of a column count as much as those of all columns together


@dataclass(frozen=True)
class Calibration:
    """Quantiles of errors in units of the deviations that a model expects.

    Attributes
    ----------
    quantiles : (d, len(GRID)) array
        Of each column.
    size : (d,) array
        Root mean squares.
    """

    quantiles: np.ndarray
    size: np.ndarray

    @classmethod
    def of(
        cls, errors: np.ndarray, spread: np.ndarray, inflation: float | np.ndarray = 1.0, weights: np.ndarray | None = None
    ) -> Calibration:
        """From errors (nan where none is known) and the deviations expected there.

        ``inflation`` makes up for models that had seen the cells where they erred; ``weights`` say how much a cell looks like
        those that are missing.
        """
        ratio = inflation * errors / np.maximum(spread, 1e-9)
        known = ~np.isnan(ratio)
        weights = np.ones_like(ratio) if weights is None else weights
        d = errors.shape[1]
        if not known.any():
            normal = np.sqrt(2) * _inverse_erf(2 * np.clip(GRID, 1e-4, 1 - 1e-4) - 1)
            return cls(np.tile(normal, (d, 1)), np.ones(d))
        overall, _, size = _weighted(ratio[known], weights[known])
        quantiles, sizes = np.tile(overall, (d, 1)), np.full(d, size)
        for j in range(d):
            there = known[:, j]
            if there.any():
                own, count, mine = _weighted(ratio[there, j], weights[there, j])
                share = count / (count + FEW)
                quantiles[j] = share * own + (1 - share) * overall
                sizes[j] = np.sqrt(share * mine**2 + (1 - share) * size**2)
        return cls(quantiles, sizes)

    def at(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Below and above: the multiples of the deviations between which that share of errors lies."""
        low, high = (1 - level) / 2, (1 + level) / 2
        return tuple(np.array([np.interp(p, GRID, q) for q in self.quantiles]) for p in (low, high))  # type: ignore[return-value]


def _inverse_erf(x: np.ndarray) -> np.ndarray:
    from scipy.special import erfinv

    return np.asarray(erfinv(x))


def _weighted(ratio: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Quantiles, how many cells of equal weight say as much, and the root mean square.

    With equal weights the i-th of n is the quantile i / (n + 1): between two of these the next cell lies with that chance.
    """
    order = np.argsort(ratio)
    x, w = ratio[order], weights[order]
    total = float(w.sum())
    typical = float(w @ w) / total
    place = (np.cumsum(w) - w / 2 + typical / 2) / (total + typical)
    size = float(np.sqrt(w @ np.clip(x, -5, 5) ** 2 / total))
    return np.interp(GRID, place, x), total / typical, size
