"""Observations in blocks of rows. Results per row stay with their block, results per column are summed over blocks."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..backends import Array, HostEntries, Observations, Vector
from ..backends.normal_equations import NonnegativeSystems, RowSystems, normal_steps
from .arrays import COLS, ENTRIES, ROWS, DistributedArray
from .graph import Graph, Node
from .program import BLOCK, SHARED, SUM, Sharded, tree_total


class DistributedObservations(Observations):
    """Observations of all blocks.

    Attributes
    ----------
    graph : Graph
    node : Node
        Node whose value in each block is the observations of that block.
    sizes : tuple of int
        Number of observations in each block.
    """

    def __init__(self, graph: Graph, node: Node, sizes: tuple[int, ...], like: np.ndarray, weighted: bool) -> None:
        self.graph, self.node, self.sizes, self.like, self.weighted = graph, node, sizes, like, weighted
        self.shape, self.m = graph.layout.shape, sum(sizes)
        node.owner = weakref.ref(self)
        edges = graph.layout.edges
        self._row_sizes = tuple(b - a for a, b in itertools.pairwise(edges))
        self._col_sizes = (self.shape[1],)

    # -- content -------------------------------------------------------------------------------------------------------
    @functools.cached_property
    def values(self) -> Vector:
        return self._vector(self.graph.node(BLOCK, "observed", self.node, "values"), self.like)

    @functools.cached_property
    def weights(self) -> Vector | None:
        return self._vector(self.graph.node(BLOCK, "observed", self.node, "weights"), self.like.real) if self.weighted else None

    @property
    def rows(self) -> np.ndarray:
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), np.asarray(self.counts(0).gather()))

    @property
    def cols(self) -> np.ndarray:
        return self.host().indices

    def host(self) -> HostEntries:
        """All observations as host arrays, for small problems."""
        found: list[HostEntries] = self.graph.fetch([("entries", (self.node,))])[0]
        indptr = np.zeros(self.shape[0] + 1, np.int64)
        np.cumsum(np.concatenate([np.diff(one.indptr) for one in found]), out=indptr[1:])
        weights = None if not self.weighted else np.concatenate([np.asarray(one.weights) for one in found])
        indices, values = np.concatenate([one.indices for one in found]), np.concatenate([one.values for one in found])
        return HostEntries(indptr, indices, values, weights)

    def digest(self) -> str:
        """Hash of pattern, values and weights, from those of the blocks."""
        return " ".join(self.graph.fetch([("digest", (self.node,))])[0])

    def _with(
        self, operation: str, *args: Any, like: np.ndarray | None = None, weighted: bool | None = None
    ) -> DistributedObservations:
        node = self.graph.node(BLOCK, operation, self.node, *args)
        weighted = self.weighted if weighted is None else weighted
        return DistributedObservations(self.graph, node, self.sizes, self.like if like is None else like, weighted)

    def with_values(self, values: Vector) -> DistributedObservations:
        like = values.like if isinstance(values, DistributedArray) else np.asarray(values)[:0]
        return self._with("with_values", self._entries(values), like=like)

    def with_weights(self, weights: Vector | None) -> DistributedObservations:
        if weights is None:
            return self._with("with_weights", None, weighted=False)
        if len(weights) != self.m:
            raise ValueError(f"weights must have one number per observation ({self.m:,}), got {len(weights):,}")
        return self._with("with_weights", self._entries(weights), weighted=True)

    def split(self, seed: int, share: float) -> tuple[DistributedObservations, DistributedObservations] | None:
        make, offsets = self.graph.node, np.cumsum([0, *self.sizes[:-1]])
        first = make(BLOCK, "hold_out_rows", self.node, Sharded([int(k) for k in offsets]), seed, share)
        left = make(SUM, "kept_in_columns", self.node, first)
        taken = make(BLOCK, "hold_out_columns", self.node, first, left)
        parts = [make(BLOCK, "part", self.node, taken, wanted) for wanted in (False, True)]
        made = [DistributedObservations(self.graph, node, self.sizes, self.like, self.weighted) for node in parts]
        sizes = self.graph.fetch([("size", (node,)) for node in parts])
        if not sum(sizes[1]):
            return None
        for one, found in zip(made, sizes, strict=True):
            one.sizes, one.m = tuple(found), sum(found)
        return made[0], made[1]

    def some(self, seed: int, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rows, columns, values and weights of about a share of the observations, as host arrays; the same for a seed."""
        offsets = Sharded([int(k) for k in np.cumsum([0, *self.sizes[:-1]])])
        found = self.graph.fetch([("some", (self.node, offsets, seed, share))])[0]
        rows, cols, values, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, cols, values, weights

    def of_rows(self, flags: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Rows, columns and weights of the observations in the flagged rows, as host arrays."""
        found = self.graph.fetch([("of_rows", (self.node, Sharded(self.graph.layout.cut(flags))))])[0]
        rows, cols, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, cols, weights if self.weighted else None

    @functools.cached_property
    def mixed_precision(self) -> DistributedObservations:
        return self._with("mixed_precision")

    # -- arrays and arguments of each side -----------------------------------------------------------------------------
    def _vector(self, node: Node, like: np.ndarray) -> DistributedArray:
        return DistributedArray(self.graph, node, ENTRIES, self.sizes, like)

    def _rows(self, node: Node, like: np.ndarray) -> DistributedArray:
        return DistributedArray(self.graph, node, ROWS, self._row_sizes, like)

    def _cols(self, node: Node, like: np.ndarray) -> DistributedArray:
        return DistributedArray(self.graph, node, COLS, self._col_sizes, like)

    def _sided(self, side: int, like: np.ndarray, name: str, *args: Any) -> DistributedArray:
        """Result of a pass for each row, or for each column as a sum over blocks."""
        return self._cols(self._pass(SUM, name, *args), like) if side else self._rows(self._pass(BLOCK, name, *args), like)

    def _entries(self, p: Any) -> Any:
        """A vector with one number per observation, as an argument."""
        node, p = self._own(p)
        return node if node is not None or p is None else Sharded(np.split(p, np.cumsum(self.sizes)[:-1]))

    def _row_side(self, a: Any) -> Any:
        node, a = self._own(a)
        return node if node is not None or a is None else Sharded(self.graph.layout.cut(a))

    def _col_side(self, a: Any) -> Any:
        node, a = self._own(a)
        return a if node is None else node

    def _own(self, a: Any) -> tuple[Node | None, np.ndarray | None]:
        """The node of an array with the blocks of these observations; otherwise a copy on the host."""
        if isinstance(a, DistributedArray) and a.graph is self.graph:
            return a.node, None
        return None, None if a is None else np.array(a, order="C")

    def _other_side(self, side: int, a: Any) -> Any:
        return self._row_side(a) if side else self._col_side(a)

    def _factors(self, left: Any, right: Any) -> tuple[Any, Any]:
        return self._row_side(left), self._col_side(right)

    def _pass(self, kind: str, name: str, *args: Any) -> Node:
        return self.graph.node(kind, "passed", name, self.node, *args)

    # -- fused passes --------------------------------------------------------------------------------------------------
    def gradient_rows(self, u: Array, s: Array, v: Array) -> tuple[Array, Array, Array]:
        found = self._pass(BLOCK, "gradient_rows", self._row_side(u), np.array(s), self._col_side(v))
        number, make = np.zeros(0), self.graph.node
        sums, squares, misfit = (make(BLOCK, "item", found, k) for k in range(3))
        return self._rows(sums, self._sums_like(u)), self._rows(squares, number), self._rows(misfit, number)

    def gradient_cols(self, u: Array, s: Array, v: Array) -> tuple[Array, Array]:
        found = self._pass(SUM, "gradient_cols", self._row_side(u), np.array(s), self._col_side(v))
        sums, squares = (self.graph.node(SHARED, "item", found, k) for k in range(2))
        return self._cols(sums, self._sums_like(u)), self._cols(squares, np.zeros(0))

    def _sums_like(self, u: Array) -> np.ndarray:
        return np.zeros((0, u.shape[1]), self.like.dtype)

    # -- single passes -------------------------------------------------------------------------------------------------
    def sample(self, left: Array, right: Array) -> Vector:
        return self._sampled("sample", left, right)

    def residual(self, left: Array, right: Array) -> Vector:
        return self._sampled("residual", left, right)

    def _sampled(self, name: str, left: Array, right: Array) -> Vector:
        like = np.zeros(0, np.result_type(left.dtype, right.dtype, self.like.dtype))
        return self._vector(self._pass(BLOCK, name, *self._factors(left, right)), like)

    def line_sums(self, blocks: tuple[tuple[Array, Array], tuple[Array, Array]], p: Vector | None) -> tuple[float, float]:
        factors = [a for pair in blocks for a in self._factors(*pair)]
        found = self.graph.fetch([("line_sums", (self.node, *factors, self._entries(p)))])[0]
        inner, squares = tree_total(found)
        return float(inner), float(squares)

    def products(self, p: Vector) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        pair = self.graph.node(BLOCK, "products", self.node, self._entries(p))
        held = self._vector(pair, self.like)  # keeps the node alive
        dtype = p.dtype

        def times(v: Array) -> Array:
            node = self.graph.node(BLOCK, "product", held.node, 0, self._col_side(v))
            return self._rows(node, np.zeros((0, *v.shape[1:]), dtype))

        def adjoint_times(u: Array) -> Array:
            node = self.graph.node(SUM, "product", held.node, 1, self._row_side(u))
            return self._cols(node, np.zeros((0, *u.shape[1:]), dtype))

        return times, adjoint_times

    def times(self, p: Vector, v: Array) -> Array:
        return self._sided(0, np.zeros((0, v.shape[1]), p.dtype), "times", self._entries(p), self._col_side(v))

    def adjoint_times(self, p: Vector, u: Array) -> Array:
        return self._sided(1, np.zeros((0, u.shape[1]), p.dtype), "adjoint_times", self._entries(p), self._row_side(u))

    def gathered(self, w: Array, side: int) -> Array:
        return self._sided(side, np.zeros((0, w.shape[1]), w.dtype), "gathered", self._other_side(side, w), side)

    def sums(self, p: Vector, side: int) -> Array:
        return self._sided(side, np.zeros(0), "sums", self._entries(p), side)

    def squares(self, p: Vector) -> tuple[Array, Array]:
        pair, make = self._pass(BLOCK, "squares", self._entries(p)), self.graph.node
        return self._rows(make(BLOCK, "item", pair, 0), np.zeros(0)), self._cols(make(SUM, "item", pair, 1), np.zeros(0))

    @functools.cached_property
    def _counts(self) -> tuple[Array, Array]:
        rows, cols = (self.graph.node(kind, "counts", self.node, k) for k, kind in enumerate((BLOCK, SUM)))
        number = np.zeros(0, np.int64)
        return self._rows(rows, number), self._cols(cols, number)

    def counts(self, side: int) -> Array:
        return self._counts[side]

    def matrix(self, p: Vector) -> Any:
        """SciPy sparse matrix on the host, for small problems."""
        import scipy.sparse

        entries = self.host()
        return scipy.sparse.csr_array((np.asarray(p), entries.indices, entries.indptr), shape=self.shape)

    def outer(self, p: Vector) -> tuple[Array, Array]:
        g = self.matrix(p)
        return (g @ g.conj().T).toarray(), (g.conj().T @ g).toarray()

    def blocks(self, side: int, factor: Array) -> Array:
        like = np.zeros((0, factor.shape[1], factor.shape[1]), factor.dtype)
        return self._sided(side, like, "blocks", side, self._other_side(side, factor))

    def _normal_equations(self, columns: bool, given: RowSystems) -> tuple[Array, Array | None, Array]:
        k, make = given.other.shape[1], self.graph.node
        w, prior, shift = self._entries(given.weights), np.array(given.prior), np.array(given.shift)
        small = RowSystems(None, prior, shift, fixed=given.fixed, noise=float(given.noise), covariance=given.covariance)
        if columns:
            sums = make(SUM, "normal_sums", self.node, self._row_side(given.other), w, self._row_side(given.moments))
            found, wrap, kind = make(SHARED, "normal_columns", sums, self._col_side(given.scale), small), self._cols, SHARED
        else:
            args = (self._col_side(given.other), w, self._col_side(given.moments), self._row_side(given.scale), small)
            found, wrap, kind = make(BLOCK, "normal_rows", self.node, *args), self._rows, BLOCK
        mean, cov, squares = (make(kind, "item", found, part) for part in range(3))
        packed = wrap(cov, np.zeros((0, k * (k + 1) // 2))) if given.covariance else None
        return wrap(mean, np.zeros((0, k))), packed, wrap(squares, np.zeros(0))

    def _nonnegative_equations(self, columns: bool, given: NonnegativeSystems) -> NoReturn:
        raise ValueError("nonnegative factors take observations in main memory: fit to arrays, or leave nonnegative out")

    def normal_steps(self, columns: bool, other: Array, prior: Array, ridge: Array, start: Array, steps: int) -> Array:
        """Conjugate-gradient steps: rows block by block, columns with a sum over blocks per step, in one program."""
        if columns:
            return normal_steps(self, True, other, np.array(prior), self._on_cols(ridge), self._on_cols(start), steps)
        sides = self._row_side(ridge), self._row_side(start)
        node = self._pass(BLOCK, "normal_steps", False, self._col_side(other), np.array(prior), *sides, steps)
        return self._rows(node, np.zeros((0, other.shape[1]), self.like.dtype))

    def _on_cols(self, a: Array) -> DistributedArray:
        """An array with one entry per column, on every shard."""
        if isinstance(a, DistributedArray) and a.graph is self.graph:
            return a
        a = np.array(a)
        return self._cols(self.graph.node(SHARED, "constant", a), np.zeros((0, *a.shape[1:]), a.dtype))
