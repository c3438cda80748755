"""Extremely randomized trees that correct a table model's predictions, for tables of few rows.

The features of a cell are its row as the model filled it, and the model's prediction for the cell. Where the cell is observed,
the row is filled as if it were missing. Each column has two forests, one of its values and one of the model's errors; their
weights are fitted to predictions for cells that the trees were not trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .patterns import find_patterns

PARTS = 5  # of the rows: a fifth of the trees is trained without each
TREES = 10  # trained without each part
MAX_FEATURES = 20  # tried at a node
MIN_CELLS = 30  # of a column that has forests
MIN_GAIN = 0.005  # relative reduction of the squared error by the first trees, for the others to be grown
ROWS_PER_LEAF_CELL = 1000  # leaves have at least one cell for so many rows
PRIOR_CELLS = 40.0  # cells that the weights of all columns count as


@dataclass(frozen=True)
class Forest:
    """Regression trees as arrays, the nodes of each in depth-first order: the left child of a split follows it."""

    roots: np.ndarray  # (trees,)
    feature: np.ndarray  # (k,): compared at a split; -1 at leaves
    value: np.ndarray  # (k,): threshold of a split, prediction of a leaf; in single precision
    right: np.ndarray  # (k,): right child of a split, for features above the threshold

    def __post_init__(self) -> None:
        splits, nodes = np.flatnonzero(self.feature >= 0), len(self.feature)
        sound = nodes == len(self.value) == len(self.right) and len(self.roots) > 0
        sound = sound and bool(((self.roots >= 0) & (self.roots < nodes)).all() and (splits < nodes - 1).all())
        if not sound or not ((self.right[splits] > splits) & (self.right[splits] < nodes)).all():
            raise ValueError(f"{nodes} nodes with {len(splits)} splits are not {len(self.roots)} trees")

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Mean prediction of the trees for each row, an (n,) array. Features are in single precision, as in training."""
        rows = rows.astype(np.float32)
        at = np.tile(self.roots, (len(rows), 1))
        line = np.arange(len(rows))[:, None]
        while True:
            feature = self.feature[at]
            split = feature >= 0
            if not split.any():
                return np.asarray(self.value[at].mean(axis=1))
            below = rows[line, feature] <= self.value[at]
            at = np.where(split, np.where(below, at + 1, self.right[at]), at)

    @classmethod
    def join(cls, forests: list[Forest]) -> Forest:
        """One forest of all trees of several."""
        starts = np.cumsum([0, *(len(forest.feature) for forest in forests[:-1])])
        pairs = list(zip(forests, starts, strict=True))
        return cls(
            np.concatenate([forest.roots + start for forest, start in pairs]).astype(np.int32),
            np.concatenate([forest.feature for forest in forests]),
            np.concatenate([forest.value for forest in forests]),
            np.concatenate([forest.right + start for forest, start in pairs]).astype(np.int32),
        )


def fit_forest(X: np.ndarray, y: np.ndarray, trees: int, min_leaf: int, seed: int) -> Forest:
    """Extremely randomized trees of scikit-learn."""
    from sklearn.ensemble import ExtraTreesRegressor

    share = min(1.0, MAX_FEATURES / X.shape[1]) if X.shape[1] else 1.0
    found = ExtraTreesRegressor(trees, min_samples_leaf=min_leaf, max_features=share, random_state=seed % (2**31)).fit(X, y)
    parts, small = [], np.min_scalar_type(-1 - X.shape[1])
    for tree in (each.tree_ for each in found.estimators_):
        leaf = tree.children_left < 0
        value = np.where(leaf, tree.value[:, 0, 0], tree.threshold).astype(np.float32)
        feature = np.where(leaf, -1, tree.feature).astype(small)
        parts.append(Forest(np.zeros(1, np.int32), feature, value, tree.children_right))
    return Forest.join(parts)


@dataclass(frozen=True)
class ForestEnsemble:
    """Two forests for each of the columns that they improve."""

    columns: np.ndarray  # (k,)
    values: list[Forest]
    errors: list[Forest]
    weights: np.ndarray  # (2, k)

    def refine(self, filled: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """The filled table with corrected predictions."""
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
class TrainingSets:
    """Data that forests are trained and validated on."""

    table: np.ndarray  # (n, d), nan where missing
    filled: np.ndarray  # (n, d), by the model
    shift: Callable[[int, np.ndarray], np.ndarray]  # of a column and rows: what :func:`leave_out_shift` adds to these rows
    errors: np.ndarray  # (n, d), of the held-out predictions; nan elsewhere
    rows: np.ndarray  # (p, d), as they were filled while cells were held out
    place: np.ndarray  # (n, d), the index of the row in which a cell was held out


def fit_forest_ensemble(sets: TrainingSets, seed: int) -> tuple[ForestEnsemble | None, np.ndarray]:
    """Grow forests for the columns that they improve.

    Forests of values are trained on rows in which only the cell is missing. Validation uses the rows of cross-validation, in
    which other cells were held out as well, so that forests and model have the same information.

    Returns
    -------
    ForestEnsemble or None, (n, d) array
        The forests, and the corrections by trees that were not trained on a cell's row; 0 where there are none.
    """
    table, residuals = sets.table, sets.errors
    n, d = table.shape
    part = np.random.default_rng(seed).permutation(n) % PARTS
    cells = [np.flatnonzero(~np.isnan(residuals[:, j])) for j in range(d)]
    used = [j for j in range(d) if len(cells[j]) >= MIN_CELLS and d > 1]
    predicted = np.full((2, n, d), np.nan)
    values: dict[int, list[Forest]] = {j: [] for j in used}
    errors: dict[int, list[Forest]] = {j: [] for j in used}
    for k in range(PARTS):
        for j in used:
            at = cells[j]
            guess = table[at, j] - residuals[at, j]
            alone = np.delete(sets.filled[at] + sets.shift(j, at), j, axis=1)
            among = np.delete(sets.rows[sets.place[at, j]], j, axis=1)
            both = np.column_stack([among, guess])
            train, held = part[at] != k, part[at] == k
            leaf = n // ROWS_PER_LEAF_CELL
            values[j].append(fit_forest(alone[train], table[at[train], j], TREES, max(1, leaf), seed + k))
            errors[j].append(fit_forest(both[train], residuals[at[train], j], TREES, max(2, leaf), seed + k))
            predicted[0, at[held], j] = values[j][k](among[held]) - guess[held]
            predicted[1, at[held], j] = errors[j][k](both[held])
        if k == 0 and not _improves(predicted, residuals):
            return None, np.zeros((n, d))
    weights = _column_weights(predicted, residuals)
    improved = [j for j in used if weights[:, j].any()]
    if not improved:
        return None, np.zeros((n, d))
    joined = [[Forest.join(forests[j]) for j in improved] for forests in (values, errors)]
    ensemble = ForestEnsemble(np.array(improved), joined[0], joined[1], weights[:, improved])
    return ensemble, np.nan_to_num(np.einsum("gj,gij->ij", weights, predicted))


def _improves(predicted: np.ndarray, residuals: np.ndarray) -> bool:
    """Whether the first trees reduce the squared error of all columns enough, and by more than two weights would by chance."""
    there = ~np.isnan(predicted[0])
    if not there.any():
        return False
    rest = residuals[there] - _weights(predicted[:, there], residuals[there], np.zeros(2), 0.0) @ predicted[:, there]
    return bool(rest @ rest < (1 - MIN_GAIN - 4 / len(rest)) * (residuals[there] @ residuals[there]))


def _column_weights(predicted: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """Least-squares weights of each column, shrunk towards those of all columns."""
    there = ~np.isnan(predicted[0])
    common = _weights(predicted[:, there], residuals[there], np.zeros(2), 0.0)
    weights = np.zeros((2, residuals.shape[1]))
    size = float(np.mean(predicted[:, there] ** 2))
    for j in range(residuals.shape[1]):
        mine = there[:, j]
        if mine.any():
            weights[:, j] = _weights(predicted[:, mine, j], residuals[mine, j], common, PRIOR_CELLS * size)
    return weights


def _weights(predicted: np.ndarray, residuals: np.ndarray, prior: np.ndarray, regularization: float) -> np.ndarray:
    gram = predicted @ predicted.T
    gram[np.diag_indices(2)] += regularization + 1e-9 * np.trace(gram) + 1e-300
    return np.asarray(np.clip(prior + np.linalg.solve(gram, predicted @ (residuals - prior @ predicted)), 0, 1))


def leave_out_shift(
    mean: np.ndarray, covariance: np.ndarray, filled: np.ndarray, missing: np.ndarray
) -> Callable[[int, np.ndarray], np.ndarray]:
    """Change of rows that a Gaussian filled if one observed cell were missing too.

    With precision K and the missing values m of a centered row z, removing j moves ``z_m`` by ``inv(K_mm) K_mj e``, where
    ``e = (K z)_j / (K_jj - K_jm inv(K_mm) K_mj)`` is the deviation of j from its conditional mean.

    Returns
    -------
    callable
        Of a column and rows: an (n, d) array to be added to these rows.
    """
    K = np.linalg.inv(covariance)
    off = (filled - mean) @ K
    inverses = [
        (batch, np.linalg.inv(K[batch.columns[:, :, None], batch.columns[:, None, :]]))
        for batch in find_patterns(missing).batches
        if batch.columns.shape[1]
    ]

    def shift(j: int, rows: np.ndarray) -> np.ndarray:
        moved, own = np.zeros(filled.shape), np.full(len(filled), K[j, j])
        for batch, inverse in inverses:
            along = (inverse @ K[batch.columns, j][:, :, None])[:, :, 0]
            own[batch.rows] -= batch.each(np.einsum("pk,pk->p", along, K[batch.columns, j]))
            moved[batch.rows[:, None], batch.columns[batch.pattern]] = batch.each(along)
        return np.asarray((moved * (off[:, j] / np.maximum(own, 1e-9))[:, None])[rows])

    return shift
