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
from ..common.checks import counted
from ..geometry import FixedRank

if TYPE_CHECKING:
    from .completion import Completion

MAX_ROUNDS = 100  # of removals; patterns need about ten
RIDGE = 1e-9  # of the mean square of a factor: least norm for rows with fewer observations than the rank
MAX_SEARCH_ROUNDS = 6  # of a breadth-first search, after which SciPy finds the connected components
MAX_PARTS = 1000  # that are listed
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


def observed_energies(problem: Any, X: FixedRank) -> dict[int, tuple[float, float]]:
    """Energy of X without its first k directions in the observed entries, and its expectation, for k = 0 to 8, 16, 32, ....

    The expectation is that of random patterns with the same numbers of observations in rows and columns. For a matrix that the
    data determine both are about equal; for one that is large on unobserved entries the first is much smaller.
    """
    backend, observed, values = problem.backend, problem.observations, np.asarray(X.backend.to_numpy(X.s), float)
    counts = [backend.astype(observed.counts(side)[:, None], backend.dtype(abs(X.U))) for side in (0, 1)]
    sides = [backend.small(backend.gram(count * factor, factor)) for count, factor in zip(counts, (X.U, X.V), strict=True)]
    products = np.real(sides[0] * sides[1].T) * np.outer(values, values) / problem.m
    found = {}
    for first in (*range(min(8, X.rank)), *(2**k for k in range(3, X.rank.bit_length()) if 2**k < X.rank)):
        kept = np.eye(X.rank)[:, first:]
        image = problem.forward(backend.product(X.U, kept * values[:, None]), backend.product(X.V, kept))
        found[first] = backend.squared_norm(image), float(products[first:, first:].sum())
    return found


class Undetermined(NamedTuple):
    """Rows and columns that the pattern of observations does not determine at the rank of a result.

    They lie outside the r-core of the pattern: after rows and columns with fewer than r observations have been removed until
    none is left to remove, these are the ones that were removed. The solution has values there, but no data support them.

    The others may form several parts that share no row or column (connected components). An invertible r x r matrix and its
    inverse may be multiplied with the factors of one part alone: entries in a row and a column of the same part do not change,
    entries between two parts do. They are not determined. Parts with fewer observations than degrees of freedom are counted as
    undetermined.

    The conditions are necessary for a unique solution, not sufficient.

    Attributes
    ----------
    rows, cols : int arrays
    parts : tuple of (rows, cols)
        Rows and columns of each part, the largest first; empty where there is only one.
    """

    rows: np.ndarray
    cols: np.ndarray
    parts: tuple[tuple[np.ndarray, np.ndarray], ...] = ()

    def __str__(self) -> str:
        sides = ((self.rows, "row"), (self.cols, "column"))
        found = " and ".join(counted(len(a), name) for a, name in sides if len(a))
        said = [f"{found} with too few observations to be determined at this rank"] if found else []
        if self.parts:
            said.append(f"{len(self.parts)} parts that share no row or column: entries between them are not determined")
        return f"{'; '.join(said)} (result.undetermined)"


def undetermined(problem: Completion, rank: int) -> Undetermined | None:
    """Rows and columns outside the ``rank``-core, and separate parts of the core; None where neither exist."""
    backend, observed = problem.backend, problem.observations
    if rank >= min(problem.shape):
        return None
    masks = core_masks(observed, rank, backend, np.zeros(0, problem.dtype).real.dtype)
    rows, cols = (np.where(backend.to_numpy(mask)[:, 0] > 0, 0, -1) for mask in masks)  # number of the part; -1 for none
    if (rows == 0).any():
        found = component(observed, backend, *masks, rounds=MAX_SEARCH_ROUNDS if backend.in_main_memory else None)
        if float(found[0].sum()) < float(masks[0].sum()):
            if backend.in_main_memory:
                rows, cols = _numbered_parts(observed.host(), rows, cols)
            else:  # the part with the most observed row, and the others together
                rows, cols = (
                    a + (a == 0) * (backend.to_numpy(one)[:, 0] == 0) for a, one in zip((rows, cols), found, strict=True)
                )
    parts = int(max(rows.max(), cols.max())) + 1
    if parts > 1:
        sizes = [np.bincount(a[a >= 0], minlength=parts) for a in (rows, cols)]
        counts = backend.to_numpy(observed.gathered(masks[1], 0))[:, 0]
        m = np.bincount(rows[rows >= 0], counts[rows >= 0], minlength=parts)
        order = np.argsort(-m)
        order = order[(m >= (sizes[0] + sizes[1] - rank) * rank)[order]]
        new = np.full(parts + 1, -1)  # the last one for -1
        new[order] = np.arange(len(order))
        rows, cols, parts = new[rows], new[cols], len(order)
    left_out = np.flatnonzero(rows < 0), np.flatnonzero(cols < 0)
    if parts < 2 and not len(left_out[0]) and not len(left_out[1]):
        return None
    each = tuple((np.flatnonzero(rows == k), np.flatnonzero(cols == k)) for k in range(min(parts, MAX_PARTS)))
    return Undetermined(*left_out, each if parts > 1 else ())


def component(observed: Observations, backend: Any, rows: Array, cols: Array, rounds: int | None = None) -> tuple[Array, Array]:
    """The rows and columns of a mask that are connected with its most observed row, as masks.

    Breadth-first search with two passes over the observations a round, until all rows are found or ``rounds`` are over.
    """
    counts = backend.to_numpy(observed.gathered(cols, 0) * rows)[:, 0]
    reached, found = backend.asarray((np.arange(len(counts)) == counts.argmax())[:, None].astype(counts.dtype)), 0 * cols
    size, before, total = 1.0, 0.0, float(rows.sum())
    while before < size and rounds != 0 and (size < total or before == 0):
        found = cols * backend.astype(observed.gathered(reached, 1) > 0, counts.dtype)
        reached = rows * backend.astype(observed.gathered(found, 0) > 0, counts.dtype)
        before, size = size, float(reached.sum())
        rounds = None if rounds is None else rounds - 1
    return reached, found


def _numbered_parts(entries: Any, rows: np.ndarray, cols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the connected components of the observations in rows and columns with number 0; -1 elsewhere."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n1, n2 = len(rows), len(cols)
    i, j = np.repeat(np.arange(n1), np.diff(entries.indptr)), np.asarray(entries.indices)
    kept = (rows[i] == 0) & (cols[j] == 0)
    edges = (np.ones(int(kept.sum()), np.int8), (i[kept], j[kept] + n1))
    _, label = connected_components(coo_array(edges, shape=(n1 + n2, n1 + n2)), directed=False)
    used = np.concatenate([rows, cols]) == 0
    found = np.full(n1 + n2, -1)
    found[used] = np.unique(label[used], return_inverse=True)[1]
    return found[:n1], found[n1:]


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
