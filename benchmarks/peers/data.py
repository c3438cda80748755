"""A problem as every peer reads it: the observed entries, and the factors that tell how wrong an answer is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Data:
    """Observed entries of ``left right^T``.

    Attributes
    ----------
    rows, cols : (m,) int32 arrays, sorted by rows
    values : (m,) float64 array
    left, right : (n, r) float64 arrays
        The truth. For measuring only: no method sees it.
    """

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @classmethod
    def load(cls, path: Path | str) -> Data:
        with np.load(path) as file:
            return cls(**{name: file[name] for name in ("rows", "cols", "values", "left", "right")})

    def save(self, path: Path | str) -> None:
        np.savez(path, **vars(self))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.left), len(self.right)

    @property
    def rank(self) -> int:
        return self.left.shape[1]

    def error(self, left: np.ndarray, right: np.ndarray) -> float:
        """``|left right^T - X|_F / |X|_F``, in O(n r^2), to about 1e-12: by QR, so that nothing cancels."""
        r = np.linalg.qr(np.hstack([np.asarray(left, float), self.left]), mode="r")
        s = np.linalg.qr(np.hstack([np.asarray(right, float), self.right]), mode="r")
        k = left.shape[1]
        truth = r[:, k:] @ s[:, k:].T
        return float(np.linalg.norm(r[:, :k] @ s[:, :k].T - truth) / np.linalg.norm(truth))
