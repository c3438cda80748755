"""Triton kernels for Gram products and linear combinations of tall arrays, many in one launch.

A kernel reads the addresses of its arrays from a table. ``plain_product`` and ``plain_combine`` in :mod:`.lazy_arrays` compute
the same in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from .launch import divide_up, launch, power_of_two
from .staging import RESULTS, WORDS, staging

Array = Any
MAX_PAIRS = 64  # of a launch
MAX_TERMS = 8  # of a combination
ENTRY = 4 + 3 * MAX_TERMS  # words of a combination in the table
ROWS = 64


@triton.jit
def _array(table, place, SINGLE: tl.constexpr):
    """Array whose address is stored there."""
    address = tl.load(table + place)
    if SINGLE:
        return tl.multiple_of(address.to(tl.pointer_type(tl.float32)), 16)
    else:
        return tl.multiple_of(address.to(tl.pointer_type(tl.float64)), 16)


@triton.jit(do_not_specialize=["parts"])
def _gram_kernel(
    partial, table, counters, out, parts,
    SINGLE: tl.constexpr, W: tl.constexpr, R: tl.constexpr, ROWS: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    """``a^H b`` of one pair over one part of the rows. The last program adds up the parts, in a fixed order."""
    pair, part = tl.program_id(0), tl.program_id(1)
    a, b = _array(table, 3 * pair, SINGLE), _array(table, 3 * pair + 1, SINGLE)
    n = tl.load(table + 3 * pair + 2).to(tl.int32)
    column, lane = tl.arange(0, R), tl.arange(0, ROWS)
    total = tl.zeros([R, R], tl.float64)
    for start in range(part * ROWS, n, parts * ROWS):
        row = start + lane
        place = row.to(tl.int64)[:, None] * W + column[None, :]
        inside = (row < n)[:, None] & (column < W)[None, :]
        x = tl.load(a + place, mask=inside, other=0.0).to(tl.float64)
        y = tl.load(b + place, mask=inside, other=0.0).to(tl.float64)
        total = tl.dot(tl.trans(x), y, total, input_precision="ieee", out_dtype=tl.float64)
    mine = partial + (pair * parts + part) * R * R + column[:, None] * R + column[None, :]
    tl.store(mine, total)
    tl.debug_barrier()  # the atomic operation below publishes the stores above
    if tl.atomic_add(counters + pair, 1) == parts - 1:
        entry = tl.arange(0, R * R)
        sums = tl.zeros([R * R], tl.float64)
        for start in range(0, parts, TOGETHER):
            each = start + tl.arange(0, TOGETHER)
            place = (pair * parts + each)[:, None] * R * R + entry[None, :]
            sums += tl.sum(tl.load(partial + place, mask=(each < parts)[:, None], other=0.0, cache_modifier=".cg"), 0)
        at, across = entry // R, entry % R
        tl.store(out + pair * W * W + at * W + across, sums, mask=(at < W) & (across < W))
        tl.store(counters + pair, 0)


def products(pairs: Sequence[tuple[Array, Array]]) -> list[np.ndarray]:
    """``a^H b`` of up to 64 pairs of real arrays of one width, as NumPy arrays in double precision."""
    first, count = pairs[0][0], len(pairs)
    width, longest = first.shape[1], max(a.shape[0] for a, _ in pairs)
    R = max(16, power_of_two(width))
    parts = max(1, min(divide_up(longest, 512), 1024 // count))
    stage = staging(first.device)
    table, _, _, slot = stage.take()
    table[: 3 * count] = [x for a, b in pairs for x in (a.data_ptr(), b.data_ptr(), a.shape[0])]
    arrays = (stage.scratch(count * parts * R * R), stage.here(slot), stage.counters, stage.results)
    constants = (first.dtype == torch.float32, width, R, ROWS, max(1, 4096 // R**2))
    launch(_gram_kernel, (count, parts, 1), first.dtype, arrays, (parts,), constants, 2)
    stage.wait()
    return list(stage.found[: count * width * width].reshape(count, width, width).copy())


def can_multiply(width: int, count: int) -> bool:
    return width <= 32 and count * width * width <= RESULTS


@triton.jit
def _combine_kernel(table, SINGLE: tl.constexpr, R: tl.constexpr, RO: tl.constexpr, ROWS: tl.constexpr, ENTRY: tl.constexpr):
    """Some rows of one combination ``sum_k A_k C_k``."""
    place = tl.program_id(1) * ENTRY
    out, n = _array(table, place, SINGLE), tl.load(table + place + 1).to(tl.int32)
    wide, count = tl.load(table + place + 2).to(tl.int32), tl.load(table + place + 3).to(tl.int32)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < n
    column, across = tl.arange(0, R), tl.arange(0, RO)
    total = tl.zeros([ROWS, RO], tl.float64)
    for k in range(0, count):
        a, c = _array(table, place + 4 + 3 * k, SINGLE), tl.load(table + place + 6 + 3 * k).to(tl.pointer_type(tl.float64))
        width = tl.load(table + place + 5 + 3 * k).to(tl.int32)
        x = tl.load(
            a + row.to(tl.int64)[:, None] * width + column[None, :], mask=inside[:, None] & (column < width)[None, :], other=0.0
        )
        y = tl.load(
            c + column[:, None] * wide + across[None, :], mask=(column < width)[:, None] & (across < wide)[None, :], other=0.0
        )
        # In double precision also for single: tensor cores are fast at it, and would otherwise round to ten bits.
        total = tl.dot(x.to(tl.float64), y, total, input_precision="ieee", out_dtype=tl.float64)
    tl.store(out + row.to(tl.int64)[:, None] * wide + across[None, :], total, mask=inside[:, None] & (across < wide)[None, :])


def can_combine(sums: Sequence[tuple[tuple[Array, ...], np.ndarray]]) -> bool:
    """One launch suffices for these combinations."""
    words, kind = ENTRY * len(sums), sums[0][0][0].dtype
    for tensors, c in sums:
        if len(tensors) > MAX_TERMS or c.shape[1] > 64:
            return False
        for a in tensors:
            if a.dtype != kind or a.shape[1] > 64 or not a.is_contiguous():
                return False
            if a.data_ptr() % 16:
                return False
        words += c.size
    return words <= WORDS


def combine(sums: Sequence[tuple[tuple[Array, ...], np.ndarray]]) -> list[Array]:
    """``sum_k A_k C_k`` for pairs of tensors A_k and stacked coefficients C_k from the host, all in one pass and one launch."""
    first = sums[0][0][0]
    stage = staging(first.device)
    whole, numbers, base, slot = stage.take()
    free, widest, across, entry, longest, outs = ENTRY * len(sums), 1, 1, 0, 1, []
    for tensors, c in sums:
        n, width = tensors[0].shape[0], c.shape[1]
        out = first.new_empty((n, width))
        outs.append(out)
        numbers[free : free + c.size] = c.ravel()
        words, place = [out.data_ptr(), n, width, len(tensors)], base + 8 * free
        for a in tensors:
            wide = a.shape[1]
            words += (a.data_ptr(), wide, place)
            place += 8 * wide * width
            widest = max(widest, wide)
        whole[entry : entry + len(words)] = words
        free, entry, across, longest = free + c.size, entry + ENTRY, max(across, width), max(longest, n)
    R = max(16, power_of_two(widest))
    rows = ROWS if R <= 32 else 32
    constants = (first.dtype == torch.float32, R, max(16, power_of_two(across)), rows, ENTRY)
    grid = (divide_up(longest, rows), len(outs), 1)
    launch(_combine_kernel, grid, first.dtype, (stage.send(slot, free),), (), constants, 4)
    return outs
