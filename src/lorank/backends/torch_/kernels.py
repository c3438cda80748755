"""Triton kernels of the passes over the observations. Imported on a GPU only; :mod:`.plain` computes the same.

A program processes one row of observations in tiles of K: it gathers the K rows of the other factor once and computes samples,
residual, sums and norms from them. Long rows are divided into segments, whose sums are added up afterwards in a fixed order: a
long row does not delay the others, and results are reproducible. Complex arrays are read as real ones of twice the width
(:func:`_real`).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from .launch import launch, power_of_two
from .plain import Order

Array = Any
MAX_WIDTH = 4096  # columns of a factor; complex ones count twice


@triton.jit
def _load_tile(other, j, inside, column, W: tl.constexpr, FAR: tl.constexpr):
    if FAR:
        j = j.to(tl.int64)
    return tl.load(other + j[:, None] * W + column[None, :], mask=inside[:, None] & (column < W)[None, :], other=0.0)


@triton.jit
def _rotated(own, at, column, W: tl.constexpr):
    """``-i own``, whose real inner product with a row is the imaginary part of the complex one."""
    sign = 1 - 2 * (column % 2)
    return tl.load(own + at + (column ^ 1), mask=column < W, other=0.0) * sign


@triton.jit
def _sums_kernel(
    begin_of, end_of, row_of, index, values, weights, own, s, other, sums, turned, squares, misfits,
    SAMPLE: tl.constexpr, WEIGHTED: tl.constexpr, COMPLEX: tl.constexpr,
    W: tl.constexpr, R: tl.constexpr, K: tl.constexpr, SPLIT: tl.constexpr, FAR: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """Sums of ``g other`` over a segment, g being the residual d (SAMPLE; w d where WEIGHTED) or the given values.

    And the sums of ``|g|^2`` and, where WEIGHTED, of ``w |d|^2``.
    """
    segment = tl.program_id(0).to(tl.int64)
    begin, end = tl.load(begin_of + segment), tl.load(end_of + segment)
    if not LONG:
        begin, end = begin.to(tl.int32), end.to(tl.int32)
    row = tl.load(row_of + segment).to(tl.int64) if SPLIT else segment
    column, lane = tl.arange(0, R), tl.arange(0, K)
    if SAMPLE:
        scale = tl.load(s + (column // 2 if COMPLEX else column), mask=column < W, other=0.0)
        u = tl.load(own + row * W + column, mask=column < W, other=0.0) * scale
        if COMPLEX:
            turned_u = _rotated(own, row * W, column, W) * scale
    total = tl.zeros([K, R], other.dtype.element_ty)
    if COMPLEX:
        turned_total = tl.zeros([K, R], other.dtype.element_ty)
    square = tl.zeros([K], tl.float64)
    if WEIGHTED:
        misfit = tl.zeros([K], tl.float64)
    following = tl.load(index + begin + lane, mask=begin + lane < end, other=0)
    for start in range(begin, end, K):
        place = start + lane
        inside = place < end
        j = following
        following = tl.load(index + place + K, mask=place + K < end, other=0)  # prefetched for the next gather
        tile = _load_tile(other, j, inside, column, W, FAR)
        if WEIGHTED:
            w = tl.load(weights + place, mask=inside, other=0.0)
        if COMPLEX:
            d = tl.load(values + 2 * place, mask=inside, other=0.0)
            e = tl.load(values + 2 * place + 1, mask=inside, other=0.0)
            if SAMPLE:
                d = tl.sum(tile * u[None, :], 1) - d
                e = tl.sum(tile * turned_u[None, :], 1) - e
            if WEIGHTED:
                misfit += w.to(tl.float64) * e.to(tl.float64) * e.to(tl.float64)
                e = w * e
            turned_total += e[:, None] * tile
            square += e.to(tl.float64) * e.to(tl.float64)
        else:
            d = tl.load(values + place, mask=inside, other=0.0)
            if SAMPLE:
                d = tl.sum(tile * u[None, :], 1) - d
        if WEIGHTED:
            misfit += w.to(tl.float64) * d.to(tl.float64) * d.to(tl.float64)
            d = w * d
        total += d[:, None] * tile
        square += d.to(tl.float64) * d.to(tl.float64)
    tl.store(sums + segment * W + column, tl.sum(total, 0), mask=column < W)
    if COMPLEX:
        tl.store(turned + segment * W + column, tl.sum(turned_total, 0), mask=column < W)
    if SAMPLE:
        tl.store(squares + segment, tl.sum(square, 0))
    if WEIGHTED:
        tl.store(misfits + segment, tl.sum(misfit, 0))


@triton.jit
def _sample_kernel(
    begin_of, end_of, row_of, index, values, weights, left, right, out, inner, energy,
    MINUS: tl.constexpr, STORE: tl.constexpr, MULTIPLY: tl.constexpr, WEIGHTED: tl.constexpr, COMPLEX: tl.constexpr,
    W: tl.constexpr, R: tl.constexpr, K: tl.constexpr, SPLIT: tl.constexpr, FAR: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """``z = left right^H`` on a segment: stored, minus the values (MINUS).

    Or its energy ``sum w |z|^2``, and its product with the values (MULTIPLY).
    """
    segment = tl.program_id(0).to(tl.int64)
    begin, end = tl.load(begin_of + segment), tl.load(end_of + segment)
    if not LONG:
        begin, end = begin.to(tl.int32), end.to(tl.int32)
    row = tl.load(row_of + segment).to(tl.int64) if SPLIT else segment
    column, lane = tl.arange(0, R), tl.arange(0, K)
    u = tl.load(left + row * W + column, mask=column < W, other=0.0)
    if COMPLEX:
        turned_u = _rotated(left, row * W, column, W)
    squares, products = tl.zeros([K], tl.float64), tl.zeros([K], tl.float64)
    following = tl.load(index + begin + lane, mask=begin + lane < end, other=0)
    for start in range(begin, end, K):
        place = start + lane
        inside = place < end
        j = following
        following = tl.load(index + place + K, mask=place + K < end, other=0)
        tile = _load_tile(right, j, inside, column, W, FAR)
        z = tl.sum(tile * u[None, :], 1)
        if WEIGHTED:
            w = tl.load(weights + place, mask=inside, other=0.0).to(tl.float64)
        if COMPLEX:
            e = tl.sum(tile * turned_u[None, :], 1)
            if MINUS:
                z -= tl.load(values + 2 * place, mask=inside, other=0.0)
                e -= tl.load(values + 2 * place + 1, mask=inside, other=0.0)
            if MULTIPLY:
                products += tl.load(values + 2 * place, mask=inside, other=0.0).to(tl.float64) * z.to(tl.float64)
                products += tl.load(values + 2 * place + 1, mask=inside, other=0.0).to(tl.float64) * e.to(tl.float64)
            if STORE:
                tl.store(out + 2 * place, z, mask=inside)
                tl.store(out + 2 * place + 1, e, mask=inside)
            elif WEIGHTED:
                squares += w * e.to(tl.float64) * e.to(tl.float64)
            else:
                squares += e.to(tl.float64) * e.to(tl.float64)
        else:
            if MINUS:
                z -= tl.load(values + place, mask=inside, other=0.0)
            if MULTIPLY:
                products += tl.load(values + place, mask=inside, other=0.0).to(tl.float64) * z.to(tl.float64)
            if STORE:
                tl.store(out + place, z, mask=inside)
        if not STORE:
            if WEIGHTED:
                squares += w * z.to(tl.float64) * z.to(tl.float64)
            else:
                squares += z.to(tl.float64) * z.to(tl.float64)
    if not STORE:
        tl.store(energy + segment, tl.sum(squares, 0))
    if MULTIPLY:
        tl.store(inner + segment, tl.sum(products, 0))


def _tile(width: int, mean: float) -> dict[str, int]:
    """Columns R, observations K and warps of a program: about 16 numbers per thread."""
    R = max(2, power_of_two(width))
    warps = 1 if R <= 128 else 2 if R <= 256 else 4 if R <= 512 else 8  # one warp is fastest as long as its registers suffice
    K = min(max(512 * warps // R, 2), 128, max(power_of_two(int(mean) + 1), 2))
    return {"R": R, "K": K, "num_warps": warps}


def _real(a: Array) -> Array:
    """Contiguous real array; complex numbers as pairs."""
    return torch.view_as_real(a.resolve_conj().contiguous()).flatten(-2) if a.is_complex() else a.contiguous()


def _options(order: Order, other: Array) -> tuple[tuple[int, ...], int]:
    """The last constants of all kernels, W to LONG, and the number of warps."""
    width = other.shape[1]
    known: dict[int, tuple[tuple[int, ...], int]] = order.segments.options
    if width not in known:
        if width > MAX_WIDTH:
            raise ValueError(f"factors of {width} columns are too wide: a GPU kernel takes {MAX_WIDTH} (complex: half)")
        tile = _tile(width, order.m / max(order.n, 1))
        split, far, long = order.segments.row is not None, other.numel() >= 2**31, order.m >= 2**30
        known[width] = (width, tile["R"], tile["K"], split, far, long), tile["num_warps"]
    return known[width]


def _sums(
    order: Order, values: Array, weights: Array | None, own: Array | None, s: Array | None, other: Array
) -> tuple[Array, Array, Array]:
    flat, pieces, complex_ = _real(other), order.segments, other.is_complex()
    sums = torch.empty((pieces.count, flat.shape[1]), dtype=flat.dtype, device=flat.device)
    turned = torch.empty_like(sums) if complex_ else sums
    squares = torch.empty(pieces.count if own is not None else 0, dtype=torch.float64, device=flat.device)
    misfits = squares if weights is None else torch.empty_like(squares)
    arrays = (
        pieces.begin, pieces.end, pieces.begin if pieces.row is None else pieces.row, order.index, _real(values),
        flat if weights is None else weights, flat if own is None else _real(own), flat if s is None else s.contiguous(), flat,
        sums, turned, squares, misfits,
    )  # fmt: skip
    if pieces.count:
        constants, warps = _options(order, flat)
        constants = (own is not None, weights is not None, complex_, *constants)
        launch(_sums_kernel, (pieces.count, 1, 1), flat.dtype, arrays, (), constants, warps)
    total = pieces.add_up(sums)
    if complex_:
        total = torch.view_as_complex(total.unflatten(-1, (-1, 2))) + 1j * torch.view_as_complex(
            pieces.add_up(turned).unflatten(-1, (-1, 2))
        )
    if own is None:
        return total, squares, misfits
    squares = pieces.add_up(squares)
    return total, squares, squares if weights is None else pieces.add_up(misfits)


def gradient(
    order: Order, own: Array, s: Array, other: Array, values: Array, weights: Array | None = None
) -> tuple[Array, Array, Array]:
    """``G other``, the squared row norms of G and the rows' sums of ``w |d|^2``, in one pass.

    On the pattern, for ``d = own diag(s) other^H - values`` and ``G = w d``.
    """
    return _sums(order, values, weights, own, s, other)


def times(order: Order, p: Array, other: Array) -> Array:
    """``P other`` for P the sparse matrix of the entries p."""
    return _sums(order, p, None, None, None, other)[0]


def row_sums(order: Order, p: Array) -> Array:
    """Sums of real entries over rows, in double precision."""
    return torch.segment_reduce(p.double(), "sum", offsets=order.ptr, axis=0)


def _sample(
    order: Order, left: Array, right: Array, values: Array | None, out: Array | None, weights: Array | None = None
) -> tuple[Array, Array]:
    complex_, multiply, pieces = left.is_complex(), values is not None and out is None, order.segments
    left, right = _real(left), _real(right)
    energy = torch.empty(0 if out is not None else pieces.count, dtype=torch.float64, device=right.device)
    inner = torch.empty(pieces.count if multiply else 0, dtype=torch.float64, device=right.device)
    arrays = (
        pieces.begin, pieces.end, pieces.begin if pieces.row is None else pieces.row, order.index,
        right if values is None else _real(values), right if weights is None else weights, left, right,
        right if out is None else _real(out), inner, energy,
    )  # fmt: skip
    if pieces.count:
        constants, warps = _options(order, right)
        stored = out is not None
        constants = (values is not None and stored, stored, multiply, weights is not None, complex_, *constants)
        launch(_sample_kernel, (pieces.count, 1, 1), right.dtype, arrays, (), constants, warps)
    return inner, energy


def sample(order: Order, left: Array, right: Array, values: Array | None = None) -> Array:
    """Entries of ``left right^H`` on the pattern, minus the values."""
    out = torch.empty(order.m, dtype=left.dtype, device=left.device)
    _sample(order, left, right, values, out)
    return out


def line_sums(order: Order, left: Array, right: Array, p: Array | None, weights: Array | None = None) -> list[Array]:
    """``sum w |z|^2`` and, with p, ``Re <p, z>`` for ``z = left right^H`` on the pattern, in double precision."""
    inner, energy = _sample(order, left, right, p, None, weights)
    return [energy.sum()] if p is None else [energy.sum(), inner.sum()]
