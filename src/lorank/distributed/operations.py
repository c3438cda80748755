"""Operations of instructions: functions of the block that they run on and of the values of their arguments."""

from __future__ import annotations

import hashlib
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Backend
from ..backends.normal_equations import RowSystems, solve_systems
from ..backends.observations import held_out

Operation = Callable[..., Any]
COLUMNS = 1 << 14  # whose normal equations are held at a time


@dataclass(frozen=True)
class BlockContext:
    """Place of an operation: the backend, and the rows ``first .. last - 1`` of a block (all columns for shared values)."""

    backend: Backend
    first: int = 0
    last: int = 0
    n2: int = 0


PASSES = frozenset(  # operations that read the observations
    [
        *("passed", "with_values", "with_weights", "mixed_precision", "line_sums", "products", "product"),
        *("hold_out_rows", "kept_in_columns", "hold_out_columns", "part", "some", "of_rows", "entries", "digest"),
        *("normal_rows", "normal_sums"),
    ]
)
REBUILT = frozenset(  # operations whose results are not arrays: snapshots do not contain them, they are run again
    ["observed", "with_values", "with_weights", "mixed_precision", "part", "products", "block_solver"]
)


# -- short operations; c is the context ------------------------------------------------------------------------------
TALL = {"gram": (0, 1), "product": (0,), "minus": (0, 1), "plus": (0, 2)}  # operands that may be arrays of the host
OPERATIONS: dict[str, Operation] = {
    # arrays
    "call": lambda c, function, *args: function(*args),
    "constant": lambda c, a: c.backend.asarray(a),
    "item": lambda c, a, k: a[k],
    "host": lambda c, a: np.asarray(c.backend.to_numpy(a)),
    "selected": lambda c, a, flags: np.asarray(c.backend.to_numpy(a[flags])),
    "places": lambda c, flags: np.asarray(c.backend.to_numpy(c.backend.flatnonzero(flags))) + c.first,
    "all_finite": lambda c, a: c.backend.all_finite(a),
    "max_abs": lambda c, a: c.backend.max_abs(a),
    "squared": lambda c, a: c.backend.norm(a) ** 2,
    "total": lambda c, a, axis: _small(c, a.sum() if axis is None else a.sum(axis)),
    "extreme": lambda c, a, name: float(getattr(a, name)()) if len(a) else None,  # "min" or "max"; None for an empty block
    "histogram": lambda c, a, edges: np.histogram(c.backend.to_numpy(a), edges)[0],
    "concatenate": lambda c, *blocks: c.backend.concat([c.backend.asarray(a) for a in blocks]),
    "qr": lambda c, a: c.backend.qr(a),
    "block_solver": lambda c, stack: c.backend.block_solver(stack),
    "solve_blocks": lambda c, solver, a: solver(c.backend.asarray(a)),
    # observations
    "size": lambda c, obs: int(obs.m),
    "entries": lambda c, obs: obs.host(),
    "observed": lambda c, obs, name: getattr(obs, name),  # "values" or "weights"
    "with_values": lambda c, obs, values: obs.with_values(values),
    "with_weights": lambda c, obs, weights: obs.with_weights(None if weights is None else c.backend.asarray(weights)),
    "mixed_precision": lambda c, obs: obs.mixed_precision,
    "counts": lambda c, obs, side: c.backend.copy(obs.counts(side)) if side else obs.counts(side),
    "line_sums": lambda c, obs, l1, r1, l2, r2, p: np.array(obs.line_sums(((l1, r1), (l2, r2)), p)),
    "products": lambda c, obs, p: obs.products(p),
    "product": lambda c, pair, side, a: pair[side](c.backend.asarray(a)),
    "kept_in_columns": lambda c, obs, taken: np.bincount(obs.host().indices, ~taken, c.n2),
    "hold_out_columns": lambda c, obs, taken, kept: (
        taken & (c.backend.to_numpy(kept) > 0)[obs.host().indices]  # not the last of a column
    ),
}


def operation(function: Operation) -> Operation:
    OPERATIONS[function.__name__] = function
    return function


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "pow", "neg", "abs", "gt", "lt", "ge", "le", "eq", "ne", "and_", "or_")
}
FUNCTIONS |= {"invert": operator.invert, "getitem": operator.getitem, "matmul": operator.matmul, "mod": operator.mod}
TORCH = {"equal": "eq", "not_equal": "ne", "power": "pow", "invert": "bitwise_not"}  # names that differ from those of NumPy


@operation
def apply(context: BlockContext, name: str, *args: Any) -> Any:
    """An operator or a NumPy function."""
    if not context.backend.name.startswith("torch"):
        return (FUNCTIONS.get(name) or getattr(np, name))(*args)
    asarray = context.backend.asarray
    args = tuple(asarray(a) if getattr(a, "ndim", 0) else a for a in args)
    if name in FUNCTIONS:
        return FUNCTIONS[name](*args)
    if name in ("maximum", "minimum"):  # which take tensors only
        like = next(a for a in args if getattr(a, "ndim", 0))
        args = tuple(a if getattr(a, "ndim", 0) else 0 * like + a for a in args)
    return getattr(sys.modules["torch"], TORCH.get(name, name))(*args)


@operation
def method(context: BlockContext, name: str, a: Any, *args: Any) -> Any:
    """A method or property of an array."""
    found = getattr(a, name)
    return found(*args) if callable(found) else found


@operation
def compute(context: BlockContext, name: str, *args: Any) -> Any:
    """A method of the backend. Lazy results are evaluated: kept from program to program, they would hold their operands."""
    tall = TALL.get(name, ())
    found = getattr(context.backend, name)(*(context.backend.asarray(a) if k in tall else a for k, a in enumerate(args)))
    return context.backend.asarrays(found)[0] if name in ("product", "minus", "plus") else found


@operation
def put(context: BlockContext, a: Any, index: np.ndarray, value: Any) -> Any:
    """A copy with another value in some rows, given by their numbers in the whole array."""
    out = context.backend.copy(a)
    here = index[(index >= context.first) & (index < context.last)] - context.first
    out[context.backend.asindex(here)] = value
    return out


@operation
def take(context: BlockContext, a: Any, index: np.ndarray) -> Any:
    """Rows of this block among the requested rows of the whole array, with their positions in the request."""
    at = np.flatnonzero((index >= context.first) & (index < context.last))
    return at, context.backend.to_numpy(a[context.backend.asindex(index[at] - context.first)])


@operation
def between(context: BlockContext, a: Any, low: float, high: float) -> np.ndarray:
    a = context.backend.to_numpy(a)
    return a[(a >= low) & (a <= high)]


def _small(context: BlockContext, a: Any) -> Any:
    return np.asarray(context.backend.to_numpy(a)) if getattr(a, "ndim", 0) else np.asarray(context.backend.to_numpy(a))[()]


# -- observations ----------------------------------------------------------------------------------------------------
@operation
def passed(context: BlockContext, name: str, obs: Any, *args: Any) -> Any:
    """A method of the observations, with arrays on the device of the backend."""
    return getattr(obs, name)(*[context.backend.asarray(a) if isinstance(a, np.ndarray) else a for a in args])


@operation
def hold_out_rows(context: BlockContext, obs: Any, offset: int, seed: int, share: float) -> np.ndarray:
    """Flags of held-out observations, except in rows that would keep none."""
    entries = obs.host()
    m = len(entries.values)
    taken = held_out(np.arange(offset, offset + m), seed, share)
    rows = np.repeat(np.arange(len(entries.indptr) - 1), np.diff(entries.indptr))
    taken &= (np.bincount(rows, ~taken, len(entries.indptr) - 1) > 0)[rows]
    return taken


@operation
def part(context: BlockContext, obs: Any, taken: np.ndarray, wanted: bool) -> Any:
    """The observations that are held out, or the others."""
    return obs.part(context.backend.asarray(taken if wanted else ~taken))


@operation
def some(context: BlockContext, obs: Any, offset: int, seed: int, share: float) -> tuple[np.ndarray, ...]:
    """Rows, columns, values and weights of about a share of the observations, drawn by a hash of their positions."""
    entries = obs.host()
    at = np.flatnonzero(held_out(np.arange(offset, offset + len(entries.values)), seed, share))
    rows = np.searchsorted(entries.indptr, at, side="right") - 1 + context.first
    weights = np.ones(len(at)) if entries.weights is None else np.asarray(entries.weights)[at]
    return rows, np.asarray(entries.indices)[at].astype(np.int64), np.asarray(entries.values)[at], weights


@operation
def of_rows(context: BlockContext, obs: Any, flags: np.ndarray) -> tuple[np.ndarray, ...]:
    """Rows, columns and weights of all observations in the flagged rows."""
    entries = obs.host()
    rows = np.repeat(np.arange(len(flags)), np.diff(entries.indptr))
    there = flags[rows]
    weights = np.empty(0) if entries.weights is None else np.asarray(entries.weights)[there]
    return rows[there] + context.first, np.asarray(entries.indices)[there].astype(np.int64), weights


@operation
def digest(context: BlockContext, obs: Any) -> str:
    """SHA-256 of pattern, values and weights."""
    found = hashlib.sha256()
    for a in obs.host():
        if a is not None:
            found.update(np.ascontiguousarray(a).tobytes())
    return found.hexdigest()


# -- normal equations ------------------------------------------------------------------------------------------------
@operation
def normal_rows(context: BlockContext, obs: Any, other: Any, weights: Any, moments: Any, scale: Any, given: RowSystems) -> Any:
    other, prior, shift, moments, scale = (
        None if a is None else context.backend.asarray(a) for a in (other, given.prior, given.shift, moments, scale)
    )
    given = given._replace(other=other, prior=prior, shift=shift, moments=moments, weights=weights, scale=scale)
    return obs.normal_equations(False, **given._asdict())


@operation
def normal_sums(context: BlockContext, obs: Any, other: Any, weights: Any, moments: Any) -> Any:
    """Sums over the observations of each column: ``w (y y^T + S)`` as upper triangles, ``w r y`` and ``w r^2``."""
    backend = context.backend
    other = backend.asarray(other, np.float64)
    weighted = obs if weights is None else obs.with_weights(weights)
    w = weighted.weights
    values = backend.astype(weighted.values, np.float64)
    w = values * 0 + 1 if w is None else backend.astype(w, np.float64)
    a, b = np.triu_indices(other.shape[1])
    packed = weighted.blocks(1, other)[:, backend.asindex(a), backend.asindex(b)]
    if moments is not None:
        packed = packed + weighted.adjoint_times(w, backend.asarray(moments, np.float64))
    return packed, weighted.adjoint_times(w * values, other), weighted.sums(w * values**2, 1)


@operation
def normal_columns(context: BlockContext, sums: Any, scale: Any, given: RowSystems) -> Any:
    """Solutions of the systems of the columns, as ``normal_equations`` of a backend."""
    backend = context.backend
    packed, right, totals = (np.asarray(backend.to_numpy(a)) for a in sums)
    n, k = right.shape
    i, j = np.triu_indices(k)
    scale = np.ones(n) if scale is None else np.asarray(backend.to_numpy(scale))
    mean, cov, squares = np.empty((n, k)), np.empty((n if given.covariance else 0, len(i))), np.empty(n)
    for first in range(0, n, COLUMNS):
        some = slice(first, first + COLUMNS)
        A = np.empty((len(right[some]), k, k))
        A[:, i, j] = A[:, j, i] = packed[some]
        mean[some], found, squares[some] = solve_systems(A, right[some], totals[some], scale[some], given)
        if given.covariance:
            cov[some] = found
    asarray = backend.asarray
    return asarray(mean), asarray(cov) if given.covariance else None, asarray(squares)
