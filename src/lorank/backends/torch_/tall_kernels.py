"""Gram products and combinations of tall arrays as Triton kernels: many small products in one launch, each array read once.

Their plain twins are ``plain_product`` and ``plain_combine`` in :mod:`.tall`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from .launch import launch

Array = Any
MOST = 16  # pairs of a launch
SLOTS = 6  # terms of a combination
NUMBERS = [f"n{k}" for k in range(MOST)]


@triton.jit(do_not_specialize=[*NUMBERS, "parts"])
def _gram_kernel(
    out, a0, b0, a1, b1, a2, b2, a3, b3, a4, b4, a5, b5, a6, b6, a7, b7, a8, b8, a9, b9, a10, b10, a11, b11, a12,
    b12, a13, b13, a14, b14, a15, b15,
    n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15, parts,
    W: tl.constexpr, R: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """One pair and one part of the rows: ``a^H b`` over them."""
    pair, part = tl.program_id(0), tl.program_id(1)
    a, b, n = a0, b0, n0
    if pair == 1:
        a, b, n = a1, b1, n1
    if pair == 2:
        a, b, n = a2, b2, n2
    if pair == 3:
        a, b, n = a3, b3, n3
    if pair == 4:
        a, b, n = a4, b4, n4
    if pair == 5:
        a, b, n = a5, b5, n5
    if pair == 6:
        a, b, n = a6, b6, n6
    if pair == 7:
        a, b, n = a7, b7, n7
    if pair == 8:
        a, b, n = a8, b8, n8
    if pair == 9:
        a, b, n = a9, b9, n9
    if pair == 10:
        a, b, n = a10, b10, n10
    if pair == 11:
        a, b, n = a11, b11, n11
    if pair == 12:
        a, b, n = a12, b12, n12
    if pair == 13:
        a, b, n = a13, b13, n13
    if pair == 14:
        a, b, n = a14, b14, n14
    if pair == 15:
        a, b, n = a15, b15, n15
    column, lane = tl.arange(0, R), tl.arange(0, ROWS)
    total = tl.zeros([R, R], tl.float64)
    for start in range(part * ROWS, n, parts * ROWS):
        row = start + lane
        place = row.to(tl.int64)[:, None] * W + column[None, :]
        inside = (row < n)[:, None] & (column < W)[None, :]
        x = tl.load(a + place, mask=inside, other=0.0).to(tl.float64)
        y = tl.load(b + place, mask=inside, other=0.0).to(tl.float64)
        total = tl.dot(tl.trans(x), y, total, input_precision="ieee", out_dtype=tl.float64)
    place = (part * tl.num_programs(0) + pair) * W * W + column[:, None] * W + column[None, :]
    tl.store(out + place, total, mask=(column < W)[:, None] & (column < W)[None, :])


def products(pairs: Sequence[tuple[Array, Array]]) -> Array:
    """``a^H b`` of up to 16 pairs of real arrays of one width, in double precision, one upon the other."""
    first, count = pairs[0][0], len(pairs)
    width, longest = first.shape[1], max(a.shape[0] for a, _ in pairs)
    parts = max(1, min(triton.cdiv(longest, 512), 2048 // count))
    out = torch.empty((parts, count, width, width), dtype=torch.float64, device=first.device)
    filled = [*pairs, *([pairs[0]] * (MOST - count))]
    arrays = (out, *(x for pair in filled for x in pair))
    launch(
        _gram_kernel, (count, parts, 1), first.dtype, arrays, (*(a.shape[0] for a, _ in filled), parts),
        W=width, R=max(16, triton.next_power_of_2(width)), ROWS=64, num_warps=2,
    )  # fmt: skip
    return out.sum(0) if parts > 1 else out[0]


@triton.jit
def _add_term(total, a, c, row, inside, n, ONE: tl.constexpr, R: tl.constexpr, WO: tl.constexpr, RO: tl.constexpr):
    column, across = tl.arange(0, R), tl.arange(0, RO)
    x = tl.load(
        a + row.to(tl.int64)[:, None] * ONE + column[None, :], mask=inside[:, None] & (column < ONE)[None, :], other=0.0
    )
    y = tl.load(c + column[:, None] * WO + across[None, :], mask=(column < ONE)[:, None] & (across < WO)[None, :], other=0.0)
    # In double precision for single, too: the tensor cores do that in no time, and without it they would round to ten bits.
    return tl.dot(x.to(tl.float64), y, total, input_precision="ieee", out_dtype=tl.float64)


@triton.jit(do_not_specialize=["n"])
def _combine_kernel(
    out, a0, c0, a1, c1, a2, c2, a3, c3, a4, c4, a5, c5, n,
    COUNT: tl.constexpr, W0: tl.constexpr, W1: tl.constexpr, W2: tl.constexpr, W3: tl.constexpr, W4: tl.constexpr,
    W5: tl.constexpr, R: tl.constexpr, WO: tl.constexpr, RO: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < n
    total = tl.zeros([ROWS, RO], tl.float64)
    total = _add_term(total, a0, c0, row, inside, n, W0, R, WO, RO)
    if COUNT > 1:
        total = _add_term(total, a1, c1, row, inside, n, W1, R, WO, RO)
    if COUNT > 2:
        total = _add_term(total, a2, c2, row, inside, n, W2, R, WO, RO)
    if COUNT > 3:
        total = _add_term(total, a3, c3, row, inside, n, W3, R, WO, RO)
    if COUNT > 4:
        total = _add_term(total, a4, c4, row, inside, n, W4, R, WO, RO)
    if COUNT > 5:
        total = _add_term(total, a5, c5, row, inside, n, W5, R, WO, RO)
    across = tl.arange(0, RO)
    place = row.to(tl.int64)[:, None] * WO + across[None, :]
    tl.store(out + place, total, mask=inside[:, None] & (across < WO)[None, :])


def combine(terms: Sequence[tuple[Array, Array]]) -> Array:
    """``sum_k A_k C_k``, at most six terms with coefficients in double precision, in one pass."""
    first, width = terms[0][0], terms[0][1].shape[1]
    n = first.shape[0]
    out = torch.empty((n, width), dtype=first.dtype, device=first.device)
    filled = [*terms, *([terms[0]] * (SLOTS - len(terms)))]
    widths = [a.shape[1] for a, _ in filled]
    R = max(16, triton.next_power_of_2(max(widths)))
    rows = 64 if R <= 32 else 32
    launch(
        _combine_kernel, (triton.cdiv(n, rows), 1, 1), first.dtype, (out, *(x for term in filled for x in term)), (n,),
        COUNT=len(terms), W0=widths[0], W1=widths[1], W2=widths[2], W3=widths[3], W4=widths[4], W5=widths[5],
        R=R, WO=width, RO=max(16, triton.next_power_of_2(width)), ROWS=rows, num_warps=4,
    )  # fmt: skip
    return out
