"""Backend of partitions: observations and row factors in blocks of rows, column factors on every shard.

Small arrays stay on the host, and so do arrays that were created there (zeros, a random start). They are sent to the shards
when they are combined with a distributed array.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from ..backends import Array, Backend, Observations, get_backend, register_backend
from ..backends.numpy_backend import NumpyBackend
from ..backends.orthonormal import Basis
from .arrays import COLS, ENTRIES, Broadcast, DistributedArray, block_sums
from .folder import row_edges
from .graph import Graph
from .multi_device import MultiDevice
from .observations import DistributedObservations
from .program import BLOCK, SHARED, BlockLayout, Sharded, assign_blocks
from .shard import Engine, LocalEngine, Shard

Method = TypeVar("Method", bound=Callable[..., Any])
MAX_CACHED_GRAMS = 500  # Gram matrices that are remembered
MAX_GATHERED = 1 << 20  # numbers of which percentiles are computed on the host


def for_distributed(method: Method) -> Method:
    """Decorator of a method for distributed arrays. Without one among the arguments, that of the NumPy backend runs."""
    on_host = getattr(NumpyBackend, method.__name__)

    @functools.wraps(method)
    def run(self: Any, *args: Any) -> Any:
        return (on_host if _distributed(*args) is None else method)(self, *args)

    return cast(Method, run)


class Partitioned(NumpyBackend):
    """Operations on distributed arrays and on host arrays.

    Parameters
    ----------
    block_backend : Backend
        Backend that computes with the blocks.
    count : int
        Number of blocks for observations that are given as arrays.
    max_memory : int, optional
        Limit on the bytes of tall arrays, in all processes together.
    others : sequence of Backend
        Further backends, other GPUs for example, among which the blocks of arrays are distributed.
    """

    in_main_memory = False
    covariances_on_disk = True  # of rows, if blocks are memory-mapped

    def __init__(
        self, block_backend: Backend, count: int, max_memory: int | None = None, others: Sequence[Backend] = ()
    ) -> None:
        self.block_backend, self.count, self.others = block_backend, count, tuple(others)
        self.name = f"partitions:{count}:{'+'.join(one.name for one in (block_backend, *others))}"
        self.max_memory = max_memory

    # -- observations ------------------------------------------------------------------------------------------------
    def row_major_order(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        best: Any = get_backend()
        return np.asarray(best.row_major_order(rows, cols, shape))

    def make_observations(self, indptr: Array, indices: Array, values: Array, n2: int) -> Observations:
        """Observations in blocks, in memory."""
        count = min(self.count, int((np.diff(indptr) > 0).sum())) or 1
        layout = BlockLayout((len(indptr) - 1, n2), tuple(int(e) for e in row_edges(np.diff(indptr), count)))
        backends = (self.block_backend, *self.others)[:count]
        shards, sizes = [], [0] * count
        for one, numbers in zip(backends, assign_blocks(count, len(backends)), strict=True):
            blocks, asarray = {}, one.asarray
            for k in numbers:
                rows = layout.rows(k)
                part = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
                starts = np.ascontiguousarray(indptr[rows.start : rows.stop + 1] - indptr[rows.start])
                blocks[k] = one.make_observations(asarray(starts), asarray(indices[part]), asarray(values[part]), n2)
                sizes[k] = blocks[k].m
            shards.append(Shard(one, layout, numbers, blocks.__getitem__))
        engine: Engine = LocalEngine(shards[0]) if len(shards) == 1 else MultiDevice(shards)
        return distributed_observations(engine, sizes, np.dtype(values.dtype), False)

    def check_bytes(self, needed: int, what: str) -> None:
        if self.max_memory is not None and needed > self.max_memory:
            raise MemoryError(
                f"{what} take about {format_bytes(needed)}, more than max_memory={format_bytes(self.max_memory)}: lower the "
                "rank, raise max_memory, or use more workers"
            )

    # -- creation and conversion -------------------------------------------------------------------------------------
    def asarray(self, a: Array, dtype: Any = None) -> Array:
        if isinstance(a, DistributedArray):
            return a if dtype is None else a.astype(dtype)
        return super().asarray(a, dtype)

    def random_normal(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
        """Drawn by the backend of the blocks: on the host it took almost half of a run on a GPU."""
        return np.asarray(self.block_backend.to_numpy(self.block_backend.random_normal(rng, shape, dtype)))

    @for_distributed
    def astype(self, a: Array, dtype: Any) -> Array:
        return a.astype(dtype)

    @for_distributed
    def to_numpy(self, a: Array) -> np.ndarray:
        return a.gather()

    @for_distributed
    def copy(self, a: Array) -> Array:
        return a.copy()

    def release(self) -> None:
        for one in (self.block_backend, *self.others):
            one.release()

    # -- elementwise operations --------------------------------------------------------------------------------------
    @for_distributed
    def all_finite(self, a: Array) -> bool:
        return all(a.parts("all_finite"))

    @for_distributed
    def max_abs(self, a: Array) -> float:
        return float(np.max(a.parts("max_abs")))  # nan where one is nan

    @for_distributed
    def flatnonzero(self, flags: Array) -> Array:
        if flags.side == ENTRIES:
            return np.flatnonzero(flags.gather())
        return np.concatenate(flags.parts("places"))

    @for_distributed
    def percentiles(self, a: Array, at: Sequence[float]) -> list[float]:
        if a.side == COLS or len(a) <= MAX_GATHERED:
            return super().percentiles(a.gather(), at)
        return [self._percentile(a, q) for q in at]

    @for_distributed
    def median(self, a: Array) -> float:
        return self.percentiles(a, [50])[0]

    def _percentile(self, a: DistributedArray, q: float) -> float:
        """Percentile by histograms of shrinking intervals, until few enough numbers remain to be gathered."""
        position = q / 100 * (len(a) - 1)
        low, high, before = a.min(), a.max(), 0
        while low < high:
            edges = np.linspace(low, high, 1025)
            counts = np.sum(a.parts("histogram", edges), axis=0)
            total = before + np.cumsum(counts)
            first = int(np.searchsorted(total, int(position), side="right"))
            last = int(np.searchsorted(total, min(int(position) + 1, len(a) - 1), side="right"))
            new_low, new_high = float(edges[first]), float(edges[last + 1])
            inside = int(counts[first : last + 1].sum())
            before += int(counts[:first].sum())
            if inside <= MAX_GATHERED or (new_low, new_high) == (low, high):
                found = np.sort(np.concatenate(a.parts("between", new_low, new_high)))
                place = position - int(a.apply("less", a, new_low).sum())
                k = min(max(int(place), 0), len(found) - 1)
                above = found[min(k + 1, len(found) - 1)]
                return float(found[k] + (place - int(place)) * (above - found[k]))
            low, high = new_low, new_high
        return low

    # -- tall arrays -------------------------------------------------------------------------------------------------
    @for_distributed
    def product(self, u: Array, a: Array) -> Array:
        return u.derive("compute", "product", u, Broadcast(a), like=u.like @ a)

    @for_distributed
    def minus(self, y: Array, u: Array, a: Array) -> Array:
        own: Any = _distributed(y, u)
        return own.derive("compute", "minus", y, u, Broadcast(a), like=_like(y) - _like(u) @ a)

    @for_distributed
    def plus(self, u: Array, a: Array, v: Array, b: Array) -> Array:
        own: Any = _distributed(u, v)
        return own.derive("compute", "plus", u, Broadcast(a), v, Broadcast(b), like=_like(u) @ a + _like(v) @ b)

    def gram(self, a: Array, b: Array) -> np.ndarray:
        return self.gram_pairs([(a, b)])[0]

    def gram_pairs(self, pairs: Sequence[tuple[Array, Array]]) -> list[np.ndarray]:
        """``a^H b`` of several pairs, in one round trip. Known products are not computed again."""
        owners = [_distributed(a, b) for a, b in pairs]
        keys = [_keys(a, b) for a, b in pairs]
        found: list[Any] = [
            super(Partitioned, self).gram(*pair) if own is None else own.graph.grams.get(key)
            for pair, own, key in zip(pairs, owners, keys, strict=True)
        ]
        missing = [k for k, one in enumerate(found) if one is None]
        if missing:
            wanted = []
            for k in missing:
                (a, b), own = pairs[k], owners[k]
                assert own is not None
                wanted.append(("compute", ("gram", own.operand(a), own.operand(b))))
            first = owners[missing[0]]
            assert first is not None
            for k, one in zip(missing, block_sums(first, wanted), strict=True):
                found[k] = np.asarray(one)
            self._remember([pairs[k] for k in missing], [found[k] for k in missing])
        return [one.copy() for one in found]

    def prepare_grams(self, *sides: Sequence[Array]) -> None:
        """Compute all Gram products of the arrays of each side, in one round trip."""
        pairs = []
        for side in sides:
            arrays = list({id(a.node): a for a in side if isinstance(a, DistributedArray)}.values())
            pairs += [(a, b) for k, a in enumerate(arrays) for b in arrays[k:]]
        if pairs:
            graph, found = pairs[0][0].graph, self.gram_pairs(pairs)
            graph.grams.clear()  # those of earlier iterations
            self._remember(pairs, found)

    def _remember(self, pairs: Sequence[tuple[Array, Array]], found: Sequence[np.ndarray]) -> None:
        for (a, b), one in zip(pairs, found, strict=True):
            if isinstance(a, DistributedArray) and isinstance(b, DistributedArray):
                known = a.graph.grams
                if len(known) > MAX_CACHED_GRAMS:
                    known.clear()
                known[_keys(a, b)], known[_keys(b, a)] = one, one.conj().T

    def extend_basis(self, u: Array, y: Array) -> tuple[Array, np.ndarray] | None:
        if isinstance(u, DistributedArray) and isinstance(y, DistributedArray):
            self.gram_pairs([(u, y), (y, y)])  # both in one round trip; they are known afterwards
        return super().extend_basis(u, y)

    def extend_bases(self, pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, np.ndarray]] | None:
        if all(isinstance(a, DistributedArray) for pair in pairs for a in pair):
            self.gram_pairs([one for u, y in pairs for one in ((u, y), (y, y))])
        return super().extend_bases(pairs)

    def concat(self, blocks: Sequence[Array], axis: int = 1) -> Array:
        own = _distributed(*blocks)
        if own is None:
            return super().concat(blocks, axis)
        if axis == 0:
            return np.concatenate([np.asarray(b) for b in blocks])
        return own.derive("concatenate", *blocks, like=np.concatenate([_like(b) for b in blocks], axis=1))

    def entries(self, left: Array, right: Array, rows: Array, cols: Array) -> Array:
        left, right = (a.rows(k) if isinstance(a, DistributedArray) else a[k] for a, k in ((left, rows), (right, cols)))
        every = np.arange(len(left))
        return super().entries(left, right, every, every)

    def norm(self, a: Array) -> float:
        return self.norms([a])[0]

    def norms(self, arrays: Sequence[Array]) -> list[float]:
        missing = [a for a in arrays if isinstance(a, DistributedArray) and ("squared", a.node.key) not in a.graph.sums]
        if missing:
            known = missing[0].graph.sums
            for a, one in zip(missing, block_sums(missing[0], [("squared", (a.node,)) for a in missing]), strict=True):
                known["squared", a.node.key] = one
        return [
            float(np.sqrt(a.graph.sums["squared", a.node.key]))
            if isinstance(a, DistributedArray)
            else super(Partitioned, self).norm(a)
            for a in arrays
        ]

    @for_distributed
    def squared_norm(self, a: Array) -> float:
        return self.norm(a) ** 2

    def inner(self, a: Array, b: Array) -> float:
        return self.inners([(a, b)])[0]

    def inners(self, pairs: Sequence[tuple[Array, Array]]) -> list[float]:
        owners = [_distributed(*pair) for pair in pairs]
        wanted = [
            ("compute", ("inner", own.operand(a), own.operand(b)))
            for (a, b), own in zip(pairs, owners, strict=True)
            if own is not None
        ]
        first = next((own for own in owners if own is not None), None)
        # The inner product with a vector is usually followed by its norm: that of new vectors is computed in the same trip.
        fresh = [b for _, b in pairs if isinstance(b, DistributedArray) and not b.node.stored]
        asked = [*wanted, *(("squared", (b.node,)) for b in fresh)]
        results = block_sums(first, asked) if first is not None else []
        for b, one in zip(fresh, results[len(wanted) :], strict=True):
            b.graph.sums["squared", b.node.key] = one
        found = iter(results)
        inner = super().inner
        return [inner(a, b) if own is None else float(next(found)) for (a, b), own in zip(pairs, owners, strict=True)]

    @for_distributed
    def row_squares(self, a: Array) -> Array:
        return a.derive("compute", "row_squares", a, like=super().row_squares(a.like))

    @for_distributed
    def qr(self, a: Array) -> tuple[Array, np.ndarray]:
        """QR decomposition of each block, and one of the stacked triangular factors."""
        kind = SHARED if a.side == COLS else BLOCK  # the kind of the node may be SUM
        pair = a.graph.node(kind, "qr", a.node)
        like = a.like[:, : min(a.shape)]  # of columns; that of blocks is replaced below
        q = DistributedArray(a.graph, a.graph.node(kind, "item", pair, 0), a.side, a.sizes, like)
        found = a.graph.fetch([("item", (pair, 1))])[0]
        if a.side == COLS:
            return q, np.asarray(found)
        factors = [np.asarray(self.block_backend.to_numpy(k)) for k in found]
        top, k = np.linalg.qr(np.concatenate(factors))
        parts = np.split(top, np.cumsum([len(one) for one in factors])[:-1])
        return q.derive("compute", "product", q, Sharded(parts), like=a.like[:, : top.shape[1]]), k

    def basis(self, n: int, width: int, dtype: Any) -> Any:
        return GrowingBasis(self)

    @for_distributed
    def block_solver(self, stack: Array) -> Callable[[Array], Array]:
        solver = stack.derive("block_solver", stack, like=stack.like)
        return lambda a: solver.derive("solve_blocks", solver, _pieced(a, solver), like=_like(a).astype(stack.dtype))


class GrowingBasis(Basis):
    """Basis of distributed columns, which is not changed in place."""

    def __init__(self, backend: Partitioned) -> None:
        self.backend = backend
        self._columns: Any = None
        self._last: Any = None

    @property
    def columns(self) -> Array:
        return self._columns

    @property
    def last(self) -> Array:
        return self._last

    def append(self, q: Array) -> None:
        self._columns = q if self._columns is None else self.backend.concat([self._columns, q])
        self._last = q

    def restart(self, q: Array) -> None:
        self._columns = None
        self.append(q)

    def first(self, count: int) -> Array:
        return self.backend.copy(self._columns[:, :count])


def format_bytes(count: float) -> str:
    """A number of bytes with its unit."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"


def distributed_observations(engine: Engine, sizes: Sequence[int], dtype: np.dtype, weighted: bool) -> Any:
    """The observations of an engine."""
    graph = Graph(engine)
    return DistributedObservations(graph, graph.observations, tuple(sizes), np.zeros(0, dtype), weighted)


def _pieced(a: Any, like: DistributedArray) -> Any:
    """A host array split into the blocks of another array."""
    return a if isinstance(a, DistributedArray) else like.split_parts(np.asarray(a))


def _distributed(*arrays: Any) -> DistributedArray | None:
    return next((a for a in arrays if isinstance(a, DistributedArray)), None)


def _keys(a: Any, b: Any) -> Any:
    """Key of a Gram product. Host arrays have no key of their own."""
    return tuple(x.node.key if isinstance(x, DistributedArray) else object() for x in (a, b))


def _like(a: Any) -> np.ndarray:
    return a.like if isinstance(a, DistributedArray) else np.asarray(a)[:0]


def _make(name: str) -> Backend:
    """Backend of a name: ``"partitions:3:native"`` has three blocks of the native backend,
    ``"partitions:4:torch:cuda:0+torch:cuda:1"`` four blocks on two devices.
    """
    count, _, block_backend = name.partition(":")
    if count and not count.isdigit():
        raise ValueError(f"backend 'partitions:{name}' must begin with the number of blocks, as in 'partitions:4:native'")
    return _made(int(count or 4), block_backend or None)


@functools.cache
def _made(count: int, block_backend: str | None) -> Backend:
    if block_backend is None or "+" not in block_backend:
        return Partitioned(get_backend(block_backend), count)
    found: list[Backend] = []
    for name in block_backend.split("+"):
        one = get_backend(name)
        found.append(copy.deepcopy(one) if any(one is before for before in found) else one)  # one per thread
    return Partitioned(found[0], count, None, found[1:])


def _place(a: Any) -> str | None:
    return "" if isinstance(a, DistributedArray) else None


register_backend("partitions", _make, _place)
