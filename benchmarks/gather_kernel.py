"""The yardstick of benchmarks/gpu.py: rows gathered and added up, with nothing else done."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gather_kernel(ptr, index, other, out, W: tl.constexpr, R: tl.constexpr, K: tl.constexpr):
    """Sums over the rows of ``other`` that ``index`` names between ``ptr[i]`` and ``ptr[i + 1]``."""
    row = tl.program_id(0).to(tl.int64)
    begin, end = tl.load(ptr + row).to(tl.int32), tl.load(ptr + row + 1).to(tl.int32)
    column, lane = tl.arange(0, R), tl.arange(0, K)
    total = tl.zeros([K, R], other.dtype.element_ty)
    following = tl.load(index + begin + lane, mask=begin + lane < end, other=0)
    for start in range(begin, end, K):
        place = start + lane
        j = following
        following = tl.load(index + place + K, mask=place + K < end, other=0)
        total += tl.load(
            other + j[:, None] * W + column[None, :], mask=(place < end)[:, None] & (column < W)[None, :], other=0.0
        )
    tl.store(out + row * W + column, tl.sum(total, 0), mask=column < W)
