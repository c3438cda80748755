"""Arrays that are spread over the blocks: their rows of tall arrays, numbers for each observation, or copies at each site."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .graph import Graph, Node
from .operations import FUNCTIONS
from .program import tree_total
from .programs import BLOCK, SHARED, Pieces

ROWS, COLS, ENTRIES = "rows", "cols", "entries"


class Spread:
    """An array whose first axis is that of the rows, of the columns or of the observations.

    Attributes
    ----------
    graph : Graph
    node : Node
    side : ROWS, COLS or ENTRIES
    sizes : tuple of int
        The lengths of its blocks; of columns, their number.
    like : array
        An empty array with its dtype and its further axes.
    """

    __slots__ = ("__weakref__", "graph", "like", "node", "side", "sizes")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, graph: Graph, node: Node, side: str, sizes: tuple[int, ...], like: np.ndarray) -> None:
        self.graph, self.node, self.side, self.sizes, self.like = graph, node, side, sizes, like
        node.owned = weakref.ref(self)

    # -- what it is ------------------------------------------------------------------------------------------------
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
        return f"Spread({' x '.join(map(str, self.shape))}, {self.dtype}, over {self.side} in {len(self.sizes)} blocks)"

    # -- functions of it, block by block -----------------------------------------------------------------------------
    def made(self, operation: str, *args: Any, like: np.ndarray, side: str | None = None) -> Spread:
        """Another array of the same length."""
        kind = SHARED if self.side == COLS else BLOCK
        node = self.graph.node(kind, operation, *(self.operand(a) for a in args))
        return Spread(self.graph, node, self.side if side is None else side, self.sizes, like)

    def operand(self, a: Any) -> Any:
        """As an argument of an instruction: an array as long as this one is cut into blocks."""
        if isinstance(a, Spread):
            if a.graph is not self.graph and len(a) == len(self):  # of other observations: by way of the driver
                return self.pieces(a.whole())
            if a.side != self.side or a.sizes != self.sizes:
                raise ValueError(f"{self!r} and {a!r} do not belong together")
            return a.node
        if isinstance(a, Whole):
            return np.array(a)
        if isinstance(a, np.ndarray) and a.ndim:
            return self.cut(a)
        return a

    def cut(self, a: np.ndarray) -> Any:
        """A host array that goes along with this one: cut where its first axis is this one's, else copied."""
        along = a.ndim == self.ndim and len(a) == len(self) and len(a) != 1
        return self.pieces(a) if along else a.copy()

    def pieces(self, a: np.ndarray) -> Any:
        a = a.copy()  # it is used later, and may be changed in place before
        return a if self.side == COLS else Pieces(np.split(a, np.cumsum(self.sizes)[:-1]))

    def apply(self, name: str, *args: Any) -> Spread:
        """An operator or a function of NumPy's of this array and others, entry by entry."""
        first = next(a for a in args if isinstance(a, Spread))
        like = (FUNCTIONS.get(name) or getattr(np, name))(*(first._sample(a) for a in args))
        return first.made("apply", name, *args, like=like)

    def map(self, function: Callable[..., Any], *others: Any) -> Spread:
        """A function of the blocks of this array and of others; numbers go to each of them."""
        like = np.asarray(function(*(self._sample(a) for a in (self, *others))))
        return self.made("call", function, self, *others, like=like)

    def fold(self, function: Callable[..., Any], *others: Any) -> Any:
        """The sum of what a function makes of the blocks."""
        return self.added("call", function, self.node, *(self.operand(a) for a in others))

    def _sample(self, a: Any) -> Any:
        if isinstance(a, Spread):
            return a.like
        if isinstance(a, np.ndarray) and a.ndim == self.ndim and len(a) == len(self) and len(a) != 1:
            return a[:0]
        return a

    def __array_ufunc__(self, ufunc: Any, how: str, *inputs: Any, **options: Any) -> Any:
        if how != "__call__" or options.pop("out", None) is not None or options or ufunc.nout != 1:
            return NotImplemented
        return self.apply(ufunc.__name__, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if not options and function.__name__ in ("where", "clip", "real", "imag", "nan_to_num"):
            return self.apply(function.__name__, *args)
        return function(*_on_the_driver(args), **{name: _on_the_driver(a) for name, a in options.items()})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        a = self.whole()
        return a if dtype is None else a.astype(dtype, copy=False)

    def conj(self) -> Spread:
        return self if self.dtype.kind != "c" else self.made("method", "conj", self, like=self.like)

    @property
    def real(self) -> Spread:
        return self if self.dtype.kind != "c" else self.made("method", "real", self, like=self.like.real)

    @property
    def T(self) -> np.ndarray:
        return self.whole().T

    def astype(self, dtype: Any, copy: bool = True) -> Spread:
        if self.dtype == dtype:
            return self
        return self.made("compute", "astype", self, np.dtype(dtype), like=self.like.astype(dtype))

    def clip(self, min: Any = None, max: Any = None) -> Spread:
        found: Spread = self
        if min is not None:
            found = self.apply("maximum", found, min)
        return found if max is None else self.apply("minimum", found, max)

    def reshape(self, *shape: Any) -> Any:
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if shape == self.shape:
            return self
        return self.whole().reshape(shape)

    def ravel(self) -> Any:
        return self if self.ndim == 1 else self.whole().ravel()

    def copy(self) -> Spread:
        return self.made("compute", "copy", self, like=self.like)

    def __matmul__(self, a: np.ndarray) -> Spread:
        return self.made("apply", "matmul", self, Whole(a), like=self.like @ a)

    # -- some of it --------------------------------------------------------------------------------------------------
    def __getitem__(self, key: Any) -> Any:
        first = key[0] if isinstance(key, tuple) else key
        if first is Ellipsis or (isinstance(first, slice) and first == slice(None)):
            return self.made("apply", "getitem", self, _key(key), like=self.like[key])
        rest = key[1:] if isinstance(key, tuple) else ()
        found: Any
        if isinstance(first, Spread):
            kept = self.graph.find([("selected", (self.node, first.node))])[0]
            found = kept if self.side == COLS else np.concatenate(kept)
        elif isinstance(first, (int, np.integer)):
            found = self.rows([int(first)])[0]
            return found[rest] if rest else found
        elif isinstance(first, slice):
            found = self.rows(range(*first.indices(len(self))))
        else:
            found = self.rows(first)
        if any(isinstance(k, (list, np.ndarray)) for k in rest) and not isinstance(first, slice):
            return found[(np.arange(len(found)), *rest)]  # entries one by one
        return found[(slice(None), *rest)] if rest else found

    def rows(self, index: Any) -> np.ndarray:
        """Some of its rows, on the driver."""
        index = self._numbers(index)
        out = np.empty((len(index), *self.like.shape[1:]), self.dtype)
        if self.side == ENTRIES:
            return self.whole()[index]
        if len(index):
            found = self.graph.find([("take", (self.node, index))])[0]
            for at, some in [found] if self.side == COLS else found:
                out[at] = some
        return out

    def _numbers(self, index: Any) -> np.ndarray:
        """Numbers of rows from 0 on, of an index as NumPy takes it: an IndexError where there is no such row."""
        index = np.asarray(index)
        index = np.flatnonzero(index) if index.dtype.kind == "b" else index.astype(np.int64)
        index = np.where(index < 0, index + len(self), index)
        if index.ndim != 1 or ((index < 0) | (index >= len(self))).any():
            raise IndexError(f"{self!r} has rows 0 .. {len(self) - 1}, to be asked for in one list")
        return index

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, np.ndarray) and key.dtype.kind in "iu" and np.ndim(value) == 0 and self.side != ENTRIES:
            node = self.made("put", self, Whole(self._numbers(key)), value, like=self.like).node
        else:
            whole = self.whole()
            whole[key] = value
            kind = SHARED if self.side == COLS else BLOCK
            node = self.graph.node(kind, "constant", self.pieces(whole))
        self.node = node
        node.owned = weakref.ref(self)

    def whole(self) -> np.ndarray:
        """All of it, on the driver."""
        found = self.graph.find([("host", (self.node,))])[0]
        return np.array(found) if self.side == COLS else np.concatenate(found)

    # -- numbers -----------------------------------------------------------------------------------------------------
    def added(self, operation: str, *args: Any) -> Any:
        """What the blocks find, added up."""
        return added(self, [(operation, args)])[0]

    def sum(self, axis: int | None = None) -> Any:
        if axis not in (None, 0):
            return self.made("method", "sum", self, axis, like=self.like.sum(axis))
        known = self.graph.numbers
        if axis is not None:
            return self.added("total", self.node, axis)
        if ("total", self.node.key) not in known:  # nodes do not change: what was asked for once costs no further trip
            known["total", self.node.key] = self.added("total", self.node, None)
        return known["total", self.node.key]

    def mean(self, axis: int | None = None) -> Any:
        if axis not in (None, 0):
            return self.made("method", "mean", self, axis, like=self.like.mean(axis))
        count = len(self) if axis == 0 else max(self.size, 1)
        return self.sum(axis) / count

    def _extreme(self, name: str) -> float:
        found = self.graph.find([("extreme", (name, self.node))])[0]
        if self.side == COLS:
            return float(found)
        there = [x for x in found if x is not None]
        if any(x != x for x in there):
            return float("nan")
        return float(max(there) if name == "max" else min(there))

    def max(self) -> float:
        return self._extreme("max")

    def min(self) -> float:
        return self._extreme("min")

    def any(self) -> bool:
        return bool(self.apply("not_equal", self, 0).sum() > 0)

    def all(self) -> bool:
        return bool(self.apply("equal", self, 0).sum() == 0)


class Whole(np.ndarray):
    """A host array that each block sees as a whole: a small matrix, or an index."""

    def __new__(cls, a: Any) -> Any:
        return np.asarray(a).view(cls)


def _key(key: Any) -> Any:
    return Whole(key) if isinstance(key, np.ndarray) else key


def _on_the_driver(a: Any) -> Any:
    """An argument of a function of NumPy's, arrays in lists included."""
    if isinstance(a, (list, tuple)):
        return type(a)(map(_on_the_driver, a))
    return a.whole() if isinstance(a, Spread) else a


def added(like: Spread, wanted: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
    """What the blocks find, added up; several at once. Shared values are taken as they are."""
    found = like.graph.find(wanted)
    return [tree_total(one) if isinstance(one, list) else one for one in found]


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    def run(self: Spread, *others: Any) -> Any:
        if others and not isinstance(others[0], (Spread, np.ndarray, int, float, complex, np.generic)):
            return NotImplemented
        return self.apply(name, *others, self) if swapped else self.apply(name, self, *others)

    return run


for _name in ("add", "sub", "mul", "truediv", "pow", "gt", "lt", "ge", "le", "eq", "ne", "neg", "abs", "invert", "mod"):
    setattr(Spread, f"__{_name}__", _operator(_name))
for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(Spread, f"__r{_name}__", _operator(_name, True))
Spread.__and__, Spread.__or__ = _operator("and_"), _operator("or_")  # type: ignore
