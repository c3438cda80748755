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
    def of(cls, errors: np.ndarray, spread: np.ndarray, inflation: float = 1.0) -> Calibration:
        """From errors (nan where none is known) and the deviations expected there.

        ``inflation`` makes up for models that had seen the cells where they erred.
        """
        ratio = inflation * errors / np.maximum(spread, 1e-9)
        known = ~np.isnan(ratio)
        if not known.any():
            normal = np.sqrt(2) * _inverse_erf(2 * np.clip(GRID, 1e-4, 1 - 1e-4) - 1)
            return cls(np.tile(normal, (errors.shape[1], 1)), np.ones(errors.shape[1]))
        overall = np.quantile(ratio[known], GRID)
        size = float(np.sqrt(np.mean(np.clip(ratio[known], -5, 5) ** 2)))
        quantiles, sizes = [], []
        for column, there in zip(ratio.T, known.T, strict=True):
            share = there.sum() / (there.sum() + FEW)
            own = np.quantile(column[there], GRID) if there.any() else overall
            quantiles.append(share * own + (1 - share) * overall)
            mine = np.mean(np.clip(column[there], -5, 5) ** 2) if there.any() else 0.0
            sizes.append(np.sqrt(share * mine + (1 - share) * size**2))
        return cls(np.array(quantiles), np.array(sizes))

    def at(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Below and above: the multiples of the deviations between which that share of errors lies."""
        low, high = (1 - level) / 2, (1 + level) / 2
        return tuple(np.array([np.interp(p, GRID, q) for q in self.quantiles]) for p in (low, high))  # type: ignore[return-value]


def _inverse_erf(x: np.ndarray) -> np.ndarray:
    from scipy.special import erfinv

    return np.asarray(erfinv(x))
