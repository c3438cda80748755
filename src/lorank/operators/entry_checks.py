"""Checks of observed entries as users pass them in: index pairs and values."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..backends import dense_backend, is_tensor
from ..backends.dense import Array
from .array_checks import FLOATS

LIMIT = 2**31 - 1  # rows and columns: indices are kept in 32 bits
Duplicates = Literal["error", "mean", "last", "sum"]


def index_array(a: Any, name: str) -> Array:
    """Whole numbers from 0 up, as an integer array or tensor."""
    if is_tensor(a):
        return _index_tensor(a, name)
    if np.ma.isMaskedArray(a):
        raise ValueError(f"{name} is a masked array: pass the observed pairs alone, e.g. {name}.compressed()")
    a = np.asarray(a)
    if a.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {a.shape}")
    if a.dtype.kind == "f" and a.size:
        bad = np.flatnonzero(~(a == np.floor(a)) | np.isinf(a))
        if len(bad):
            raise ValueError(f"{name}[{bad[0]}] = {a[bad[0]]} is not a whole number: indices must be integers")
    if a.dtype.kind in "iuf" and a.size:
        outside = a.min() < 0 or a.max() >= LIMIT
        if outside:
            k = int(np.flatnonzero((a < 0) | (a >= LIMIT))[0])
            hint = "negative indices are not wrapped" if a[k] < 0 else f"at most {LIMIT:,} rows and columns"
            raise ValueError(f"{name}[{k}] = {a[k]} is no index: {hint}")
        return a if a.dtype in (np.int32, np.int64) and a.dtype.isnative else a.astype(np.int64)
    if not a.size:
        return a.astype(np.int64)
    raise ValueError(f"{name} must be integers, got {a.dtype}: map other ids to 0 .. n-1 first, e.g. with numpy.unique")


def _index_tensor(a: Any, name: str) -> Array:
    if a.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {tuple(a.shape)}")
    if a.is_floating_point() or a.is_complex() or dense_backend(a).dtype(a).kind == "b":
        raise ValueError(f"{name} must be integers, got {a.dtype}")
    if len(a) and (int(a.min()) < 0 or int(a.max()) >= LIMIT):
        k = dense_backend(a).first((a < 0) | (a >= LIMIT))
        hint = "negative indices are not wrapped" if int(a[k]) < 0 else f"at most {LIMIT:,} rows and columns"
        raise ValueError(f"{name}[{k}] = {int(a[k])} is no index: {hint}")
    return a


def value_array(a: Any) -> Array:
    if is_tensor(a):
        if a.ndim != 1:
            raise ValueError(f"values must be one-dimensional, got shape {tuple(a.shape)}")
        dtype = dense_backend(a).dtype(a)
        return a.detach() if dtype in FLOATS else dense_backend(a).astype(a, np.float64)
    if np.ma.isMaskedArray(a):
        raise ValueError("values is a masked array: pass the observed entries alone, e.g. values.compressed()")
    a = np.asarray(a)
    if a.ndim != 1:
        raise ValueError(f"values must be one-dimensional, got shape {a.shape}")
    if a.dtype in FLOATS and a.dtype.isnative:
        return a
    if a.dtype in (np.dtype(">f4"), np.dtype("<f4"), np.dtype(">c8"), np.dtype("<c8")):
        return a.astype(a.dtype.newbyteorder("="))
    if a.dtype.kind in "biuf":
        return a.astype(np.float64)
    if a.dtype.kind == "c":
        return a.astype(np.complex128)
    if not a.size:
        return np.empty(0)
    raise ValueError(f"values must be numbers, got {a.dtype}")


def check_shape(shape: Any, rows: Array, cols: Array) -> tuple[int, int]:
    if shape is None:
        return int(rows.max()) + 1, int(cols.max()) + 1
    try:
        n1, n2 = (int(n) for n in shape)
    except (TypeError, ValueError):
        raise ValueError(f"shape must be a pair of integers (n1, n2), got {shape!r}") from None
    if n1 < 1 or n2 < 1 or (n1, n2) != tuple(shape):
        raise ValueError(f"shape must be a pair of positive integers, got {shape!r}")
    if max(n1, n2) > LIMIT:
        raise ValueError(f"shape {n1} x {n2} is too large: at most {LIMIT:,} rows and columns")
    return n1, n2


def check_range(a: Array, n: int, name: str) -> None:
    if a.max() >= n:
        k = dense_backend(a).first(a >= n)
        hint = "indices count from 0" if a[k] == n else "fix the index or enlarge shape"
        raise ValueError(f"{name}[{k}] = {a[k]} is outside 0 .. {n - 1}: {hint}")


def check_finite(values: Array, rows: Array, cols: Array) -> None:
    if dense_backend(values).all_finite(values):
        return
    k = int(np.flatnonzero(~np.isfinite(dense_backend(values).to_numpy(values)))[0])
    raise ValueError(
        f"values[{k}] = {values[k]} (row {rows[k]}, column {cols[k]}) is not finite: leave unobserved entries out, or use "
        "Completion.from_dense for a table with nan"
    )


def merge(
    how: Duplicates, repeated: np.ndarray, indptr: np.ndarray, indices: np.ndarray, y: np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One observation for each pair. The order is stable, so the last of a run is the last one given."""
    if how == "error":
        k = int(repeated[0])
        row = int(np.searchsorted(indptr, k, side="right")) - 1
        raise ValueError(
            f"the pair (row {row}, column {indices[k]}) is observed more than once (places {order[k]} and {order[k + 1]}; "
            f"{len(repeated):,} repetitions in all): pass duplicates='mean', 'last' or 'sum' to say what they mean"
        )
    first = np.ones(len(y), bool)
    first[repeated + 1] = False
    starts = np.flatnonzero(first)
    if how == "last":
        merged = y[np.append(starts[1:], len(y)) - 1]
    else:
        merged = np.add.reduceat(y, starts)
        if how == "mean":
            merged = (merged / np.diff(np.append(starts, len(y)))).astype(y.dtype)
    return np.concatenate([[0], np.cumsum(first)])[indptr], indices[starts], merged
