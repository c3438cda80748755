"""Distributed arrays: rows of tall arrays with their blocks, one number per observation, or a copy on each shard."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .graph import Graph, Node
from .operations import FUNCTIONS
from .program import BLOCK, SHARED, Sharded, tree_total

ROWS, COLS, ENTRIES = "rows", "cols", "entries"


class DistributedArray:
    """Lazy array with one entry per row, column or observation along its first axis.

    Attributes
    ----------
    graph : Graph
    node : Node
    side : ROWS, COLS or ENTRIES
    sizes : tuple of int
        Lengths of its parts, one per block; an array of columns has one part.
    like : array
        Empty array with the same dtype and further axes.
    """

    __slots__ = ("__weakref__", "graph", "like", "node", "side", "sizes")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, graph: Graph, node: Node, side: str, sizes: tuple[int, ...], like: np.ndarray) -> None:
        self.graph, self.node, self.side, self.sizes, self.like = graph, node, side, sizes, like
        node.owner = weakref.ref(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(self.sizes), *self.like.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        return self.like.dtype

    @property
    def ndim(self) -> int:
        return self.like.ndim

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return sum(self.sizes)

    def __repr__(self) -> str:
        return f"DistributedArray({' x '.join(map(str, self.shape))}, {self.dtype}, {self.side} in {len(self.sizes)} blocks)"

    # -- operations block by block ---------------------------------------------------------------------------------------
    def derive(self, operation: str, *args: Any, like: np.ndarray, side: str | None = None) -> DistributedArray:
        """An array of the same length, computed by an operation."""
        kind = SHARED if self.side == COLS else BLOCK
        node = self.graph.node(kind, operation, *(self.operand(a) for a in args))
        return DistributedArray(self.graph, node, self.side if side is None else side, self.sizes, like)

    def operand(self, a: Any) -> Any:
        """An argument of an instruction. A host array as long as this one is split into blocks."""
        if isinstance(a, DistributedArray):
            if a.graph is not self.graph and len(a) == len(self):  # of other observations: through the driver
                return self.split_parts(a.gather())
            if a.side != self.side or a.sizes != self.sizes:
                raise ValueError(f"{self!r} and {a!r} have different blocks")
            return a.node
        if isinstance(a, Broadcast):
            return np.array(a)
        if isinstance(a, np.ndarray) and a.ndim:
            return self.split_parts(a) if self._parallel(a) else a.copy()
        return a

    def _parallel(self, a: np.ndarray) -> bool:
        """Whether the first axis of a host array is that of this array."""
        return a.ndim == self.ndim and len(a) == len(self) and len(a) != 1

    def split_parts(self, a: np.ndarray) -> Any:
        """A host array split into blocks."""
        a = a.copy()  # it is used later, and may be changed in place before
        return a if self.side == COLS else Sharded(np.split(a, np.cumsum(self.sizes)[:-1]))

    def apply(self, name: str, *args: Any) -> DistributedArray:
        """An elementwise operator or NumPy function of this array and others."""
        first = next(a for a in args if isinstance(a, DistributedArray))
        like = (FUNCTIONS.get(name) or getattr(np, name))(*(first._sample(a) for a in args))
        return first.derive("apply", name, *args, like=like)

    def map(self, function: Callable[..., Any], *others: Any) -> DistributedArray:
        """A function of the blocks of this array and of others. Scalars are passed to each block."""
        like = np.asarray(function(*(self._sample(a) for a in (self, *others))))
        return self.derive("call", function, self, *others, like=like)

    def fold(self, function: Callable[..., Any], *others: Any) -> Any:
        """The sum over all blocks of a function of the block."""
        return self.block_sum("call", function, self.node, *(self.operand(a) for a in others))

    def _sample(self, a: Any) -> Any:
        if isinstance(a, DistributedArray):
            return a.like
        return a[:0] if isinstance(a, np.ndarray) and self._parallel(a) else a

    def __array_ufunc__(self, ufunc: Any, how: str, *inputs: Any, **options: Any) -> Any:
        if how != "__call__" or options.pop("out", None) is not None or options or ufunc.nout != 1:
            return NotImplemented
        return self.apply(ufunc.__name__, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if not options and function.__name__ in ("where", "clip", "real", "imag", "nan_to_num"):
            return self.apply(function.__name__, *args)
        return function(*_gathered(args), **{name: _gathered(a) for name, a in options.items()})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        a = self.gather()
        return a if dtype is None else a.astype(dtype, copy=False)

    def conj(self) -> DistributedArray:
        return self if self.dtype.kind != "c" else self.derive("method", "conj", self, like=self.like)

    @property
    def real(self) -> DistributedArray:
        return self if self.dtype.kind != "c" else self.derive("method", "real", self, like=self.like.real)

    @property
    def T(self) -> np.ndarray:
        return self.gather().T

    def astype(self, dtype: Any, copy: bool = True) -> DistributedArray:
        if self.dtype == dtype:
            return self
        return self.derive("compute", "astype", self, np.dtype(dtype), like=self.like.astype(dtype))

    def clip(self, min: Any = None, max: Any = None) -> DistributedArray:
        found: DistributedArray = self
        if min is not None:
            found = self.apply("maximum", found, min)
        return found if max is None else self.apply("minimum", found, max)

    def reshape(self, *shape: Any) -> Any:
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if shape == self.shape:
            return self
        return self.gather().reshape(shape)

    def ravel(self) -> Any:
        return self if self.ndim == 1 else self.gather().ravel()

    def copy(self) -> DistributedArray:
        return self.derive("compute", "copy", self, like=self.like)

    def __matmul__(self, a: np.ndarray) -> DistributedArray:
        return self.derive("apply", "matmul", self, Broadcast(a), like=self.like @ a)

    # -- indexing --------------------------------------------------------------------------------------------------------
    def __getitem__(self, key: Any) -> Any:
        first = key[0] if isinstance(key, tuple) else key
        if first is Ellipsis or (isinstance(first, slice) and first == slice(None)):
            return self.derive("apply", "getitem", self, _key(key), like=self.like[key])
        rest = key[1:] if isinstance(key, tuple) else ()
        found: Any
        if isinstance(first, DistributedArray):
            found = np.concatenate(self.parts("selected", first.node))
        elif isinstance(first, (int, np.integer)):
            found = self.rows([int(first)])[0]
            return found[rest] if rest else found
        elif isinstance(first, slice):
            found = self.rows(range(*first.indices(len(self))))
        else:
            found = self.rows(first)
        if any(isinstance(k, (list, np.ndarray)) for k in rest) and not isinstance(first, slice):
            return found[(np.arange(len(found)), *rest)]  # pairs of indices
        return found[(slice(None), *rest)] if rest else found

    def rows(self, index: Any) -> np.ndarray:
        """Some of its rows, as a host array."""
        index = self._numbers(index)
        out = np.empty((len(index), *self.like.shape[1:]), self.dtype)
        if self.side == ENTRIES:
            return self.gather()[index]
        if len(index):
            for at, some in self.parts("take", index):
                out[at] = some
        return out

    def _numbers(self, index: Any) -> np.ndarray:
        """Nonnegative row numbers of an index in the sense of NumPy."""
        index = np.asarray(index)
        index = np.flatnonzero(index) if index.dtype.kind == "b" else index.astype(np.int64)
        index = np.where(index < 0, index + len(self), index)
        if index.ndim != 1 or ((index < 0) | (index >= len(self))).any():
            raise IndexError(f"an index of {self!r} must be one list of rows in 0 .. {len(self) - 1}")
        return index

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, np.ndarray) and key.dtype.kind in "iu" and np.ndim(value) == 0 and self.side != ENTRIES:
            node = self.derive("put", self, Broadcast(self._numbers(key)), value, like=self.like).node
        else:
            whole = self.gather()
            whole[key] = value
            kind = SHARED if self.side == COLS else BLOCK
            node = self.graph.node(kind, "constant", self.split_parts(whole))
        self.node = node
        node.owner = weakref.ref(self)

    def gather(self) -> np.ndarray:
        """The whole array, on the host."""
        return np.concatenate(self.parts("host"))

    def parts(self, operation: str, *args: Any) -> list[Any]:
        """Values of an operation on each block of the array; one value for an array of columns."""
        found = self.graph.fetch([(operation, (self.node, *args))])[0]
        return [found] if self.side == COLS else found

    # -- reductions ------------------------------------------------------------------------------------------------------
    def block_sum(self, operation: str, *args: Any) -> Any:
        """The sum over all blocks of an operation."""
        return block_sums(self, [(operation, args)])[0]

    def sum(self, axis: int | None = None) -> Any:
        if axis not in (None, 0):
            return self.derive("method", "sum", self, axis, like=self.like.sum(axis))
        known = self.graph.sums
        if axis is not None:
            return self.block_sum("total", self.node, axis)
        if ("total", self.node.key) not in known:  # nodes are immutable
            known["total", self.node.key] = self.block_sum("total", self.node, None)
        return known["total", self.node.key]

    def mean(self, axis: int | None = None) -> Any:
        if axis not in (None, 0):
            return self.derive("method", "mean", self, axis, like=self.like.mean(axis))
        count = len(self) if axis == 0 else max(self.size, 1)
        return self.sum(axis) / count

    def max(self) -> float:
        return float(np.max([x for x in self.parts("extreme", "max") if x is not None]))  # nan where one is nan

    def min(self) -> float:
        return float(np.min([x for x in self.parts("extreme", "min") if x is not None]))

    def any(self) -> bool:
        return bool(self.apply("not_equal", self, 0).sum() > 0)

    def all(self) -> bool:
        return bool(self.apply("equal", self, 0).sum() == 0)


class Broadcast(np.ndarray):
    """Host array that every block receives whole, although its first axis may have the length of a distributed array."""

    def __new__(cls, a: Any) -> Any:
        return np.asarray(a).view(cls)


def _key(key: Any) -> Any:
    return Broadcast(key) if isinstance(key, np.ndarray) else key


def _gathered(a: Any) -> Any:
    """An argument of a NumPy function with distributed arrays replaced by host arrays, also in lists."""
    if isinstance(a, (list, tuple)):
        return type(a)(map(_gathered, a))
    return a.gather() if isinstance(a, DistributedArray) else a


def block_sums(like: DistributedArray, wanted: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
    """Sums over all blocks of several operations, in one round trip. A shared value is not summed."""
    found = like.graph.fetch(wanted)
    return [tree_total(one) if isinstance(one, list) else one for one in found]


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    def run(self: DistributedArray, *others: Any) -> Any:
        if others and not isinstance(others[0], (DistributedArray, np.ndarray, int, float, complex, np.generic)):
            return NotImplemented
        return self.apply(name, *others, self) if swapped else self.apply(name, self, *others)

    return run


for _name in ("add", "sub", "mul", "truediv", "pow", "gt", "lt", "ge", "le", "eq", "ne", "neg", "abs", "invert", "mod"):
    setattr(DistributedArray, f"__{_name}__", _operator(_name))
for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(DistributedArray, f"__r{_name}__", _operator(_name, True))
DistributedArray.__and__, DistributedArray.__or__ = _operator("and_"), _operator("or_")  # type: ignore
