"""What estimators accept, and what they say where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d


def check_pairs(X: Any) -> np.ndarray:
    """Row and column of each observation, as an (m, 2) int64 array."""
    if hasattr(X, "tocoo"):
        raise ValueError("a sparse matrix comes without values y: fit(S). To predict, pass an (m, 2) array of index pairs")
    a = check_array(X, dtype=None, ensure_min_samples=0, ensure_min_features=1)
    if a.dtype.kind == "c":
        raise ValueError("Complex data not supported: pairs are rows and columns, whole numbers")
    if a.shape[1] != 2:
        raise ValueError(f"X must have two columns, the row and the column of each observation: got {a.shape[1]} features")
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
        raise ValueError(f"Negative values in data: X[{i}, {j}] = {a[i, j]} is no index; rows and columns count from 0")
    if a.size and a.max() >= 2**31 - 1:
        raise ValueError(f"index {a.max()} is too large: map ids to 0 .. n-1 first, e.g. with numpy.unique")
    return np.asarray(a, dtype=np.int64)


def check_values(y: Any) -> np.ndarray:
    """Real and finite values."""
    if y is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: fit(pairs, values), or fit(S) with a sparse matrix"
        )
    a = column_or_1d(np.asarray(y), warn=True)
    if a.dtype.kind == "c":
        raise ValueError("Complex data not supported by the estimators: lorank.solve takes complex data")
    if a.dtype.kind not in "biuf":
        try:
            a = a.astype(float)
        except (TypeError, ValueError):
            raise ValueError(f"values must be numbers, got {a.dtype}") from None
    bad = np.flatnonzero(~np.isfinite(a))
    if len(bad):
        what = "NaN" if np.isnan(a[bad[0]]) else "infinity"
        raise ValueError(f"Input y contains {what}: values[{bad[0]}]; leave out what was not observed")
    return np.asarray(a, float)


def check_weights(weights: Any, m: int) -> np.ndarray | None:
    if weights is None:
        return None
    w = np.asarray(weights, float)
    if w.ndim == 0:
        return None
    if w.shape != (m,):
        raise ValueError(f"sample_weight must have one number an observation: got shape {w.shape} for {m} observations")
    if not np.isfinite(w).all() or (w < 0).any() or not w.any():
        raise ValueError("sample_weight must be finite, not negative, and not all zero")
    return w


def check_rank(rank: Any, top: int) -> int | str:
    if isinstance(rank, str) and rank == "auto":
        return rank
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 0:
        raise ValueError(f"rank must be a whole number from 0 on, or 'auto': got {rank!r}")
    if rank > top:
        raise ValueError(f"rank must be at most {top}, the smaller side of the matrix: got {rank}")
    return int(rank)


def check_strength(strength: Any) -> float | str:
    if isinstance(strength, str):
        return check_choice(strength, ("auto", "learned"), "regularization")
    if isinstance(strength, bool) or not isinstance(strength, (int, float, np.number)) or not 0 <= strength < np.inf:
        raise ValueError(f"regularization must be a number, 0 or more, or 'auto' or 'learned': got {strength!r}")
    return float(strength)


def check_choice(value: Any, choices: tuple[str, ...], name: str) -> str:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}: got {value!r}")
    return str(value)


def check_bounds(bounds: Any) -> None:
    if bounds is None:
        return
    if len(bounds) != 2 or not bounds[0] < bounds[1]:
        raise ValueError(f"bounds must be a pair (low, high) with low < high, got {bounds!r}")
