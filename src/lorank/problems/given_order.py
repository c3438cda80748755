"""Back from the row-major order of observations to the one in which they were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Given:
    """The order in which observations were given: how many, which of them have a weight, where each one, row by row, stood
    among those, and where it repeats the one before.
    """

    m: int
    kept: np.ndarray | None = None
    order: np.ndarray | range | None = None
    repeated: np.ndarray | None = None

    def restored(self, p: np.ndarray, missing: Any) -> np.ndarray:
        if self.order is None:
            return p
        if self.repeated is not None and len(self.repeated):
            first = np.ones(len(self.order), bool)
            first[self.repeated + 1] = False
            p = p[np.cumsum(first) - 1]
        kept = np.empty_like(p)
        kept[np.asarray(self.order)] = p
        if self.kept is None:
            return kept
        found = np.full(self.m, missing, p.dtype)
        found[self.kept] = kept
        return found
