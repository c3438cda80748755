"""Training data and queries as users pass them: index pairs, ids, sparse matrices and data frames, checked and encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, column_or_1d

from ..common.checks import Expected, ParameterError, counted, shown
from ..problems import Completion
from ..problems.input_checks import as_shape
from .frames import (
    ROLES,
    column_names,
    encode_ids,
    is_frame,
    known_columns,
    named_column,
    pair_columns,
    positions_of,
    resolve_columns,
    union_ids,
    without_column,
)

MAX_VALUE = 1e120  # the squares of values and their sums must not overflow


@dataclass(frozen=True)
class Entries:
    """Observed entries: ``values[k]`` in row ``rows[k]`` and column ``cols[k]``.

    Attributes
    ----------
    rows, cols : (m,) int64 arrays
    values : (m,) array
    shape : (int, int) or None
        Shape of the matrix, where the data define it.
    ids : dict or None
        Ids of ``"rows"`` and ``"cols"`` in ascending order; None for index pairs.
    labels : dict or None
        Column names of a data frame: ``"row"``, ``"col"`` and ``"value"``.
    """

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray
    shape: tuple[int, int] | None = None
    ids: dict[str, np.ndarray] | None = None
    labels: dict[str, Any] | None = None


def read_entries(
    X: Any, y: Any, names: Sequence[Any] = (None, None, None), sample_weight: Any = None
) -> tuple[Entries, np.ndarray | None]:
    """Observed entries and their weights, as :meth:`MatrixCompletion.fit` takes them.

    Parameters
    ----------
    X : (m, 2) array, list of pairs, sparse matrix or data frame
        Whole numbers in an array or a list are indices. Text, and any column of a data frame, are ids.
    y : (m,) array or None
    names : sequence
        Columns of a data frame with rows, columns and values, each a name or None.
    sample_weight : (m,) array, column name or None
    """
    entries = _read_entries(without_column(X, sample_weight, names), y, names)
    return entries, check_weights(named_column(sample_weight, X, "sample_weight"), len(entries.values))


def _read_entries(X: Any, y: Any, names: Sequence[Any]) -> Entries:
    if not is_frame(X) and any(name is not None for name in names):
        raise ValueError(f"rows, cols and values are the names of columns of a data frame: X is {shown(X)}")
    if issparse(X) and y is None:
        coo = X.tocoo()
        if coo.ndim != 2:
            raise ParameterError("X", f"is a sparse array of shape {coo.shape}: a matrix has two dimensions")
        rows, cols = coo.row.astype(np.int64), coo.col.astype(np.int64)
        return Entries(rows, cols, check_values(coo.data, "X"), coo.shape)
    labels = None
    if is_frame(X):
        names = known_columns(X, names)
        labels = dict(zip(("row", "col", "value"), resolve_columns(X, names, ROLES, 2), strict=True))
    elif not _has_text(X):
        values, pairs = check_values(y), check_pairs(X)
        return Entries(pairs[:, 0], pairs[:, 1], _check_length(values, len(pairs)))
    first, second, given = pair_columns(X, y, names)
    (row_ids, rows), (col_ids, cols) = encode_ids(first, "row"), encode_ids(second, "column")
    values = _check_length(check_values(given), len(rows))
    return Entries(rows, cols, values, (len(row_ids), len(col_ids)), {"rows": row_ids, "cols": col_ids}, labels)


def find_pairs(X: Any, ids: dict[str, np.ndarray] | None, labels: dict[str, Any] | None) -> tuple[np.ndarray, np.ndarray]:
    """Row and column indices of index pairs, of pairs of ids or of a data frame; unknown ids get an index beyond the last."""
    if is_frame(X):
        there = column_names(X)
        names: tuple[Any, ...] = (None, None)
        if labels is not None and labels["row"] in there and labels["col"] in there:
            names = labels["row"], labels["col"]
        elif len(there) > 2:
            names = tuple(resolve_columns(X, names, ROLES[:2], 2)[:2])  # raises: the columns are ambiguous
        first, second, _ = pair_columns(X, None, (*names, None))
        if ids is None:
            X = np.column_stack([first, second])
    elif ids is not None:
        first, second, _ = pair_columns(X, None)
    if ids is None:
        if _has_text(X):
            raise ValueError("this model was fitted to index pairs, and X has text: pass rows and columns, counted from 0")
        pairs = check_pairs(X)
        return pairs[:, 0], pairs[:, 1]
    return positions_of(first, ids["rows"], "row"), positions_of(second, ids["cols"], "column")


def find_side(wanted: Any, ids: dict[str, np.ndarray] | None, side: str, word: str) -> np.ndarray:
    """Indices of some rows (columns), given as indices or ids; an unknown id gets an index beyond the last.

    Parameters
    ----------
    wanted : id or index, or list of them
    ids : dict or None
        Known ids of ``"rows"`` and ``"cols"``.
    side : {"rows", "cols"}
    word : str
        What a row (column) is called in messages.
    """
    if ids is not None:
        return positions_of(wanted, ids[side], word)
    _check_masked(wanted, side)
    if issparse(wanted):
        raise ParameterError(side, "must be a list of whole numbers, got a sparse matrix")
    found = np.atleast_1d(_array(wanted, side))
    if (found.dtype.kind not in "iu" and found.size) or found.ndim != 1 or (found.size and found.min() < 0):
        raise ParameterError(side, f"must be whole numbers from 0 on: got {shown(wanted)}")
    return np.minimum(found.astype(np.uint64), np.uint64(np.iinfo(np.int64).max)).astype(np.int64)


def find_known(wanted: Any, ids: dict[str, np.ndarray] | None, side: str, size: int, word: str) -> np.ndarray:
    """The same, with a ValueError for unknown rows (columns)."""
    found = find_side(wanted, ids, side, word)
    bad = np.flatnonzero(found >= size)
    if len(bad) and ids is None:
        raise ParameterError(side, f"must lie in 0 .. {size - 1}, got {found.max()}")
    if len(bad):
        unknown = np.atleast_1d(np.asarray(wanted, object))[bad[0]]
        raise ValueError(f"unknown {word} {unknown!r}: it was not in the data of the fit")
    return found


def full_shape(entries: Entries, shape: Any) -> tuple[int, int]:
    """Shape of the matrix: the one asked for, that of the data, or the smallest one that contains the indices."""
    if entries.ids is not None:
        if shape is not None:
            raise ParameterError(
                "shape", "is for index pairs: rows and columns with ids are as many as there are ids; leave it out"
            )
        assert entries.shape is not None
        return entries.shape
    n1, n2 = int(entries.rows.max()) + 1, int(entries.cols.max()) + 1
    asked = entries.shape if shape is None else shape
    if asked is not None:
        given = as_shape(asked)
        if given[0] < n1 or given[1] < n2:
            raise ValueError(f"shape {given} does not hold row {n1 - 1} and column {n2 - 1}")
        n1, n2 = given
    if max(n1, n2) > 1000 + 100 * len(entries.rows):
        raise ValueError(
            f"indices (or shape) reach {max(n1, n2) - 1:,} for {counted(len(entries.rows), 'observation')}: map ids to "
            "0 .. n-1 first, e.g. with numpy.unique(ids, return_inverse=True), or fit a data frame, whose ids may be any"
        )
    return n1, n2


@dataclass(frozen=True)
class Interactions:
    """Implicit feedback: ``counts[k]`` of user ``user_ids[users[k]]`` and item ``item_ids[items[k]]``, each pair once, by user.

    Attributes
    ----------
    users, items : (m,) int64 arrays
    counts : (m,) array
        Positive.
    user_ids, item_ids : arrays
        In ascending order.
    weights : (m,) array or None
        Positive factors on the confidence of each pair.
    """

    users: np.ndarray
    items: np.ndarray
    counts: np.ndarray
    user_ids: np.ndarray
    item_ids: np.ndarray
    weights: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.user_ids), len(self.item_ids)


def read_interactions(
    X: Any, counts: Any = None, names: Sequence[Any] = (None, None, None), weights: Any = None
) -> Interactions:
    """Implicit feedback from a sparse matrix (users by items), an (m, 2) array of ids, or a data frame."""
    if issparse(X):
        if counts is not None:
            raise ValueError("a sparse matrix comes with its own counts: leave y out")
        if len(X.shape) != 2:
            raise ParameterError("X", f"is a sparse array of shape {X.shape}: users by items has two dimensions")
        coo = X.tocoo()
        users, items, counts = coo.row.astype(np.int64), coo.col.astype(np.int64), coo.data
        ids = np.arange(X.shape[0]), np.arange(X.shape[1])
    else:
        first, second, counts = pair_columns(without_column(X, weights, names), counts, names)
        (user_ids, users), (item_ids, items) = encode_ids(first, "user"), encode_ids(second, "item")
        ids = user_ids, item_ids
    factors = check_weights(named_column(weights, X, "sample_weight"), len(users))
    return merge_pairs(users, items, check_counts(counts, len(users)), *ids, factors)


def merge_pairs(
    users: np.ndarray,
    items: np.ndarray,
    counts: np.ndarray,
    user_ids: np.ndarray,
    item_ids: np.ndarray,
    weights: np.ndarray | None = None,
) -> Interactions:
    """Each pair once, with the sum of its counts and the mean of its weights; pairs with count or weight 0 are dropped."""
    width = max(len(item_ids), 1)
    there = counts > 0 if weights is None else (counts > 0) & (weights > 0)
    keys, position = np.unique(users[there] * width + items[there], return_inverse=True)
    total = np.bincount(position.ravel(), counts[there], len(keys))
    if weights is not None:
        weights = np.bincount(position.ravel(), counts[there] * weights[there], len(keys)) / total
    return Interactions(keys // width, keys % width, total, user_ids, item_ids, weights)


def union_interactions(old: Interactions, new: Interactions) -> Interactions:
    """The pairs of both; counts of common pairs are added."""
    parts = old, new
    user_ids, item_ids = union_ids(old.user_ids, new.user_ids, "user"), union_ids(old.item_ids, new.item_ids, "item")
    users = np.concatenate([np.searchsorted(user_ids, part.user_ids)[part.users] for part in parts])
    items = np.concatenate([np.searchsorted(item_ids, part.item_ids)[part.items] for part in parts])
    weights = None
    if old.weights is not None or new.weights is not None:
        weights = np.concatenate([np.ones(len(part.users)) if part.weights is None else part.weights for part in parts])
    return merge_pairs(users, items, np.concatenate([old.counts, new.counts]), user_ids, item_ids, weights)


# -------------------------------------------------------------------------------------------------------------------- checks


def check_pairs(X: Any) -> np.ndarray:
    """Row and column of each observation, as an (m, 2) int64 array."""
    if issparse(X):
        raise ValueError("a sparse matrix comes without values y: fit(S). To predict, pass an (m, 2) array of index pairs")
    _check_masked(X, "X")
    if isinstance(X, (str, bytes)) or getattr(getattr(X, "dtype", None), "kind", "f") in "mM":
        raise ParameterError("X", f"must be an (m, 2) array of index pairs, got {shown(X)}")
    a = check_array(X, dtype=None, ensure_min_samples=0, ensure_min_features=1)
    if a.dtype.kind == "c":
        raise ValueError("Complex data not supported: pairs are rows and columns, whole numbers")
    if a.shape[1] != 2:
        raise ParameterError(
            "X", f"must have two columns, the row and the column of each observation: got {a.shape[1]} features"
        )
    if a.dtype.kind not in "iu":
        try:
            number = a.astype(float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"pairs must be whole numbers, map other ids with numpy.unique: {error}") from None
        bad = np.argwhere(number != np.floor(number))
        if len(bad):
            i, j = bad[0]
            raise ValueError(f"X[{i}, {j}] = {a[i, j]} is not a whole number: pairs are rows and columns, counted from 0")
        a = number
    if a.size and a.min() < 0:
        i, j = np.argwhere(a < 0)[0]
        raise ValueError(f"Negative values in data: X[{i}, {j}] = {a[i, j]} is not an index; rows and columns count from 0")
    if a.size and a.max() >= 2**31 - 1:
        raise ValueError(f"index {a.max()} is too large: map ids to 0 .. n-1 first, e.g. with numpy.unique")
    return np.asarray(a, dtype=np.int64)


def check_completion(problem: Completion, y: Any, sample_weight: Any, device: Any) -> None:
    """A ValueError for a Completion that no estimator takes."""
    if y is not None or sample_weight is not None:
        raise ValueError("a Completion has its values and weights: leave out y and sample_weight")
    if problem.loss is not None:
        raise ValueError(
            f"the Completion has loss={problem.loss.name!r}: make it without, and give the loss to MatrixCompletion"
        )
    if problem.dtype.kind == "c":
        raise ValueError("the Completion has complex values: estimators take real ones")
    if device is not None:
        raise ValueError("the observations of a Completion stay where they are: leave out device=, and use Completion.to there")


def check_values(y: Any, name: str = "y") -> np.ndarray:
    """Real and finite values."""
    if y is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: fit(pairs, values), or fit(S) with a sparse matrix"
        )
    _check_masked(y, name)
    if issparse(y):
        raise ParameterError(name, "is a sparse matrix: pass the values, one number for each pair, or fit(S) without y")
    a = _array(y, name)
    if a.ndim != 1 and (a.ndim != 2 or a.shape[1] != 1):
        raise ParameterError(name, f"should be a 1d array, got an array of shape {a.shape} instead: one number for each pair")
    a = _real(column_or_1d(a, warn=True), name)
    largest = max(float(a.max(initial=0)), -float(a.min(initial=0)))  # NaN where one is; no further array
    if not np.isfinite(largest):
        bad = int(np.flatnonzero(~np.isfinite(a))[0])
        what = "NaN" if np.isnan(a[bad]) else "infinity"
        raise ValueError(f"Input {name} contains {what}: values[{bad}]; leave out what was not observed")
    if largest > MAX_VALUE:
        raise ValueError(
            f"the largest of {name} is {largest:.1e} in size: divide {name} by {largest:.0e} first, so that squares fit"
        )
    return a


def check_weights(weights: Any, m: int) -> np.ndarray | None:
    if weights is None:
        return None
    _check_masked(weights, "sample_weight")
    if issparse(weights):
        raise ValueError("sample_weight is a sparse matrix: pass one number per observation")
    w = _real(_array(weights, "sample_weight"), "sample_weight")
    if w.ndim == 0 and np.isfinite(w) and w > 0:
        return None  # the same for all
    if w.shape != (m,):
        raise ValueError(
            f"sample_weight must have one number per observation: got shape {w.shape} for {counted(m, 'observation')}"
        )
    if not np.isfinite(w).all() or (w < 0).any() or not w.any():
        raise ValueError("sample_weight must be finite, not negative, and not all zero")
    largest, smallest = float(w.max()), float(w[w > 0].min())
    fine = 1e-50 < largest < 1e50 or smallest < 1e-12 * largest  # so far apart, they are refused later
    return w if fine else w / largest  # only ratios count, and sums must not overflow


def _are_bounds(bounds: Any) -> bool:
    pair = bounds.tolist() if isinstance(bounds, np.ndarray) else bounds
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        return False
    return all(isinstance(bound, Real) and not isinstance(bound, bool) for bound in pair) and bool(pair[0] < pair[1])


BOUNDS = Expected("be a pair of numbers (low, high) with low < high", _are_bounds)


def _array(a: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(a)
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise ParameterError(name, f"is not an array: {error}") from None


def _check_masked(a: Any, name: str) -> None:
    if np.ma.isMaskedArray(a):
        raise ParameterError(name, f"is a masked array: pass the observed entries alone, e.g. {name}.compressed()")


def _real(a: np.ndarray, name: str) -> np.ndarray:
    """Real numbers in double precision: complex ones are refused, not cut."""
    if a.dtype.kind == "c":
        raise ValueError(f"Complex data not supported by the estimators ({name} is complex): lorank.solve takes complex data")
    if a.dtype.kind in "biuf":
        return np.asarray(a, float)
    try:
        if a.dtype.kind in "mMV":
            raise TypeError
        return a.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, f"must be numbers, got {a.dtype}") from None


def _check_length(values: np.ndarray, m: int) -> np.ndarray:
    if len(values) != m:
        raise ValueError(f"X and y must be alike in length: got {counted(m, 'pair')} and {counted(len(values), 'value')}")
    return values


def _has_text(X: Any) -> bool:
    """Whether X contains pairs of ids, some of them text."""
    if isinstance(X, (list, tuple)):
        return (
            bool(X)
            and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in X)
            and any(isinstance(one, str) for pair in X for one in pair)
        )
    kind = getattr(getattr(X, "dtype", None), "kind", "f")
    if getattr(X, "ndim", 0) != 2 or X.shape[1] != 2 or kind not in "UTO" or np.ma.isMaskedArray(X):
        return False
    return kind != "O" or any(isinstance(one, str) for one in X.ravel().tolist())


def check_counts(counts: Any, m: int) -> np.ndarray:
    if counts is None:
        return np.ones(m)
    found = _real(_array(counts, "counts"), "counts")
    if found.shape != (m,):
        raise ParameterError(
            "counts", f"must be one number for each of {counted(m, 'pair')}, got an array of shape {found.shape}"
        )
    bad = np.flatnonzero(~np.isfinite(found) | (found < 0))
    if len(bad):
        raise ValueError(
            f"counts[{bad[0]}] = {found[bad[0]]:g}: counts are finite numbers, 0 or more; leave out disliked items, or "
            "fit MatrixCompletion to ratings"
        )
    return found
