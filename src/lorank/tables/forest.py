"""Trees that refine what a table's model says: for tables of few rows, where they take seconds.

A cell's features are its row as the model filled it, and the model's guess for the cell. Where the cell is known, the row is
filled as if it were not: what a Gaussian says in the row's gaps is taken back by as much as the cell had moved it. Each column
has two forests, one of its values (rows that resemble each other in some columns have alike cells), one of what the guess
leaves over; weights from cells that trees have not seen say how much of each is added to the guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .patterns import find_patterns

PARTS = 5  # of the cells: a fifth of the trees is grown without one of them
TREES = 10  # without each part
FEWEST = 30  # cells of a column that is learned
PAYS = 0.005  # the least share of squared error that the first trees must take away in all columns, for the others to be grown
LARGE = 1000  # a leaf of so many rows' trees has one cell or two at the least; of twice as many rows, two, and so on
PRIOR = 40.0  # cells: as much as the weights of all columns count beside a column's own


@dataclass(frozen=True)
class Forest:
    """Regression trees, their nodes one after the other; in single precision.

    Attributes
    ----------
    roots : (t,) integer array
    feature : (k,) integer array
        That a node asks for; -1 at leaves.
    threshold : (k,) array
        Rows with at most that go to the left.
    left, right : (k,) integer arrays
        Nodes below; leaves are below themselves.
    value : (k,) array
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The trees' mean in each row: an (n,) array. Features are compared in single precision, as they were in growing."""
        rows = rows.astype(np.float32)
        at = np.tile(self.roots, (len(rows), 1))
        line = np.arange(len(rows))[:, None]
        while True:
            asked = self.feature[at]
            if not (asked >= 0).any():
                return np.asarray(self.value[at].mean(axis=1))
            at = np.where(rows[line, asked] <= self.threshold[at], self.left[at], self.right[at])

    @staticmethod
    def together(forests: list[Forest]) -> Forest:
        """All trees of several forests."""
        start = np.cumsum([0, *(len(f.value) for f in forests)])

        def moved(name: str) -> np.ndarray:
            places = [getattr(f, name) + s for f, s in zip(forests, start, strict=False)]
            return np.concatenate(places).astype(np.int32)  # a table's trees have millions of nodes

        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(f, name) for f in forests])

        return Forest(moved("roots"), joined("feature"), joined("threshold"), moved("left"), moved("right"), joined("value"))


Grower = Callable[[np.ndarray, np.ndarray, int, int, int], Forest]
Back = Callable[[int, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Woods:
    """Forests of the columns that they help.

    Attributes
    ----------
    columns : (k,) integer array
    values, errors : lists of k Forest
        Of the values, and of what guesses leave over.
    weights : (2, k) array
        Of both.
    """

    columns: np.ndarray
    values: list[Forest]
    errors: list[Forest]
    weights: np.ndarray

    def add(self, filled: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """A filled table, its gaps moved to where the trees want them."""
        out = filled.copy()
        for j, values, errors, weights in zip(self.columns, self.values, self.errors, self.weights.T, strict=True):
            rows = np.flatnonzero(missing[:, j])
            if len(rows):
                guess = filled[rows, j]
                others = np.delete(filled[rows], j, axis=1)
                found = values(others) - guess, errors(np.column_stack([others, guess]))
                out[rows, j] += weights[0] * found[0] + weights[1] * found[1]
        return out


@dataclass(frozen=True)
class Lessons:
    """What forests learn from, and are judged by.

    Attributes
    ----------
    table : (n, d) array
        With nan in the gaps.
    filled : (n, d) array
        By the model.
    back : callable
        Of a column and rows: what to add to these rows to have them as if that column had been unknown.
    left : (n, d) array
        What the model leaves over where a cell was hidden from it, nan elsewhere.
    rows : (p, d) array
        As they were filled then: other cells had been hidden with it.
    place : (n, d) integer array
        In which of these a cell was hidden.
    """

    table: np.ndarray
    filled: np.ndarray
    back: Back
    left: np.ndarray
    rows: np.ndarray
    place: np.ndarray


def fit_woods(given: Lessons, grow: Grower, seed: int) -> tuple[Woods | None, np.ndarray]:
    """Grow forests where they help.

    Forests of values learn from rows in which the cell alone is hidden, as in a true gap. They are judged, as the guesses are,
    with others hidden besides: so both have known as much.

    Parameters
    ----------
    given : Lessons
    grow : callable
        Of features, targets, the number of trees, the least number of cells in a leaf, and a seed.
    seed : int

    Returns
    -------
    Woods or None, (n, d) array
        And what trees that have not seen a cell would add to its guess: 0 where there are none.
    """
    table, left = given.table, given.left
    n, d = table.shape
    part = np.random.default_rng(seed).permutation(n) % PARTS
    cells = [np.flatnonzero(~np.isnan(left[:, j])) for j in range(d)]
    used = [j for j in range(d) if len(cells[j]) >= FEWEST and d > 1]
    said = np.full((2, n, d), np.nan)
    values: dict[int, list[Forest]] = {j: [] for j in used}
    errors: dict[int, list[Forest]] = {j: [] for j in used}
    for k in range(PARTS):
        for j in used:
            at = cells[j]
            guess = table[at, j] - left[at, j]
            alone = np.delete(given.filled[at] + given.back(j, at), j, axis=1)
            among = np.delete(given.rows[given.place[at, j]], j, axis=1)
            both = np.column_stack([among, guess])
            learn, judge = part[at] != k, part[at] == k
            values[j].append(grow(alone[learn], table[at[learn], j], TREES, max(1, n // LARGE), seed + k))
            errors[j].append(grow(both[learn], left[at[learn], j], TREES, max(2, n // LARGE), seed + k))
            said[0, at[judge], j] = values[j][k](among[judge]) - guess[judge]
            said[1, at[judge], j] = errors[j][k](both[judge])
        if k == 0 and not _pays(said, left):
            return None, np.zeros((n, d))
    weights = _weights(said, left)
    helped = [j for j in used if weights[:, j].any()]
    if not helped:
        return None, np.zeros((n, d))
    both_grown = [[Forest.together(forests[j]) for j in helped] for forests in (values, errors)]
    woods = Woods(np.array(helped), both_grown[0], both_grown[1], weights[:, helped])
    return woods, np.nan_to_num(np.einsum("gj,gij->ij", weights, said))


def _pays(said: np.ndarray, left: np.ndarray) -> bool:
    """Whether the first trees take away enough of what is left over, all columns together, and more than two weights would by
    chance.
    """
    there = ~np.isnan(said[0])
    if not there.any():
        return False
    rest = left[there] - _solved(said[:, there], left[there], np.zeros(2), 0.0) @ said[:, there]
    return bool(rest @ rest < (1 - PAYS - 4 / len(rest)) * (left[there] @ left[there]))


def _weights(said: np.ndarray, left: np.ndarray) -> np.ndarray:
    """By least squares in each column, shrunk towards those of all columns."""
    there = ~np.isnan(said[0])
    common = _solved(said[:, there], left[there], np.zeros(2), 0.0)
    weights = np.zeros((2, left.shape[1]))
    size = float(np.mean(said[:, there] ** 2))
    for j in range(left.shape[1]):
        mine = there[:, j]
        if mine.any():
            weights[:, j] = _solved(said[:, mine, j], left[mine, j], common, PRIOR * size)
    return weights


def _solved(said: np.ndarray, left: np.ndarray, prior: np.ndarray, strength: float) -> np.ndarray:
    gram = said @ said.T
    gram[np.diag_indices(2)] += strength + 1e-9 * np.trace(gram) + 1e-300
    return np.asarray(np.clip(prior + np.linalg.solve(gram, said @ (left - prior @ said)), 0, 1))


def unknowing(mean: np.ndarray, covariance: np.ndarray, filled: np.ndarray, missing: np.ndarray) -> Back:
    """How rows that a Gaussian filled change once a known cell is hidden as well.

    With precision K and the gaps m of a row z without its mean, hiding j moves ``z_m`` by ``inv(K_mm) K_mj e``, where
    ``e = (K z)_j / (K_jj - K_jm inv(K_mm) K_mj)`` is by how much j differs from what the others say.

    Returns
    -------
    callable
        Of a column and rows: an (n, d) array to be added to these rows.
    """
    K = np.linalg.inv(covariance)
    off = (filled - mean) @ K
    inverses = [
        (batch, np.linalg.inv(K[batch.gaps[:, :, None], batch.gaps[:, None, :]]))
        for batch in find_patterns(missing).batches
        if batch.gaps.shape[1]
    ]

    def back(j: int, rows: np.ndarray) -> np.ndarray:
        moved, own = np.zeros(filled.shape), np.full(len(filled), K[j, j])
        for batch, inverse in inverses:
            along = (inverse @ K[batch.gaps, j][:, :, None])[:, :, 0]
            own[batch.rows] -= batch.each(np.einsum("pk,pk->p", along, K[batch.gaps, j]))
            moved[batch.rows[:, None], batch.gaps[batch.pattern]] = batch.each(along)
        return np.asarray((moved * (off[:, j] / np.maximum(own, 1e-9))[:, None])[rows])

    return back
