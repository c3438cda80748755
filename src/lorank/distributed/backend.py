"""The backend of partitions: observations in blocks of rows, tall arrays of rows with them, column factors at every site.

Small arrays stay with the caller, and so do arrays that were made there (zeros, a random start): they travel when they meet an
array that is spread.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends import Array, Backend, Observations, get_backend, register_backend
from ..backends.numpy_backend import Reference
from .arrays import COLS, ENTRIES, Spread, Whole, added
from .blocks import row_edges
from .engine import Engine, Local
from .graph import Graph
from .memory_limits import shown
from .multi_device import Together
from .observations import SpreadObservations
from .program import Plan, share_out
from .programs import BLOCK, SHARED, Pieces
from .shard import InMemory, Site

MOST_GRAMS = 500  # small matrices that are remembered
FEW = 1 << 20  # numbers: percentiles of fewer are found on the driver


class Partitioned(Reference):
    """Operations on arrays that are spread over blocks, and on those that are not.

    Parameters
    ----------
    holder : Backend
        Who computes with each block.
    others : sequence of Backend
        Further ones, among which blocks that come as arrays are dealt out: other GPUs, say.
    count : int
        Blocks to cut observations into that come as arrays.
    memory : int, optional
        Bytes that tall arrays may take, in all processes together.
    """

    in_main_memory = False
    covariances_on_disk = True  # those of rows, where blocks are mapped

    def __init__(self, holder: Backend, count: int, memory: int | None = None, others: Sequence[Backend] = ()) -> None:
        self.holder, self.count, self.others = holder, count, tuple(others)
        self.name = f"partitions:{count}:{'+'.join(one.name for one in (holder, *others))}"
        self.memory = memory

    # -- observations ------------------------------------------------------------------------------------------------
    def row_major_order(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        best: Any = get_backend()
        return np.asarray(best.row_major_order(rows, cols, shape))

    def make_observations(self, indptr: Array, indices: Array, values: Array, n2: int) -> Observations:
        """Observations that come as arrays, cut into blocks in memory."""
        count = min(self.count, int((np.diff(indptr) > 0).sum())) or 1
        plan = Plan((len(indptr) - 1, n2), tuple(int(e) for e in row_edges(np.diff(indptr), count)))
        holders = (self.holder, *self.others)[:count]
        sites, sizes = [], [0] * count
        for holder, numbers in zip(holders, share_out(count, len(holders)), strict=True):
            blocks, asarray = {}, holder.asarray
            for k in numbers:
                rows = plan.rows(k)
                part = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
                starts = np.ascontiguousarray(indptr[rows.start : rows.stop + 1] - indptr[rows.start])
                blocks[k] = holder.make_observations(asarray(starts), asarray(indices[part]), asarray(values[part]), n2)
                sizes[k] = blocks[k].m
            sites.append(Site(holder, plan, numbers, InMemory(blocks)))
        engine: Engine = Local(sites[0]) if len(sites) == 1 else Together(sites)
        return spread_observations(engine, sizes, np.dtype(values.dtype), False)

    def require_bytes(self, needed: int, what: str) -> None:
        if self.memory is not None and needed > self.memory:
            raise MemoryError(
                f"{what} take about {shown(needed)}, and {shown(self.memory)} are allowed: lower the rank, allow more, or "
                "use more workers"
            )

    # -- making arrays ---------------------------------------------------------------------------------------------
    def asarray(self, a: Array, dtype: Any = None) -> Array:
        if isinstance(a, Spread):
            return a if dtype is None else a.astype(dtype)
        return super().asarray(a, dtype)

    def random_normal(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
        """Drawn where blocks are computed with: of a run on a GPU, the host took almost half for it."""
        return np.asarray(self.holder.to_numpy(self.holder.random_normal(rng, shape, dtype)))

    def astype(self, a: Array, dtype: Any) -> Array:
        return a.astype(dtype) if isinstance(a, Spread) else super().astype(a, dtype)

    def to_numpy(self, a: Array) -> np.ndarray:
        return a.whole() if isinstance(a, Spread) else super().to_numpy(a)

    def copy(self, a: Array) -> Array:
        return a.copy() if isinstance(a, Spread) else super().copy(a)

    def release(self) -> None:
        for one in (self.holder, *self.others):
            one.release()

    # -- entries -----------------------------------------------------------------------------------------------------
    def all_finite(self, a: Array) -> bool:
        if not isinstance(a, Spread):
            return super().all_finite(a)
        found = a.graph.find([("compute", ("all_finite", a.node))])[0]
        return all(found) if isinstance(found, list) else bool(found)

    def largest(self, a: Array) -> float:
        if not isinstance(a, Spread):
            return super().largest(a)
        found = a.graph.find([("compute", ("largest", a.node))])[0]
        return float(np.max(found))  # nan where one is nan

    def first(self, flags: Array) -> int:
        return int(self.places(flags)[0]) if isinstance(flags, Spread) else super().first(flags)

    def places(self, flags: Array) -> Array:
        if not isinstance(flags, Spread):
            return super().places(flags)
        if flags.side == ENTRIES:
            return np.flatnonzero(flags.whole())
        found = flags.graph.find([("places", (flags.node,))])[0]
        return np.concatenate(found) if isinstance(found, list) else found

    def percentiles(self, a: Array, at: Sequence[float]) -> list[float]:
        if not isinstance(a, Spread):
            return super().percentiles(a, at)
        if a.side == COLS or len(a) <= FEW:
            return super().percentiles(a.whole(), at)
        return [self._percentile(a, q) for q in at]

    def median(self, a: Array) -> float:
        return self.percentiles(a, [50])[0] if isinstance(a, Spread) else super().median(a)

    def _percentile(self, a: Spread, q: float) -> float:
        """By bins that close in on it, until few numbers are left."""
        position = q / 100 * (len(a) - 1)
        low, high, before = a.min(), a.max(), 0
        while low < high:
            edges = np.linspace(low, high, 1025)
            counts = np.sum(a.graph.find([("count_below", (a.node, edges))])[0], axis=0)
            total = before + np.cumsum(counts)
            first = int(np.searchsorted(total, int(position), side="right"))
            last = int(np.searchsorted(total, min(int(position) + 1, len(a) - 1), side="right"))
            new_low, new_high = float(edges[first]), float(edges[last + 1])
            inside = int(counts[first : last + 1].sum())
            before += int(counts[:first].sum())
            if inside <= FEW or (new_low, new_high) == (low, high):
                found = np.sort(np.concatenate(a.graph.find([("between", (a.node, new_low, new_high))])[0]))
                place = position - int(a.apply("less", a, new_low).sum())
                k = min(max(int(place), 0), len(found) - 1)
                above = found[min(k + 1, len(found) - 1)]
                return float(found[k] + (place - int(place)) * (above - found[k]))
            low, high = new_low, new_high
        return low

    # -- tall arrays -------------------------------------------------------------------------------------------------
    def product(self, u: Array, a: Array) -> Array:
        if not isinstance(u, Spread):
            return super().product(u, a)
        return u.made("compute", "product", u, Whole(a), like=u.like @ a)

    def minus(self, y: Array, u: Array, a: Array) -> Array:
        own = _spread(y, u)
        if own is None:
            return super().minus(y, u, a)
        return own.made("compute", "minus", y, u, Whole(a), like=_like(y) - _like(u) @ a)

    def plus(self, u: Array, a: Array, v: Array, b: Array) -> Array:
        own = _spread(u, v)
        if own is None:
            return super().plus(u, a, v, b)
        return own.made("compute", "plus", u, Whole(a), v, Whole(b), like=_like(u) @ a + _like(v) @ b)

    def gram(self, a: Array, b: Array) -> np.ndarray:
        return self.gram_pairs([(a, b)])[0]

    def gram_pairs(self, pairs: Sequence[tuple[Array, Array]]) -> list[np.ndarray]:
        """``a^H b`` of several pairs, in one trip; those that are known cost none."""
        spread = [_spread(a, b) for a, b in pairs]
        keys = [_keys(a, b) for a, b in pairs]
        found: list[Any] = [
            super(Partitioned, self).gram(*pair) if own is None else own.graph.grams.get(key)
            for pair, own, key in zip(pairs, spread, keys, strict=True)
        ]
        missing = [k for k, one in enumerate(found) if one is None]
        if missing:
            wanted = []
            for k in missing:
                (a, b), own = pairs[k], spread[k]
                assert own is not None
                wanted.append(("compute", ("gram", own.operand(a), own.operand(b))))
            first = spread[missing[0]]
            assert first is not None
            for k, one in zip(missing, added(first, wanted), strict=True):
                found[k] = np.asarray(one)
            self._remember([pairs[k] for k in missing], [found[k] for k in missing])
        return [one.copy() for one in found]

    def prepare(self, *sides: Sequence[Array]) -> None:
        """All Gram products of each side, in one trip."""
        pairs = []
        for side in sides:
            arrays = list({id(a.node): a for a in side if isinstance(a, Spread)}.values())
            pairs += [(a, b) for k, a in enumerate(arrays) for b in arrays[k:]]
        if pairs:
            graph, found = pairs[0][0].graph, self.gram_pairs(pairs)
            graph.grams.clear()  # of iterations before
            self._remember(pairs, found)

    def _remember(self, pairs: Sequence[tuple[Array, Array]], found: Sequence[np.ndarray]) -> None:
        for (a, b), one in zip(pairs, found, strict=True):
            if isinstance(a, Spread) and isinstance(b, Spread):
                known = a.graph.grams
                if len(known) > MOST_GRAMS:
                    known.clear()
                known[_keys(a, b)], known[_keys(b, a)] = one, one.conj().T

    def extend_basis(self, u: Array, y: Array) -> tuple[Array, np.ndarray] | None:
        if isinstance(u, Spread) and isinstance(y, Spread):
            self.gram_pairs([(u, y), (y, y)])  # both in one trip: they are known then
        return super().extend_basis(u, y)

    def extend_bases(self, pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, np.ndarray]] | None:
        if all(isinstance(a, Spread) for pair in pairs for a in pair):
            self.gram_pairs([one for u, y in pairs for one in ((u, y), (y, y))])
        return super().extend_bases(pairs)

    def concat(self, blocks: Sequence[Array], axis: int = 1) -> Array:
        own = _spread(*blocks)
        if own is None:
            return super().concat(blocks, axis)
        if axis == 0:
            return np.concatenate([np.asarray(b) for b in blocks])
        return own.made("side_by_side", *blocks, like=np.concatenate([_like(b) for b in blocks], axis=1))

    def entries(self, left: Array, right: Array, rows: Array, cols: Array) -> Array:
        left, right = (a.rows(k) if isinstance(a, Spread) else a[k] for a, k in ((left, rows), (right, cols)))
        every = np.arange(len(left))
        return super().entries(left, right, every, every)

    def norm(self, a: Array) -> float:
        return self.norms([a])[0]

    def norms(self, arrays: Sequence[Array]) -> list[float]:
        missing = [a for a in arrays if isinstance(a, Spread) and ("squared", a.node.key) not in a.graph.numbers]
        if missing:
            known = missing[0].graph.numbers
            for a, one in zip(missing, added(missing[0], [("squared", (a.node,)) for a in missing]), strict=True):
                known["squared", a.node.key] = one
        return [
            float(np.sqrt(a.graph.numbers["squared", a.node.key]))
            if isinstance(a, Spread)
            else super(Partitioned, self).norm(a)
            for a in arrays
        ]

    def squared_norm(self, a: Array) -> float:
        return self.norm(a) ** 2 if isinstance(a, Spread) else super().squared_norm(a)

    def inner(self, a: Array, b: Array) -> float:
        return self.inners([(a, b)])[0]

    def inners(self, pairs: Sequence[tuple[Array, Array]]) -> list[float]:
        owners = [_spread(*pair) for pair in pairs]
        wanted = [
            ("compute", ("inner", own.operand(a), own.operand(b)))
            for (a, b), own in zip(pairs, owners, strict=True)
            if own is not None
        ]
        first = next((own for own in owners if own is not None), None)
        # A slope along a vector is followed by its length: squares of what is made in this trip come along.
        fresh = [b for _, b in pairs if isinstance(b, Spread) and not b.node.stored]
        asked = [*wanted, *(("squared", (b.node,)) for b in fresh)]
        results = added(first, asked) if first is not None else []
        for b, one in zip(fresh, results[len(wanted) :], strict=True):
            b.graph.numbers["squared", b.node.key] = one
        found = iter(results)
        inner = super().inner
        return [inner(a, b) if own is None else float(next(found)) for (a, b), own in zip(pairs, owners, strict=True)]

    def row_squares(self, a: Array) -> Array:
        if not isinstance(a, Spread):
            return super().row_squares(a)
        return a.made("compute", "row_squares", a, like=super().row_squares(a.like))

    def qr(self, a: Array) -> tuple[Array, np.ndarray]:
        """By a QR of each block, and one of the small factors that they leave."""
        if not isinstance(a, Spread):
            return super().qr(a)
        kind = SHARED if a.side == COLS else BLOCK  # not the node's own, which may be a sum over blocks
        pair = a.graph.node(kind, "small_qr", a.node)
        q = Spread(a.graph, a.graph.node(kind, "item", pair, 0), a.side, a.sizes, a.like)
        found = a.graph.find([("item", (pair, 1))])[0]
        if a.side == COLS:
            return q, np.asarray(found)
        factors = [np.asarray(self.holder.to_numpy(k)) for k in found]
        top, k = np.linalg.qr(np.concatenate(factors))
        parts = np.split(top, np.cumsum([len(one) for one in factors])[:-1])
        return q.made("compute", "product", q, Pieces(parts), like=a.like[:, : top.shape[1]]), k

    def basis(self, n: int, width: int, dtype: Any) -> Any:
        return GrowingBasis(self)

    def block_solver(self, stack: Array) -> Callable[[Array], Array]:
        if not isinstance(stack, Spread):
            return super().block_solver(stack)
        solver = stack.made("block_solver", stack, like=stack.like)
        return lambda a: solver.made("solve_blocks", solver, _pieced(a, solver), like=_like(a).astype(stack.dtype))


class GrowingBasis:
    """Orthonormal columns that grow by blocks (see :class:`~lorank.backends.basis.Basis`); nothing is changed in place."""

    def __init__(self, backend: Partitioned) -> None:
        self.backend = backend
        self._all: Any = None
        self.last: Any = None

    def append(self, q: Array) -> None:
        self._all = q if self._all is None else self.backend.concat([self._all, q])
        self.last = q

    def without(self, y: Array) -> tuple[Array, np.ndarray]:
        return self.backend.without(self._all, y)

    def extend(self, y: Array) -> np.ndarray:
        extended = self.backend.extend_basis(self._all, y)
        if extended is None:
            q, k = self.backend.qr(y)
            q, change = self.backend.qr(self.backend.without(self._all, q)[0])
            extended = q, change @ k
        self.append(extended[0])
        return extended[1]

    def product(self, p: Array) -> Array:
        return self.backend.product(self._all, p)

    def restart(self, q: Array) -> None:
        self._all = None
        self.append(q)

    def first(self, count: int) -> Array:
        return self.backend.copy(self._all[:, :count])


def spread_observations(engine: Engine, sizes: Sequence[int], dtype: np.dtype, weighted: bool) -> Any:
    """The observations that an engine holds."""
    graph = Graph(engine)
    return SpreadObservations(graph, graph.observations, tuple(sizes), np.zeros(0, dtype), weighted)


def _pieced(a: Any, like: Spread) -> Any:
    """The rows of a host array, cut as another array is, whatever its further axes."""
    return a if isinstance(a, Spread) else like.pieces(np.asarray(a))


def _spread(*arrays: Any) -> Spread | None:
    return next((a for a in arrays if isinstance(a, Spread)), None)


def _keys(a: Any, b: Any) -> Any:
    """By which a Gram product is known; arrays of the driver have no number."""
    return tuple(x.node.key if isinstance(x, Spread) else object() for x in (a, b))


def _like(a: Any) -> np.ndarray:
    return a.like if isinstance(a, Spread) else np.asarray(a)[:0]


def _make(place: str) -> Backend:
    """``"partitions:3:native"``: three blocks, each of the native backend; ``"partitions:4:torch:cuda:0+torch:cuda:1"``: four,
    dealt out to two.
    """
    count, _, holder = place.partition(":")
    if count and not count.isdigit():
        raise ValueError(f"backend 'partitions:{place}': a number of blocks comes first, as in 'partitions:4:native'")
    return _made(int(count or 4), holder or None)


@functools.cache
def _made(count: int, holder: str | None) -> Backend:
    if holder is None or "+" not in holder:
        return Partitioned(get_backend(holder), count)
    found: list[Backend] = []
    for name in holder.split("+"):
        one = get_backend(name)
        found.append(copy.deepcopy(one) if any(one is before for before in found) else one)  # each thread has its own
    return Partitioned(found[0], count, None, found[1:])


def _place(a: Any) -> str | None:
    return "" if isinstance(a, Spread) else None


register_backend("partitions", _make, _place)
