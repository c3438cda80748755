"""Observed entries on a device, in row and in column order, and the passes over them."""

from __future__ import annotations

import copy
import warnings
import weakref
from typing import Any, TypeVar

import torch

from ..normal_equations import NonnegativeSystems, RowSystems
from ..observations import HostEntries, Observations, held_out
from . import normal_equations, plain
from .lazy_arrays import LazyArray, evaluate, side_by_side
from .plain import Order, segments

Array = Any
Systems = TypeVar("Systems", RowSystems, NonnegativeSystems)


def _passes(device: torch.device) -> Any:
    """Module with the passes for a device."""
    if device.type != "cuda":
        return plain
    try:
        from . import kernels
    except ImportError as error:
        warnings.warn(f"Triton cannot be imported ({error}): lorank uses plain PyTorch, several times slower", stacklevel=3)
        return plain
    return kernels


def block_passes(a: Array) -> Any:
    """Module with the block kernels for such arrays; None where there are none."""
    if _passes(a.device) is plain:
        return None
    from . import block_kernels

    return block_kernels if block_kernels.suits(a.dtype, a.shape[-1]) else None


class TorchObservations(Observations):
    """Observed entries of an n1 x n2 matrix as tensors; see :class:`~lorank.backends.observations.Observations`.

    Notes
    -----
    Memory for each observation: a column and a row index (4 bytes each), the position in column order (4, or 8 from 2^31
    observations on), and the value in row and in column order; 28 bytes in float64, 20 in float32. Weights take as much as real
    values.
    """

    weights: Array | None = None

    def __init__(self, indptr: Array, indices: Array, values: Array, n2: int) -> None:
        self.indptr, self.indices, self.values = indptr, indices, values
        self.shape = (len(indptr) - 1, n2)
        self.m = len(values)
        self._check()
        self._build()

    def _check(self) -> None:
        ptr, index = self.indptr, self.indices
        lengths = ptr.diff()
        if int(ptr[0]) != 0 or int(ptr[-1]) != len(index) or len(index) != self.m or bool((lengths < 0).any()):
            raise ValueError("indptr must increase from 0 to the number of indices")
        if self.m and (int(index.min()) < 0 or int(index.max()) >= self.shape[1]):
            raise ValueError(f"column indices must lie in 0 .. {self.shape[1] - 1}")
        falls = torch.zeros(self.m + 1, dtype=torch.bool, device=index.device)
        falls[1:-1] = index[1:] <= index[:-1]
        falls[ptr] = False  # between rows they may decrease
        if bool(falls.any()):
            raise ValueError("column indices must increase within a row")

    def _build(self) -> None:
        index, n2 = self.indices, self.shape[1]
        by_rows = Order(self.indptr, index)
        columns, order = torch.sort(index, stable=True)
        ptr = torch.searchsorted(columns, torch.arange(n2 + 1, dtype=torch.int32, device=index.device))
        del columns
        by_cols = Order(ptr, by_rows.rows()[order])
        self._to_columns = order.to(torch.int32) if self.m < 2**31 else order
        self._passes = _passes(index.device)
        if self._passes is not plain:
            by_rows, by_cols = (Order(o.ptr, o.index, segments(o.ptr)) for o in (by_rows, by_cols))
        self.by_rows, self.by_cols = by_rows, by_cols
        self._moved: tuple[Any, Array] | None = None
        self.column_values = self.values.conj().resolve_conj()[self._to_columns]
        self.column_weights = None if self.weights is None else self.weights[self._to_columns]

    def with_values(self, values: Array) -> TorchObservations:
        twin = copy.copy(self)
        twin.values, twin._moved = values, None
        twin.column_values = values.conj().resolve_conj()[self._to_columns]
        return twin if self.weights is None else twin.with_weights(self.weights)

    def with_weights(self, weights: Array | None) -> TorchObservations:
        twin = copy.copy(self)
        twin.weights = twin.column_weights = None
        if weights is not None:
            found = torch.as_tensor(weights, dtype=self.values.dtype.to_real(), device=self.values.device).contiguous()
            if found.shape != (self.m,):
                raise ValueError(f"weights must have shape ({self.m},), one for each observation; got {tuple(found.shape)}")
            twin.weights, twin.column_weights = found, found[self._to_columns]
        return twin

    def __copy__(self) -> TorchObservations:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)  # the pattern is immutable and can be shared
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("indptr", "indices", "values", "weights", "shape", "m")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._build()

    def host(self) -> HostEntries:
        indptr, indices, values = (a.cpu().numpy() for a in (self.indptr, self.indices, self.values.resolve_conj()))
        return HostEntries(indptr, indices, values, None if self.weights is None else self.weights.cpu().numpy())

    def split(self, seed: int, share: float) -> tuple[TorchObservations, TorchObservations] | None:
        taken = held_out(torch.arange(self.m, device=self.values.device), seed, share)
        for side, index in enumerate((self.rows, self.indices)):
            taken &= (self.sums((~taken).double(), side) > 0)[index]
        return (self.part(~taken), self.part(taken)) if bool(taken.any()) else None

    def part(self, flags: Array) -> TorchObservations:
        indptr = torch.cat([torch.zeros(1, dtype=torch.int64, device=flags.device), flags.cumsum(0)])[self.indptr]
        part = TorchObservations(indptr, self.indices[flags], self.values[flags], self.shape[1])
        return part if self.weights is None else part.with_weights(self.weights[flags])

    @property
    def rows(self) -> Array:
        return self.by_rows.rows()

    @property
    def cols(self) -> Array:
        return self.indices

    def matrix(self, p: Array) -> Any:
        """Sparse CSR tensor."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse")
            return torch.sparse_csr_tensor(self.indptr, self.indices.long(), p, self.shape)

    # -- the passes --------------------------------------------------------------------------------------------------
    def _own(self, *arrays: Any, like: Array | None = None) -> list[Array]:
        """Evaluated factors in the dtype of the values, or of another vector."""
        kind = (self.values if like is None else like).dtype
        return [a if a.dtype == kind else a.to(kind) for a in evaluate([LazyArray.of(a) for a in arrays])]

    def _scale(self, s: Array) -> Array:
        real = self.values.dtype.to_real()
        return s if s.dtype == real else s.to(real)

    def gradient_rows(self, u: Array, s: Array, v: Array) -> tuple[Array, Array, Array]:
        return self._passes.gradient(self.by_rows, *self._own(u), self._scale(s), *self._own(v), self.values, self.weights)

    def gradient_cols(self, u: Array, s: Array, v: Array) -> tuple[Array, Array]:
        values, weights = self.column_values, self.column_weights
        return self._passes.gradient(self.by_cols, *self._own(v), self._scale(s), *self._own(u), values, weights)[:2]

    def residual(self, left: Array, right: Array) -> Array:
        return self._passes.sample(self.by_rows, *self._own(left, right), self.values)

    def sample(self, left: Array, right: Array) -> Array:
        return self._passes.sample(self.by_rows, *self._own(left, right))

    def line_sums(self, blocks: tuple[tuple[Array, Array], tuple[Array, Array]], p: Array | None) -> tuple[float, float]:
        (l1, r1), (l2, r2) = blocks
        left, right = evaluate([side_by_side(l1, l2), side_by_side(r1, r2)])
        energy, *inner = self._passes.line_sums(self.by_rows, left, right, p, self.weights)
        return float(inner[0]) if inner else 0.0, float(energy)

    def times(self, p: Array, v: Array) -> Array:
        return self._passes.times(self.by_rows, p, *self._own(v, like=p))

    def adjoint_times(self, p: Array, u: Array) -> Array:
        return self._passes.times(self.by_cols, self._columns(p), *self._own(u, like=p))

    def _columns(self, p: Array) -> Array:
        """Conjugates of the entries p in column order; stored, because a gradient is multiplied many times."""
        if p is self.values:
            return self.column_values
        if self._moved is None or self._moved[0]() is not p:
            self._moved = weakref.ref(p), p.conj().resolve_conj()[self._to_columns]
        return self._moved[1]

    def gathered(self, w: Array, side: int) -> Array:
        order = self.by_cols if side else self.by_rows
        return self._passes.times(order, torch.ones(self.m, dtype=w.dtype, device=w.device), w)

    def blocks(self, side: int, factor: Array) -> Array:
        order, weights = (self.by_cols, self.column_weights) if side else (self.by_rows, self.weights)
        factor = evaluate([LazyArray.of(factor)])[0]
        weights = None if weights is None else weights.to(factor.dtype.to_real())
        return self._kernels(factor)[1](order, factor, weights)

    def _normal_equations(self, columns: bool, given: RowSystems) -> tuple[Array, Array | None, Array]:
        given = self._in_double(columns, given)
        order, values = self._ordered(columns)
        return normal_equations.solve(order, values, given, self._kernels(given.other))

    def _kernels(self, factor: Array) -> tuple[Any, Any]:
        """Passes of the device, and the function for sums of small matrices, for factors of this width."""
        fused = block_passes(factor)
        return self._passes if factor.shape[1] else plain, (normal_equations if fused is None else fused).blocks

    def _double(self, a: Any) -> Array:
        return None if a is None else torch.as_tensor(a, dtype=torch.float64, device=self.values.device)

    def _ordered(self, columns: bool) -> tuple[Order, Array]:
        """Observations by column or by row, with their values."""
        return (self.by_cols, self._double(self.column_values)) if columns else (self.by_rows, self._double(self.values))

    def _in_double(self, columns: bool, given: Systems) -> Systems:
        """Parameters with arrays on the device; weights are those of the observations if there are none."""
        if given.weights is None:
            weights = self._double(self.column_weights if columns else self.weights)
        else:
            weights = self._double(given.weights)[self._to_columns] if columns else self._double(given.weights)
        arrays = {name: self._double(a) for name, a in given._asdict().items() if name not in normal_equations.OTHERS}
        return given._replace(weights=weights, **arrays)

    def normal_steps(self, columns: bool, other: Array, prior: Array, ridge: Array, start: Array, steps: int) -> Array:
        other, start = self._own(other, start)
        prior, ridge = (torch.as_tensor(a, dtype=self.values.dtype, device=self.values.device) for a in (prior, ridge))
        return super().normal_steps(columns, other, prior, ridge, start, steps)

    def _nonnegative_equations(self, columns: bool, given: NonnegativeSystems) -> tuple[Array, Array]:
        given = self._in_double(columns, given)
        order, values = self._ordered(columns)
        return normal_equations.solve_nonnegative(order, values, given, self._kernels(given.other))

    def squares(self, p: Array) -> tuple[Array, Array]:
        q = abs(p.to(torch.complex128 if p.is_complex() else torch.float64)) ** 2
        return self.sums(q, 0), self.sums(q, 1)

    def counts(self, side: int) -> Array:
        return (self.by_cols if side else self.by_rows).ptr.diff()

    def sums(self, p: Array, side: int) -> Array:
        return self._passes.row_sums(*((self.by_cols, p[self._to_columns]) if side else (self.by_rows, p)))

    def outer(self, p: Array) -> tuple[Array, Array]:
        double = p.to(torch.complex128 if p.is_complex() else torch.float64)
        g = torch.zeros(self.shape, dtype=double.dtype, device=p.device)
        g[self.rows, self.cols] = double
        return g @ g.mH, g.mH @ g
