"""The well-observed core of a sampling pattern, and its extension to the other rows and columns.

Rows and columns with about as many observations as the rank make the Hessian nearly singular and slow down descent for all
others. The core is the k-core of the bipartite graph of observations: rows and columns with fewer than k observations
are removed until none is left to remove. Once the core is known, every other row and column is a small least squares problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backends import Array, Observations
from ..geometry import FixedRank

if TYPE_CHECKING:
    from .completion import Completion

MAX_ROUNDS = 100  # of removals; patterns need about ten
RIDGE = 1e-9  # of the mean square of a factor: least norm for rows with fewer observations than the rank
EXTENSIONS = 3  # rounds of extension; the last one takes rows and columns with any observation


def core_masks(observations: Observations, minimum: int, backend: Any, dtype: Any) -> tuple[Array, Array]:
    """The k-core of the pattern: (n1, 1) and (n2, 1) arrays with 1 for rows and columns of the core, and 0 for others.

    Parameters
    ----------
    observations : Observations
    minimum : int
        Observations inside the core that each of its rows and columns has.
    backend : Backend
    dtype : dtype
        Of the masks.
    """
    rows, cols = (backend.astype(observations.counts(side)[:, None] >= minimum, dtype) for side in (0, 1))
    for _ in range(MAX_ROUNDS):
        inner_rows = rows * backend.astype(observations.gathered(cols, 0) >= minimum, dtype)
        inner_cols = cols * backend.astype(observations.gathered(inner_rows, 1) >= minimum, dtype)
        same = float(inner_rows.sum()) == float(rows.sum()) and float(inner_cols.sum()) == float(cols.sum())
        rows, cols = inner_rows, inner_cols
        if same:
            break
    return rows, cols


class Undetermined(NamedTuple):
    """Rows and columns that the pattern of observations does not determine at the rank of a result.

    They lie outside the r-core of the pattern: after rows and columns with fewer than r observations have been removed until
    none is left to remove, these are the ones that were removed. The solution has values there, but no data support them.

    Attributes
    ----------
    rows, cols : int arrays
    """

    rows: np.ndarray
    cols: np.ndarray

    def __str__(self) -> str:
        sides = ((self.rows, "row"), (self.cols, "column"))
        found = " and ".join(f"{len(a)} {name}{'s' * (len(a) != 1)}" for a, name in sides if len(a))
        return f"{found} with too few observations to be determined at this rank (result.undetermined)"


def undetermined(problem: Completion, rank: int) -> Undetermined | None:
    """Rows and columns outside the ``rank``-core: no solver can determine them at that rank. None where there are none."""
    backend, observed = problem.backend, problem.observations
    if rank >= min(problem.shape) or all(int(observed.counts(side).min()) >= rank for side in (0, 1)):
        return None
    masks = core_masks(observed, rank, backend, np.zeros(0, problem.dtype).real.dtype)
    rows, cols = (np.flatnonzero(backend.to_numpy(mask)[:, 0] == 0) for mask in masks)
    return Undetermined(rows, cols) if len(rows) or len(cols) else None


@dataclass(frozen=True)
class ObservedCore:
    """The observations of the core of a completion problem.

    Attributes
    ----------
    whole : Completion
    problem : Completion
        Of the same shape, with the observations of the core alone.
    rows, cols : (n1, 1) and (n2, 1) arrays
        1 for rows and columns of the core, 0 for others.
    """

    whole: Completion
    problem: Completion
    rows: Array
    cols: Array

    @classmethod
    def of(cls, whole: Completion, minimum: int) -> ObservedCore:
        """The core with at least so many observations in each row and column."""
        backend, dtype = whole.backend, np.zeros(0, whole.dtype).real.dtype
        rows, cols = core_masks(whole.observations, minimum, backend, dtype)
        observed: Any = whole.observations
        kept = observed.part(observed.sample(rows, cols) != 0)
        return cls(whole, whole.with_observations(kept), rows, cols)

    def restrict(self, X: FixedRank) -> FixedRank:
        """X with zeros outside the core."""
        return FixedRank.from_factors(self.rows * (X.U * X.s), self.cols * X.V, backend=X.backend)

    def extend(self, X: FixedRank) -> FixedRank:
        """X of the core, and all other rows and columns by least squares.

        Rows with at least as many observations of known columns as the rank come first, then columns in the same way, then
        those that have become determined by them; all others at least norm.
        """
        whole, backend, rank = self.whole, self.whole.backend, X.rank
        observed, dtype = whole.observations, np.zeros(0, whole.dtype).real.dtype
        factors = [self.rows * (X.U * X.s**0.5), self.cols * (X.V * X.s**0.5)]
        known = [self.rows, self.cols]
        products = observed.products(whole.y)
        for k in range(EXTENSIONS):
            least = rank if k < EXTENSIONS - 1 else 1
            for side in (0, 1):
                other = factors[1 - side]
                found = backend.astype(observed.gathered(known[1 - side], side) >= least, dtype)
                shift = RIDGE * float((abs(other) ** 2).sum()) / max(float(known[1 - side].sum()), 1.0)
                fitted = whole.solve_blocks(side, other, shift, products[side](other))
                factors[side] = factors[side] + (found * (1 - known[side])) * fitted
                known[side] = known[side] + found * (1 - known[side])
        return FixedRank.from_factors(factors[0], factors[1], backend=backend)
