"""What instructions can do: each operation is a function of where it runs and of the values of its arguments."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Backend, HostEntries
from ..backends.hold_out import held_out

Operation = Callable[..., Any]


@dataclass(frozen=True)
class Where:
    """Where an operation runs: who computes, and on which rows (all columns for shared values)."""

    backend: Backend
    first: int = 0
    last: int = 0
    n2: int = 0


OPERATIONS: dict[str, Operation] = {}
PASSES = frozenset(  # those that go through the observations
    [
        "passed",
        "with_values",
        "with_weights",
        "rough",
        "line_sums",
        "products",
        "product",
        "held_back",
        "left_in_columns",
        "spare",
        "part",
        "some",
        "of_rows",
        "entries",
        "digest",
        "normal_rows",
        "normal_sums",
    ]
)
REBUILT = frozenset(  # what is no array of its own: made again from what it was made from
    ["observed", "with_values", "with_weights", "rough", "part", "products", "block_solver"]
)


def operation(function: Operation) -> Operation:
    OPERATIONS[function.__name__] = function
    return function


# -- arrays ----------------------------------------------------------------------------------------------------------
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "pow", "neg", "abs", "gt", "lt", "ge", "le", "eq", "ne", "and_", "or_")
}
FUNCTIONS |= {"invert": operator.invert, "getitem": operator.getitem, "matmul": operator.matmul, "mod": operator.mod}


TORCH = {"equal": "eq", "not_equal": "ne", "power": "pow", "invert": "bitwise_not"}  # where its names are others


@operation
def apply(where: Where, name: str, *args: Any) -> Any:
    """An operator, or a function of NumPy's."""
    if not where.backend.name.startswith("torch"):
        return (FUNCTIONS.get(name) or getattr(np, name))(*args)
    asarray = where.backend.asarray
    args = tuple(asarray(a) if getattr(a, "ndim", 0) else a for a in args)
    if name in FUNCTIONS:
        return FUNCTIONS[name](*args)
    if name in ("maximum", "minimum"):  # of tensors alone
        like = next(a for a in args if getattr(a, "ndim", 0))
        args = tuple(a if getattr(a, "ndim", 0) else 0 * like + a for a in args)
    return getattr(sys.modules["torch"], TORCH.get(name, name))(*args)


@operation
def call(where: Where, function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@operation
def method(where: Where, name: str, a: Any, *args: Any) -> Any:
    """A method or a property of an array."""
    found = getattr(a, name)
    return found(*args) if callable(found) else found


@operation
def compute(where: Where, name: str, *args: Any) -> Any:
    """What the backend can do with arrays; combinations that it would put off are computed now: kept from program to program
    they would hold all the arrays that they are made of.
    """
    found = getattr(where.backend, name)(*args)
    return where.backend.asarrays(found)[0] if name in ("product", "minus", "plus") else found


@operation
def constant(where: Where, a: Any) -> Any:
    return where.backend.asarray(a)


@operation
def item(where: Where, a: Any, k: int) -> Any:
    return a[k]


@operation
def side_by_side(where: Where, *blocks: Any) -> Any:
    return where.backend.concat(list(blocks))


@operation
def put(where: Where, a: Any, index: np.ndarray, value: Any) -> Any:
    """A copy with other values in some rows of the whole array."""
    out = where.backend.copy(a)
    here = index[(index >= where.first) & (index < where.last)] - where.first
    out[where.backend.asindex(here)] = value
    return out


@operation
def take(where: Where, a: Any, index: np.ndarray) -> Any:
    """Those of these rows of the whole array that are here, and where they stand among them."""
    at = np.flatnonzero((index >= where.first) & (index < where.last))
    return at, where.backend.to_numpy(a[where.backend.asindex(index[at] - where.first)])


@operation
def host(where: Where, a: Any) -> np.ndarray:
    return np.asarray(where.backend.to_numpy(a))


@operation
def selected(where: Where, a: Any, flags: Any) -> np.ndarray:
    return np.asarray(where.backend.to_numpy(a[flags]))


@operation
def places(where: Where, flags: Any) -> np.ndarray:
    return np.asarray(where.backend.to_numpy(where.backend.places(flags))) + where.first


@operation
def squared(where: Where, a: Any) -> float:
    return where.backend.norm(a) ** 2


@operation
def total(where: Where, a: Any, axis: int | None) -> Any:
    return _small(where, a.sum() if axis is None else a.sum(axis))


@operation
def extreme(where: Where, name: str, a: Any) -> float | None:
    """The largest or smallest entry; None where there is none."""
    return float(getattr(a, name)()) if len(a) else None


@operation
def small_qr(where: Where, a: Any) -> Any:
    return where.backend.qr(a)


@operation
def block_solver(where: Where, stack: Any) -> Any:
    return where.backend.block_solver(stack)


@operation
def solve_blocks(where: Where, solver: Any, a: Any) -> Any:
    return solver(where.backend.asarray(a))


@operation
def count_below(where: Where, a: Any, edges: np.ndarray) -> np.ndarray:
    """How many numbers lie in each bin."""
    return np.histogram(where.backend.to_numpy(a), edges)[0]


@operation
def between(where: Where, a: Any, low: float, high: float) -> np.ndarray:
    a = where.backend.to_numpy(a)
    return a[(a >= low) & (a <= high)]


def _small(where: Where, a: Any) -> Any:
    return np.asarray(where.backend.to_numpy(a)) if getattr(a, "ndim", 0) else np.asarray(where.backend.to_numpy(a))[()]


# -- observations ----------------------------------------------------------------------------------------------------
@operation
def observed(where: Where, obs: Any, name: str) -> Any:
    """Values or weights."""
    return getattr(obs, name)


@operation
def with_values(where: Where, obs: Any, values: Any) -> Any:
    return obs.with_values(values)


@operation
def with_weights(where: Where, obs: Any, weights: Any) -> Any:
    return obs.with_weights(None if weights is None else where.backend.asarray(weights))


@operation
def rough(where: Where, obs: Any) -> Any:
    return obs.rough


@operation
def passed(where: Where, name: str, obs: Any, *args: Any) -> Any:
    """A pass over the observations."""
    return getattr(obs, name)(*[where.backend.asarray(a) if isinstance(a, np.ndarray) else a for a in args])


@operation
def counts(where: Where, obs: Any, side: int) -> Any:
    return where.backend.copy(obs.counts(side)) if side else obs.counts(side)


@operation
def line_sums(where: Where, obs: Any, l1: Any, r1: Any, l2: Any, r2: Any, p: Any) -> np.ndarray:
    return np.array(obs.line_sums(((l1, r1), (l2, r2)), p))


@operation
def products(where: Where, obs: Any, p: Any) -> Any:
    return obs.products(p)


@operation
def product(where: Where, pair: Any, side: int, a: Any) -> Any:
    return pair[side](where.backend.asarray(a))


@operation
def size(where: Where, obs: Any) -> int:
    return int(obs.m)


@operation
def held_back(where: Where, obs: Any, offset: int, seed: int, share: float) -> np.ndarray:
    """Flags of the observations to be held back, the last ones of a row left out."""
    entries = obs.host()
    m = len(entries.values)
    taken = held_out(np.arange(offset, offset + m), seed, share)
    rows = np.repeat(np.arange(len(entries.indptr) - 1), np.diff(entries.indptr))
    taken &= (np.bincount(rows, ~taken, len(entries.indptr) - 1) > 0)[rows]
    return taken


@operation
def left_in_columns(where: Where, obs: Any, taken: np.ndarray) -> np.ndarray:
    return np.bincount(obs.host().indices, ~taken, where.n2)


@operation
def spare(where: Where, obs: Any, taken: np.ndarray, left: np.ndarray) -> np.ndarray:
    """The same flags, those left out whose column would be left with none."""
    return taken & (left > 0)[obs.host().indices]


@operation
def part(where: Where, obs: Any, taken: np.ndarray, wanted: bool) -> Any:
    """The observations that are held back, or the others."""
    flags = taken if wanted else ~taken
    entries = obs.host()
    indptr = np.concatenate([[0], np.cumsum(flags)])[entries.indptr]
    asarray = where.backend.asarray
    found = where.backend.make_observations(
        asarray(indptr), asarray(entries.indices[flags]), asarray(entries.values[flags]), where.n2
    )
    return found if entries.weights is None else found.with_weights(asarray(entries.weights[flags]))


@operation
def entries(where: Where, obs: Any) -> HostEntries:
    return obs.host()


@operation
def some(where: Where, obs: Any, offset: int, seed: int, share: float) -> tuple[np.ndarray, ...]:
    """Rows, columns, values and weights of about a share of the observations, drawn by a hash of their places."""
    entries = obs.host()
    at = np.flatnonzero(held_out(np.arange(offset, offset + len(entries.values)), seed, share))
    rows = np.searchsorted(entries.indptr, at, side="right") - 1 + where.first
    weights = np.ones(len(at)) if entries.weights is None else np.asarray(entries.weights)[at]
    return rows, np.asarray(entries.indices)[at].astype(np.int64), np.asarray(entries.values)[at], weights


@operation
def of_rows(where: Where, obs: Any, flags: np.ndarray) -> tuple[np.ndarray, ...]:
    """Rows, columns and weights of all observations in some rows."""
    entries = obs.host()
    rows = np.repeat(np.arange(len(flags)), np.diff(entries.indptr))
    there = flags[rows]
    weights = np.empty(0) if entries.weights is None else np.asarray(entries.weights)[there]
    return rows[there] + where.first, np.asarray(entries.indices)[there].astype(np.int64), weights


@operation
def digest(where: Where, obs: Any) -> str:
    """A number for all there is to know of these observations."""
    import hashlib

    found = hashlib.sha256()
    for a in obs.host():
        if a is not None:
            found.update(np.ascontiguousarray(a).tobytes())
    return found.hexdigest()


# -- the normal equations of columns: sums over blocks, then a small system for each -----------------------------------
@operation
def normal_rows(where: Where, obs: Any, other: Any, weights: Any, moments: Any, scale: Any, options: dict[str, Any]) -> Any:
    prior, shift = options["prior"], options["shift"]
    rest = {k: v for k, v in options.items() if k not in ("prior", "shift")}
    asarray = where.backend.asarray
    moments, scale = (None if a is None else asarray(a) for a in (moments, scale))
    return obs.normal_equations(
        False, asarray(other), asarray(prior), asarray(shift), weights=weights, moments=moments, scale=scale, **rest
    )


@operation
def normal_sums(where: Where, obs: Any, other: Any, weights: Any, moments: Any) -> Any:
    """Of a block's observations in each column: sums of ``w (y y^T + S)`` as upper triangles, of ``w r y``, of ``w r^2``."""
    backend = where.backend
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
def normal_columns(where: Where, sums: Any, scale: Any, options: dict[str, Any]) -> Any:
    """The systems solved: as :meth:`~lorank.backends.numpy_backend.ReferenceObservations.normal_equations`."""
    backend = where.backend
    packed, h, totals = (np.asarray(backend.to_numpy(a)) for a in sums)
    n, k = h.shape
    mean, squares = np.empty((n, k)), np.empty(n)
    covariance = np.empty((n, packed.shape[1])) if options["covariance"] else None
    for first in range(0, n, 1 << 14):
        some = slice(first, first + (1 << 14))
        c = np.ones(len(h[some])) if scale is None else np.asarray(backend.to_numpy(scale))[some]
        mean[some], cov, squares[some] = _solved(packed[some], h[some], totals[some], c, options)
        if covariance is not None:
            covariance[some] = cov
    asarray = backend.asarray
    return asarray(mean), None if covariance is None else asarray(covariance), asarray(squares)


def _solved(packed: np.ndarray, h: np.ndarray, totals: np.ndarray, c: np.ndarray, options: dict[str, Any]) -> Any:
    n, k = h.shape
    upper = np.triu_indices(k)
    A = np.empty((n, k, k))
    A[:, upper[0], upper[1]] = packed
    A[:, upper[1], upper[0]] = packed
    M = options["noise"] * A + c[:, None, None] * options["prior"]
    free = np.arange(k) != options["fixed"]
    rest = options["noise"] * h + c[:, None] * options["shift"] - M[:, :, ~free].sum(2)
    S = np.zeros_like(M)
    S[np.ix_(range(n), free, free)] = np.linalg.inv(M[:, free][:, :, free])
    x = np.einsum("nij,nj->ni", S, np.where(free, rest, 0))
    x[:, ~free] = 1
    squares = totals - 2 * (x * h).sum(1) + np.einsum("ni,nij,nj->n", x, A, x)
    if options["covariance"]:
        squares = squares + (A * S).sum((1, 2))
    return x, S[:, upper[0], upper[1]], squares
