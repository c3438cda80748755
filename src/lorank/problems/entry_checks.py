"""Checks of observed entries as users pass them in: index pairs and values."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..backends import Array, Arrays, backend_of
from ..common.checks import ParameterError, counted, shown
from .input_checks import FLOATS, as_shape, plain_array

LIMIT = 2**31 - 1  # rows and columns: indices are kept in 32 bits
SPARSEST = 10_000_000  # rows or columns that a matrix may have beyond ten for each observation
MOST_WEIGHT = 1e12  # the largest ratio of two weights
Duplicates = Literal["error", "mean", "last", "sum"]


class RepeatedPairs(ValueError):
    """A pair was observed more than once, and nobody has said what that means."""


def index_array(a: Any, name: str) -> Array:
    """Whole numbers from 0 up, as an integer array of its owner's kind."""
    a, backend, dtype = _vector(a, name)
    if not len(a):
        return backend.astype(a, np.int64)
    if dtype.kind not in "iuf":
        raise ParameterError(name, f"must be integers, got {dtype}: map other ids to 0 .. n-1 first, e.g. with numpy.unique")
    if dtype.kind == "f":
        a = backend.astype(a, np.float64)
        odd = ~(abs(a) < np.inf)  # nan and inf, of which no remainder is to be asked for
        odd = odd if odd.any() else ~(a % 1 == 0)
        if odd.any():
            k = backend.first(odd)
            raise ValueError(f"{name}[{k}] = {float(a[k])} is not a whole number: indices must be integers")
    if a.min() < 0 or a.max() >= LIMIT:
        k = backend.first((a < 0) | (a >= LIMIT))
        hint = "negative indices are not wrapped" if a[k] < 0 else f"at most {LIMIT:,} rows and columns"
        shown = float(a[k]) if dtype.kind == "f" and a[k] > 2**53 else int(a[k])
        raise ValueError(f"{name}[{k}] = {shown} is no index: {hint}")
    return a if dtype in (np.int32, np.int64) and dtype.isnative else backend.astype(a, np.int64)


def value_array(a: Any, name: str = "values") -> Array:
    """Floating-point numbers, as an array of their owner's kind: single precision stays, integers become float64."""
    a, backend, dtype = _vector(a, name)
    if not len(a) and dtype.kind not in "fc":
        return backend.astype(a, np.float64)
    if dtype.kind not in "biufc":
        hint = ": map ordered classes to 1, 2, 3, ... first" if dtype.kind in "OSUT" else ""
        raise ParameterError(name, f"must be numbers, got {dtype}{hint}")
    native = dtype.newbyteorder("=")
    wanted = native if native in FLOATS else np.complex128 if dtype.kind == "c" else np.float64
    return backend.detached(a if dtype == wanted and dtype.isnative else backend.astype(a, wanted))


def weight_array(a: Any, m: int) -> Array:
    """Weights of m observations: finite, none negative, not all zero, and none so small beside the largest that it is lost."""
    a = value_array(a, "weights")
    backend = backend_of(a)
    if len(a) != m:
        raise ValueError(f"weights and values must be alike in length: got {len(a):,} and {m:,}")
    if backend.is_complex(a):
        raise ValueError("weights are complex: pass real numbers, 0 or more")
    bad = ~(a >= 0) | (a == np.inf)  # also nan
    if bad.any():
        k = backend.first(bad)
        raise ValueError(f"weights[{k}] = {float(a[k])}: weights are numbers from 0 up")
    a = backend.astype(a, np.float64)
    top = float(a.max())
    if top == 0:
        raise ValueError("all weights are zero: nothing is left to fit")
    if not 1e-50 < top < 1e50:
        raise ValueError(f"the largest weight is {top:.1e}: divide the weights by {top:.0e}, only their ratios matter")
    low = (a > 0) & (a < top / MOST_WEIGHT)
    if low.any():
        k = backend.first(low)
        raise ValueError(
            f"weights[{k}] = {float(a[k]):.1e} beside a largest of {top:.1e}: an observation that counts {MOST_WEIGHT:.0e} "
            "times less than another is lost in rounding; leave it out (weight 0), or bring the weights closer"
        )
    return a


def _vector(a: Any, name: str) -> tuple[Array, Arrays, np.dtype]:
    """A one-dimensional array, who computes with it, and its dtype."""
    if np.ma.isMaskedArray(a):
        raise ParameterError(name, f"is a masked array: pass the observed entries alone, e.g. {name}.compressed()")
    a = plain_array(a, name)
    if a.ndim != 1:
        raise ParameterError(name, f"must be one-dimensional, got shape {tuple(a.shape)}")
    backend = backend_of(a)
    return a, backend, backend.dtype(a)


def check_shape(shape: Any, rows: Array, cols: Array) -> tuple[int, int]:
    """The shape as a pair of ints: just large enough where none is given, and never far larger than the data can speak of."""
    n1, n2 = (int(rows.max()) + 1, int(cols.max()) + 1) if shape is None else as_shape(shape)
    if max(n1, n2) > LIMIT:
        raise ValueError(f"shape {shown((n1, n2))} is too large: at most {LIMIT:,} rows and columns")
    if max(n1, n2) > SPARSEST + 10 * len(rows):
        raise ValueError(
            f"shape {n1:,} x {n2:,} is far too large for {len(rows):,} observations: nearly all of it would be empty. "
            "Map ids to 0 .. n-1 first, e.g. with numpy.unique(ids, return_inverse=True)"
        )
    return n1, n2


def check_range(a: Array, n: int, name: str) -> None:
    if a.max() >= n:
        k = backend_of(a).first(a >= n)
        hint = "indices count from 0" if a[k] == n else "fix the index or enlarge shape"
        raise ValueError(f"{name}[{k}] = {a[k]} is outside 0 .. {n - 1}: {hint}")


def check_finite(values: Array, rows: Array, cols: Array) -> None:
    if backend_of(values).all_finite(values):
        return
    k = int(np.flatnonzero(~np.isfinite(backend_of(values).to_numpy(values)))[0])
    raise ValueError(
        f"values[{k}] = {values[k]} (row {rows[k]}, column {cols[k]}) is not finite: leave unobserved entries out, or use "
        "Completion.from_dense for a table with nan"
    )


def merge(
    how: Duplicates,
    repeated: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    y: np.ndarray,
    order: np.ndarray,
    weights: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """One observation for each pair, and its weight. The order is stable, so the last of a run is the last one given."""
    if how == "error":
        k = int(repeated[0])
        row = int(np.searchsorted(indptr, k, side="right")) - 1
        raise RepeatedPairs(
            f"the pair (row {row}, column {indices[k]}) is observed more than once (places {order[k]} and {order[k + 1]}; "
            f"{counted(len(repeated), 'repetition')} in all): pass duplicates='mean', 'last' or 'sum' to say what they mean"
        )
    first = np.ones(len(y), bool)
    first[repeated + 1] = False
    starts = np.flatnonzero(first)
    if how == "last":
        last = np.append(starts[1:], len(y)) - 1
        merged, weights = y[last], None if weights is None else weights[last]
    elif weights is not None:
        total = np.add.reduceat(weights, starts)
        merged, weights = (np.add.reduceat(weights * y, starts) / total).astype(y.dtype), total
    else:
        merged = np.add.reduceat(y, starts)
        if how == "mean":
            merged = (merged / np.diff(np.append(starts, len(y)))).astype(y.dtype)
    return np.concatenate([[0], np.cumsum(first)])[indptr], indices[starts], merged, weights
