"""Passes over the observations in plain PyTorch: for the CPU, and as a reference for the Triton kernels.

Each takes one order of the pattern (:class:`Order`), by rows or by columns of the matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

Array = Any
MAX_SEGMENT = 1024  # observations in a segment


@dataclass(frozen=True)
class Order:
    """Observations by row: those of row i are at ``ptr[i] .. ptr[i + 1]``, with their columns in ``index``."""

    ptr: Array  # (n + 1,) int64
    index: Array  # (m,) int32
    segments: Any = None  # for the kernels

    @property
    def n(self) -> int:
        return len(self.ptr) - 1

    @property
    def m(self) -> int:
        return len(self.index)

    def rows(self) -> Array:
        """Row of each observation."""
        lengths = self.ptr.diff()
        return torch.repeat_interleave(torch.arange(self.n, dtype=torch.int32, device=self.ptr.device), lengths)


@dataclass(frozen=True)
class Segments:
    """Segments of rows: begin and end of each, its row, and the segments of each row."""

    begin: Array
    end: Array
    row: Array | None  # None where each row is one segment
    ptr: Array | None
    options: dict[int, Any] = field(default_factory=dict)  # launch options of the kernels for each width of factors

    @property
    def count(self) -> int:
        return len(self.begin)

    def add_up(self, parts: Array) -> Array:
        """Sums over rows from sums over segments."""
        if self.ptr is None:
            return parts
        if parts.is_complex():  # not supported by segment_reduce
            return torch.view_as_complex(self.add_up(torch.view_as_real(parts)))
        return torch.segment_reduce(parts, "sum", offsets=self.ptr, axis=0)


def segments(ptr: Array, longest: int = MAX_SEGMENT) -> Segments:
    """Segments of at most ``longest`` observations."""
    lengths = ptr.diff()
    if not len(lengths) or int(lengths.max()) <= longest:
        return Segments(ptr[:-1], ptr[1:], None, None)
    pieces = ((lengths + longest - 1) // longest).clamp_(min=1)
    starts = torch.nn.functional.pad(pieces.cumsum(0), (1, 0))
    rows = torch.repeat_interleave(torch.arange(len(lengths), device=ptr.device), pieces)
    begin = ptr[rows] + longest * (torch.arange(len(rows), device=ptr.device) - starts[rows])
    return Segments(begin, torch.minimum(begin + longest, ptr[rows + 1]), rows.to(torch.int32), starts)


def _blocks(order: Order) -> Iterator[tuple[slice, Array, Array]]:
    """Blocks of observations, which bound the memory of gathered factors: slice, rows, columns."""
    device = order.ptr.device
    step = 1 << (16 if device.type == "cpu" else 22)
    for k in range(0, order.m, step):
        part = slice(k, min(k + step, order.m))
        places = torch.arange(part.start, part.stop, device=device)
        yield part, torch.searchsorted(order.ptr, places, right=True) - 1, order.index[part].long()


def _double(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def sample(order: Order, left: Array, right: Array, values: Array | None = None) -> Array:
    """Entries of ``left right^H`` on the pattern, minus the values."""
    out = torch.empty(order.m, dtype=left.dtype, device=left.device)
    for part, rows, cols in _blocks(order):
        out[part] = (left[rows] * right[cols].conj()).sum(1)
    return out if values is None else out.sub_(values)


def line_sums(order: Order, left: Array, right: Array, p: Array | None, weights: Array | None = None) -> list[Array]:
    """``sum w |z|^2`` and, with p, ``Re <p, z>`` for ``z = left right^H`` on the pattern, in double precision."""
    inner = torch.zeros((), dtype=torch.float64, device=left.device)
    energy = inner.clone()
    for part, rows, cols in _blocks(order):
        z = (left[rows] * right[cols].conj()).sum(1).to(_double(left.dtype))
        energy += torch.vdot(z, z if weights is None else weights[part] * z).real
        if p is not None:
            inner += torch.vdot(p[part].to(z.dtype), z).real
    return [energy] if p is None else [energy, inner]


def times(order: Order, p: Array, other: Array) -> Array:
    """``P other`` for P the sparse matrix of the entries p."""
    sums = torch.zeros((order.n, other.shape[1]), dtype=other.dtype, device=other.device)
    for part, rows, cols in _blocks(order):
        sums.index_add_(0, rows, p[part, None] * other[cols])
    return sums


def gradient(
    order: Order, own: Array, s: Array, other: Array, values: Array, weights: Array | None = None
) -> tuple[Array, Array, Array]:
    """``G other``, the squared row norms of G and the rows' sums of ``w |d|^2``.

    On the pattern, for ``d = own diag(s) other^H - values`` and ``G = w d``.
    """
    d = sample(order, own * s, other, values)
    if weights is None:
        squares = row_sums(order, abs(d).double() ** 2)
        return times(order, d, other), squares, squares
    misfit = row_sums(order, weights.double() * abs(d).double() ** 2)
    d *= weights
    return times(order, d, other), row_sums(order, abs(d).double() ** 2), misfit


def row_sums(order: Order, p: Array) -> Array:
    """Sums of real entries over rows, in double precision."""
    sums = torch.zeros(order.n, dtype=torch.float64, device=p.device)
    for part, rows, _ in _blocks(order):
        sums.index_add_(0, rows, p[part].double())
    return sums
