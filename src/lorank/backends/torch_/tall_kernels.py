"""Gram products and combinations of tall arrays as Triton kernels: many small products in one launch, each array read once.

Their plain twins are ``plain_product`` and ``plain_combine`` in :mod:`.tall`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from .tall import plain_product

Array = Any
MOST = 8  # pairs of a launch
SLOTS = 6  # terms of a combination


@triton.jit
def _gram_kernel(
    a0, b0, a1, b1, a2, b2, a3, b3, a4, b4, a5, b5, a6, b6, a7, b7, n0, n1, n2, n3, n4, n5, n6, n7, out, parts,
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
    column, lane = tl.arange(0, R), tl.arange(0, ROWS)
    total = tl.zeros([R, R], tl.float64)
    for start in range(part * ROWS, n, parts * ROWS):
        row = start + lane
        place = row.to(tl.int64)[:, None] * W + column[None, :]
        inside = (row < n)[:, None] & (column < W)[None, :]
        x = tl.load(a + place, mask=inside, other=0.0).to(tl.float64)
        y = tl.load(b + place, mask=inside, other=0.0).to(tl.float64)
        total = tl.dot(tl.trans(x), y, total)
    place = (part * tl.num_programs(0) + pair) * W * W + column[:, None] * W + column[None, :]
    tl.store(out + place, total, mask=(column < W)[:, None] & (column < W)[None, :])


def products(pairs: Sequence[tuple[Array, Array]]) -> list[Array]:
    """``a^H b`` of each pair, in double precision."""
    found: list[Array] = [None] * len(pairs)
    for width in {a.shape[1] for a, _ in pairs}:
        same = [k for k, (a, b) in enumerate(pairs) if a.shape[1] == b.shape[1] == width]
        for first in range(0, len(same), MOST):
            some = same[first : first + MOST]
            for k, product in zip(some, _launch_gram([pairs[k] for k in some], width), strict=True):
                found[k] = product
    for k, (a, b) in enumerate(pairs):
        if found[k] is None:  # of different widths
            found[k] = plain_product(a, b)
    return found


def _launch_gram(pairs: Sequence[tuple[Array, Array]], width: int) -> Array:
    rows = 64
    longest = max(len(a) for a, _ in pairs)
    parts = max(1, min(triton.cdiv(longest, 4 * rows), 2048 // len(pairs)))
    out = torch.empty((parts, len(pairs), width, width), dtype=torch.float64, device=pairs[0][0].device)
    filled = [*pairs, *([pairs[0]] * (MOST - len(pairs)))]
    arrays = [x.contiguous() for pair in filled for x in pair]
    _gram_kernel[(len(pairs), parts)](
        *arrays, *(len(a) for a, _ in filled), out, parts,
        W=width, R=max(16, triton.next_power_of_2(width)), ROWS=rows, num_warps=2,
    )  # fmt: skip
    return out.sum(0)


@triton.jit
def _add_term(total, a, c, row, inside, n, ONE: tl.constexpr, R: tl.constexpr, WO: tl.constexpr, RO: tl.constexpr):
    column, across = tl.arange(0, R), tl.arange(0, RO)
    x = tl.load(a + row.to(tl.int64)[:, None] * ONE + column[None, :], mask=inside[:, None] & (column < ONE)[None, :], other=0.0)
    y = tl.load(
        c + column[:, None] * WO + across[None, :], mask=(column < ONE)[:, None] & (across < WO)[None, :], other=0.0
    )
    return tl.dot(x, y, total, input_precision="ieee", out_dtype=x.dtype)


@triton.jit
def _combine_kernel(
    a0, c0, a1, c1, a2, c2, a3, c3, a4, c4, a5, c5, out, n,
    COUNT: tl.constexpr, W0: tl.constexpr, W1: tl.constexpr, W2: tl.constexpr, W3: tl.constexpr, W4: tl.constexpr,
    W5: tl.constexpr, R: tl.constexpr, WO: tl.constexpr, RO: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < n
    total = tl.zeros([ROWS, RO], out.dtype.element_ty)
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
    """``sum_k A_k C_k``, at most six terms, in one pass."""
    n, width = len(terms[0][0]), terms[0][1].shape[1]
    out = torch.empty((n, width), dtype=terms[0][0].dtype, device=terms[0][0].device)
    filled = [*terms, *([terms[0]] * (SLOTS - len(terms)))]
    R = max(16, triton.next_power_of_2(max(a.shape[1] for a, _ in terms)))
    rows = 64 if R <= 32 else 32
    _combine_kernel[(triton.cdiv(n, rows),)](
        *(x.contiguous() for term in filled for x in term), out, n, COUNT=len(terms),
        **{f"W{k}": a.shape[1] for k, (a, _) in enumerate(filled)},
        R=R, WO=width, RO=max(16, triton.next_power_of_2(width)), ROWS=rows, num_warps=4,
    )  # fmt: skip
    return out
