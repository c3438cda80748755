"""Checks of the arrays, observed entries, loss options and functions that users pass to measurement models."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..backends import Array, Arrays, Backend, Observations, as_owned, backend_of
from ..common.checks import ParameterError, counted, shown
from ..losses import Loss

FLOATS = (np.float32, np.float64, np.complex64, np.complex128)
LIMIT = 2**31 - 1  # rows and columns: indices are stored in 32 bits
MAX_EMPTY = 10_000_000  # rows or columns that a matrix may have beyond ten for each observation
MAX_WEIGHT_RATIO = 1e12
Duplicates = Literal["error", "mean", "last", "sum"]


def as_shape(shape: Any) -> tuple[int, int]:
    """The shape as a pair of positive ints; whole floats are accepted."""
    try:
        sides = tuple(shape)
        whole = len(sides) == 2 and all(not isinstance(n, (bool, str)) and n == int(n) for n in sides)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise ParameterError("shape", f"must be a pair of integers (n1, n2), got {shown(shape)}")
    n1, n2 = (int(n) for n in sides)
    if n1 < 1 or n2 < 1:
        raise ParameterError("shape", f"must be a pair of positive integers, got {shown(shape)}")
    return n1, n2


def plain_array(a: Any, name: str) -> Array:
    """An array of its own backend, or a NumPy array of anything else."""
    if hasattr(a, "tocoo"):
        raise ParameterError(name, f"is a sparse matrix: pass {name}.toarray(), or use from_sparse")
    try:
        return as_owned(a)
    except (TypeError, ValueError) as error:
        raise ParameterError(name, f"must be an array of numbers: {error}") from None


def finite_array(a: Any, name: str) -> Array:
    """A floating-point array of its own backend without nan and inf; the error names the position of the first one."""
    if np.ma.isMaskedArray(a):
        raise ParameterError(name, "is a masked array: leave out missing measurements")
    if hasattr(a, "tocoo"):
        raise ParameterError(name, f"is a sparse matrix: pass {name}.toarray() if that fits in memory, or use from_functions")
    a = plain_array(a, name)
    backend = backend_of(a)
    dtype = backend.dtype(a)
    if dtype.kind not in "biufc":
        raise ParameterError(name, f"must be numbers, got {dtype}")
    if 0 in a.shape:
        raise ParameterError(name, f"is empty, of shape {tuple(a.shape)}")
    if dtype not in FLOATS or not dtype.isnative:
        single = dtype.newbyteorder("=") in FLOATS
        a = backend.astype(a, dtype.newbyteorder("=") if single else np.complex128 if dtype.kind == "c" else np.float64)
    if not backend.all_finite(a):
        place = ", ".join(str(k) for k in np.argwhere(~np.isfinite(backend.to_numpy(a)))[0])
        raise ValueError(f"{name}[{place}] is not finite: leave out missing measurements")
    return backend.detached(a)


def measurement_vector(y: Any) -> Array:
    """The measurements as a one-dimensional floating-point array."""
    y = finite_array(y, "y")
    if y.ndim != 1:
        raise ParameterError(
            "y", f"must be one-dimensional, got shape {y.shape}: pass the measurements themselves, one number each"
        )
    return y


def functions_of_numpy(y: Array, backend: Backend) -> bool:
    """Whether a user's functions take NumPy arrays, as they do where y is one; an error where the backend has none."""
    if not isinstance(y, np.ndarray):
        return False
    if not backend.in_main_memory:
        raise ParameterError(
            "y",
            f"is a NumPy array, so the functions are taken for functions of NumPy arrays, which {backend.name} cannot use: "
            "write them for tensors and pass y as a tensor on that device, or leave out backend",
        )
    return True


def check_function(name: str, function: Any, arguments: tuple[str, ...], gives: str) -> None:
    """Raise a ParameterError where ``function`` cannot be called with these arguments.

    Parameters
    ----------
    name : str
        Name of the parameter.
    function : object
    arguments : tuple of str
        Their names, for the message.
    gives : str
        Description of the return value, for the message.
    """
    wanted = f"{name}({', '.join(arguments)}), which returns {gives}"
    if not callable(function):
        raise ParameterError(name, f"must be a function, {wanted}: got {type(function).__name__}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # functions written in C may have no signature
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        own = getattr(function, "__name__", type(function).__name__)
        own = "a lambda" if own == "<lambda>" else own
        raise ParameterError(name, f"must be a function {wanted}: got {own}{signature}") from None


class RepeatedPairs(ValueError):
    """A pair of indices was observed more than once, and ``duplicates`` is ``"error"``."""


def index_array(a: Any, name: str) -> Array:
    """Non-negative integers below ``LIMIT``, as an integer array of its own backend."""
    a, backend, dtype = _vector(a, name)
    if not len(a):
        return backend.astype(a, np.int64)
    if dtype.kind not in "iuf":
        raise ParameterError(name, f"must be integers, got {dtype}: map other ids to 0 .. n-1 first, e.g. with numpy.unique")
    if dtype.kind == "f":
        a = backend.astype(a, np.float64)
        odd = ~(abs(a) < np.inf)  # nan and inf have no remainder
        odd = odd if odd.any() else ~(a % 1 == 0)
        if odd.any():
            k = backend.first_true(odd)
            raise ValueError(f"{name}[{k}] = {float(a[k])} is not a whole number: indices must be integers")
    if a.min() < 0 or a.max() >= LIMIT:
        k = backend.first_true((a < 0) | (a >= LIMIT))
        hint = "negative indices are not wrapped" if a[k] < 0 else f"at most {LIMIT:,} rows and columns"
        shown = float(a[k]) if dtype.kind == "f" and a[k] > 2**53 else int(a[k])
        raise ValueError(f"{name}[{k}] = {shown} is not an index: {hint}")
    return a if dtype in (np.int32, np.int64) and dtype.isnative else backend.astype(a, np.int64)


def value_array(a: Any, name: str = "values") -> Array:
    """A floating-point vector of its own backend: single precision is kept, integers become float64."""
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
    """Weights of m observations: finite, non-negative, not all zero, with ratios of at most ``MAX_WEIGHT_RATIO``."""
    a = value_array(a, "weights")
    backend = backend_of(a)
    if len(a) != m:
        raise ValueError(f"weights and values must have the same length: got {len(a):,} and {m:,}")
    if backend.is_complex(a):
        raise ValueError("weights are complex: pass real numbers, 0 or more")
    bad = ~(a >= 0) | (a == np.inf)  # also nan
    if bad.any():
        k = backend.first_true(bad)
        raise ValueError(f"weights[{k}] = {float(a[k])}: weights are numbers from 0 up")
    a = backend.astype(a, np.float64)
    top = float(a.max())
    if top == 0:
        raise ValueError("all weights are zero: at least one must be positive")
    if not 1e-50 < top < 1e50:
        raise ValueError(f"the largest weight is {top:.1e}: divide the weights by {top:.0e}, only their ratios matter")
    low = (a > 0) & (a < top / MAX_WEIGHT_RATIO)
    if low.any():
        k = backend.first_true(low)
        raise ValueError(
            f"weights[{k}] = {float(a[k]):.1e} and the largest is {top:.1e}: a ratio above {MAX_WEIGHT_RATIO:.0e} "
            "is lost in rounding; leave the observation out (weight 0), or bring the weights closer"
        )
    return a


def _vector(a: Any, name: str) -> tuple[Array, Arrays, np.dtype]:
    """A one-dimensional array, its backend and its dtype."""
    if np.ma.isMaskedArray(a):
        raise ParameterError(name, f"is a masked array: pass the observed entries alone, e.g. {name}.compressed()")
    a = plain_array(a, name)
    if a.ndim != 1:
        raise ParameterError(name, f"must be one-dimensional, got shape {tuple(a.shape)}")
    backend = backend_of(a)
    return a, backend, backend.dtype(a)


def check_shape(shape: Any, rows: Array, cols: Array) -> tuple[int, int]:
    """The shape as a pair of ints, by default just large enough; refused where nearly all rows or columns would be empty."""
    n1, n2 = (int(rows.max()) + 1, int(cols.max()) + 1) if shape is None else as_shape(shape)
    if max(n1, n2) > LIMIT:
        raise ValueError(f"shape {shown((n1, n2))} is too large: at most {LIMIT:,} rows and columns")
    if max(n1, n2) > MAX_EMPTY + 10 * len(rows):
        raise ValueError(
            f"shape {n1:,} x {n2:,} is far too large for {len(rows):,} observations: nearly all of it would be empty. "
            "Map ids to 0 .. n-1 first, e.g. with numpy.unique(ids, return_inverse=True)"
        )
    return n1, n2


def check_range(a: Array, n: int, name: str) -> None:
    """Raise a ValueError where an index is n or more."""
    if a.max() >= n:
        k = backend_of(a).first_true(a >= n)
        hint = "indices count from 0" if a[k] == n else "fix the index or enlarge shape"
        raise ValueError(f"{name}[{k}] = {a[k]} is outside 0 .. {n - 1}: {hint}")


def check_finite(values: Array, rows: Array, cols: Array) -> None:
    """Raise a ValueError that names the first value that is nan or inf, with its row and column."""
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
    """Merge repeated pairs into one observation each, with its weight. The last of a run was given last: the sort is stable."""
    if how == "error":
        k = int(repeated[0])
        row = int(np.searchsorted(indptr, k, side="right")) - 1
        raise RepeatedPairs(
            f"the pair (row {row}, column {indices[k]}) is observed more than once (places {order[k]} and {order[k + 1]}; "
            f"{counted(len(repeated), 'repetition')} in all): pass duplicates='mean', 'last' or 'sum' to merge them"
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


def check_merging(loss: Loss | None, duplicates: str, weighted: bool) -> None:
    """Raise a ValueError where the loss or the weights do not allow that way to merge repeated observations."""
    if weighted and duplicates == "sum":
        raise ValueError("duplicates='sum' has no meaning with weights: use 'mean' or 'last'")
    if loss is None or not loss.discrete or duplicates in ("error", "last"):
        return
    if (duplicates == "mean" and loss.exact_means) or (duplicates == "sum" and loss.name == "poisson"):
        return
    what = {"mean": "the mean of classes is no class", "sum": "the sum of classes is no class"}[duplicates]
    raise ValueError(f"duplicates={duplicates!r} has no meaning with loss={loss.name!r}, {what}: use 'last'")


def with_exposure(loss: Loss | None, exposure: Any, values: Array, weights: Any) -> tuple[Array, Array]:
    """Counts with exposures as rates with weights: ``e exp(z) - y z`` is e times ``exp(z) - (y / e) z``."""
    if loss is None or loss.name != "poisson":
        raise ParameterError("exposure", "is for counts, loss='poisson': leave it out, or divide the values by it")
    e = value_array(exposure, "exposure")
    backend = backend_of(values)
    e = backend.astype(backend.asarray(e), backend.dtype(values))
    if len(e) != len(values):
        raise ValueError(f"exposure and values must have the same length: got {len(e):,} and {len(values):,}")
    bad = ~((e > 0) & (e < float("inf")))
    if bad.any():
        k = backend.first_true(bad)
        raise ValueError(f"exposure[{k}] = {float(e[k])}: exposures are positive numbers; leave out entries without exposure")
    return values / e, e if weights is None else e * backend.asarray(value_array(weights, "weights"))


def sorted_observations(
    rows: Array, cols: Array, values: Array, weights: Array | None, shape: tuple[int, int], how: Duplicates, backend: Backend
) -> tuple[Observations, Array | range, Array]:
    """Checked entries as observations in row-major order, their positions before the sort, and the merged repetitions."""
    backend.check_memory(len(rows), shape, backend_of(values).dtype(values))
    rows, cols, values = backend.asindex(rows), backend.asindex(cols), backend.asarray(values)
    indptr, indices, y, order = backend.sorted_pattern(rows, cols, values, shape)
    repeated = backend.repetitions(indptr, indices)
    if weights is not None:
        weights = backend.asarray(weights)
        weights = weights if isinstance(order, range) else weights[order]
    if len(repeated):
        places, ptr, index, data, before = (backend.to_numpy(a) for a in (repeated, indptr, indices, y, order))
        merged = merge(how, places, ptr, index, data, before, None if weights is None else backend.to_numpy(weights))
        indptr, indices, y, weights = (None if a is None else backend.asarray(a) for a in merged)
    observations = backend.make_observations(indptr, indices, y, shape[1])
    return observations if weights is None else observations.with_weights(weights), order, repeated


@dataclass(frozen=True)
class GivenOrder:
    """The order in which a user passed observations, to undo their sorting.

    Attributes
    ----------
    m : int
        Number of observations passed.
    kept : (m,) bool array or None
        Observations of positive weight; None for all.
    order : array or range or None
        Position among those of each sorted observation.
    repeated : array or None
        Sorted observations whose successor has the same pair of indices.
    """

    m: int = 0
    kept: np.ndarray | None = None
    order: np.ndarray | range | None = None
    repeated: np.ndarray | None = None

    def restored(self, p: np.ndarray, missing: Any) -> np.ndarray:
        """One number per sorted observation, in the order of the user; ``missing`` for those of weight 0."""
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
