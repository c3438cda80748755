"""Triton kernels for a small matrix per row: sums, inverses and products, for the block metric.

:func:`.normal_equations.blocks` and :meth:`~lorank.backends.protocol.SmallAlgebra.block_solver` compute the same. The batched
operations of PyTorch are made for larger matrices: on an H200, in single precision, sums of 16 x 16 matrices take about forty
times as long, and inverses almost five times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from .launch import divide_up, launch, power_of_two
from .plain import Order

Array = Any
MAX_WIDTH = 64  # columns of a factor: a matrix is held in registers


def suits(dtype: torch.dtype, width: int) -> bool:
    """There are kernels for matrices of this kind."""
    return dtype in (torch.float32, torch.float64) and 1 <= width <= MAX_WIDTH


@triton.jit
def _sums_kernel(
    begin_of, end_of, index, weights, other, out,
    WEIGHTED: tl.constexpr, W: tl.constexpr, R: tl.constexpr, K: tl.constexpr, FAR: tl.constexpr,
):  # fmt: skip
    """``sum_t w_t y_t^H y_t`` over a segment, y_t the rows of ``other``."""
    segment = tl.program_id(0).to(tl.int64)
    begin, end = tl.load(begin_of + segment), tl.load(end_of + segment)
    column, lane = tl.arange(0, R), tl.arange(0, K)
    total = tl.zeros([R, R], other.dtype.element_ty)
    following = tl.load(index + begin + lane, mask=begin + lane < end, other=0)
    for start in range(begin, end, K):
        place = start + lane
        inside = place < end
        j = following.to(tl.int64) if FAR else following
        following = tl.load(index + place + K, mask=place + K < end, other=0)  # prefetched for the next gather
        tile = tl.load(other + j[:, None] * W + column[None, :], mask=inside[:, None] & (column < W)[None, :], other=0.0)
        scaled = tile
        if WEIGHTED:
            scaled = tile * tl.load(weights + place, mask=inside, other=0.0)[:, None]
        total = tl.dot(tl.trans(scaled), tile, total, input_precision="ieee", out_dtype=other.dtype.element_ty)
    there = (column < W)[:, None] & (column < W)[None, :]
    tl.store(out + segment * W * W + column[:, None] * W + column[None, :], total, mask=there)


@triton.jit
def _invert_kernel(stack, out, W: tl.constexpr, R: tl.constexpr):
    """Inverse of one definite matrix by Gauss-Jordan elimination without pivoting."""
    place = tl.program_id(0).to(tl.int64) * W * W
    i, j = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    there = (i < W) & (j < W)
    a = tl.load(stack + place + i * W + j, mask=there, other=0.0)
    for k in range(W):
        row = tl.sum(tl.where(i == k, a, 0.0), 0)
        col = tl.sum(tl.where(j == k, a, 0.0), 1)
        pivot = 1 / tl.sum(tl.where(tl.arange(0, R) == k, row, 0.0), 0)
        row, col = row[None, :] * pivot, col[:, None]
        rest = tl.where(j == k, -col * pivot, a - col * row)
        a = tl.where(i == k, tl.where(j == k, pivot, row), rest)
    tl.store(out + place + i * W + j, a, mask=there)


@triton.jit(do_not_specialize=["n"])
def _apply_kernel(a, stack, out, n, W: tl.constexpr, R: tl.constexpr, N: tl.constexpr):
    """``a_i B_i`` for N rows at a time."""
    row = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    column = tl.arange(0, R)
    some = (row < n)[:, None] & (column < W)[None, :]
    x = tl.load(a + row[:, None] * W + column[None, :], mask=some, other=0.0)
    matrix = row[:, None, None] * W * W + column[None, :, None] * W + column[None, None, :]
    b = tl.load(stack + matrix, mask=some[:, :, None] & (column < W)[None, None, :], other=0.0)
    tl.store(out + row[:, None] * W + column[None, :], tl.sum(x[:, :, None] * b, 1), mask=some)


def blocks(order: Order, other: Array, weights: Array | None) -> Array:
    """``sum_t w_t y_t^H y_t`` over the rows of an order, y_t the rows of ``other``: (rows, k, k)."""
    other, pieces, k = other.contiguous(), order.segments, other.shape[1]
    out = torch.empty((pieces.count, k * k), dtype=other.dtype, device=other.device)
    if pieces.count:
        R = max(16, power_of_two(k))
        arrays = (pieces.begin, pieces.end, order.index, other if weights is None else weights, other, out)
        constants = (weights is not None, k, R, 16, other.numel() >= 2**31)
        launch(_sums_kernel, (pieces.count, 1, 1), other.dtype, arrays, (), constants, 1 if R <= 32 else 4)
    return pieces.add_up(out).view(-1, k, k)


def block_solver(stack: Array) -> Callable[[Array], Array]:
    """``a -> x`` with ``x_i B_i = a_i`` for each row, B_i the definite matrices of an (n, k, k) stack."""
    stack = stack.contiguous()
    n, k = stack.shape[:2]
    R, inverses = max(2, power_of_two(k)), torch.empty_like(stack)
    launch(_invert_kernel, (n, 1, 1), stack.dtype, (stack, inverses), (), (k, R), 1 if R <= 32 else 2)
    N = max(1, 1024 // (R * R))

    def solve(a: Array) -> Array:
        a = a.to(inverses.dtype).contiguous()
        out = torch.empty_like(a)
        grid = (divide_up(n, N), 1, 1)
        launch(_apply_kernel, grid, out.dtype, (a, inverses, out), (n,), (k, R, N), 1 if R <= 32 else 4)
        return out

    return solve
