"""What estimators accept, and what they say where they do not."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d

from ..common.checks import ParameterError, counted, shown


def check_pairs(X: Any) -> np.ndarray:
    """Row and column of each observation, as an (m, 2) int64 array."""
    if hasattr(X, "tocoo"):
        raise ValueError("a sparse matrix comes without values y: fit(S). To predict, pass an (m, 2) array of index pairs")
    _refuse_masked(X, "X")
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
        raise ValueError(f"Negative values in data: X[{i}, {j}] = {a[i, j]} is no index; rows and columns count from 0")
    if a.size and a.max() >= 2**31 - 1:
        raise ValueError(f"index {a.max()} is too large: map ids to 0 .. n-1 first, e.g. with numpy.unique")
    return np.asarray(a, dtype=np.int64)


def check_values(y: Any, name: str = "y") -> np.ndarray:
    """Real and finite values."""
    if y is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: fit(pairs, values), or fit(S) with a sparse matrix"
        )
    _refuse_masked(y, name)
    if hasattr(y, "tocoo"):
        raise ParameterError(name, "is a sparse matrix: pass the values, one number for each pair, or fit(S) without y")
    a = _array(y, name)
    if a.ndim != 1 and (a.ndim != 2 or a.shape[1] != 1):
        raise ParameterError(name, f"should be a 1d array, got an array of shape {a.shape} instead: one number for each pair")
    a = _real(column_or_1d(a, warn=True), name)
    bad = np.flatnonzero(~np.isfinite(a))
    if len(bad):
        what = "NaN" if np.isnan(a[bad[0]]) else "infinity"
        raise ValueError(f"Input {name} contains {what}: values[{bad[0]}]; leave out what was not observed")
    largest = float(np.abs(a).max(initial=0))
    if largest > LARGEST:
        raise ValueError(
            f"the largest of {name} is {largest:.1e} in size: divide {name} by {largest:.0e} first, so that squares fit"
        )
    return a


LARGEST = 1e120  # the squares of values and their sums must not overflow


def check_positions(a: Any, name: str) -> np.ndarray:
    """Numbers of rows or columns, from 0 on, as an (m,) array."""
    _refuse_masked(a, name)
    if hasattr(a, "tocoo"):
        raise ParameterError(name, "must be a list of whole numbers, got a sparse matrix")
    found = np.atleast_1d(_array(a, name))
    if (found.dtype.kind not in "iu" and found.size) or found.ndim != 1:
        raise ParameterError(name, f"must be whole numbers, a list of them: got {shown(a)}")
    return found.astype(np.int64) if not found.size else found


def check_weights(weights: Any, m: int) -> np.ndarray | None:
    if weights is None:
        return None
    _refuse_masked(weights, "sample_weight")
    if hasattr(weights, "tocoo"):
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


def check_bounds(bounds: Any) -> None:
    if bounds is None:
        return
    pair = (isinstance(bounds, np.ndarray) and bounds.shape == (2,)) or (isinstance(bounds, (tuple, list)) and len(bounds) == 2)
    if not pair or not all(_is_bound(bound) for bound in bounds) or not bounds[0] < bounds[1]:
        raise ParameterError("bounds", f"must be a pair of numbers (low, high) with low < high, got {shown(bounds)}")


def _is_bound(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _array(a: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(a)
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise ParameterError(name, f"is no array: {error}") from None


def _refuse_masked(a: Any, name: str) -> None:
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
