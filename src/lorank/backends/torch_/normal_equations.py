"""Normal equations of alternating least squares on tensors, many small systems at a time.

They are defined in :class:`~lorank.backends.observations.Observations`. Rows are divided into segments of about the mean number
of observations, padded to the same length: the sums over many segments are one batched product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ..normal_equations import descend
from .plain import Order, Segments, segments

Array = Any
CHUNK = 1 << 24  # numbers in the matrices of all segments that are held at a time
BLOCK = 1 << 24  # numbers that are gathered at a time


def solve(
    order: Order,
    values: Array,
    other: Array,
    prior: Array,
    shift: Array,
    *,
    moments: Array | None,
    weights: Array | None,
    scale: Array | None,
    fixed: int,
    noise: float,
    covariance: bool,
) -> tuple[Array, Array | None, Array]:
    """Factors of the rows of an order; all arrays in double precision, on the device of the order."""
    k, device = other.shape[1], other.device
    a, b = torch.triu_indices(k, k, device=device)
    free = torch.tensor([i for i in range(k) if i != fixed], device=device)
    mean, squares = torch.ones((order.n, k), dtype=torch.float64, device=device), values.new_empty(order.n, dtype=torch.float64)
    cov = torch.zeros((order.n, len(a)), dtype=torch.float64, device=device) if covariance else None
    for rows in _chunks(order, k):
        pieces = segments(order.ptr[rows.start : rows.stop + 1], _length(order))
        sums = pieces.add_up(_sums(order, pieces, values, other, moments, weights)).view(-1, k + 1, k + 1)
        A, right, total = sums[:, :k, :k], sums[:, :k, k], sums[:, k, k]
        c = torch.ones_like(total) if scale is None else scale[rows]
        M = noise * A + c[:, None, None] * prior
        h = noise * right + c[:, None] * shift
        if fixed >= 0:
            h = (h - M[:, :, fixed])[:, free]
            M = M[:, free][:, :, free]
        root, failed = torch.linalg.cholesky_ex(M)
        root = torch.where((failed > 0)[:, None, None], torch.nan, root)
        x = torch.ones_like(right)
        x[:, free] = torch.cholesky_solve(h[:, :, None], root)[:, :, 0]
        mean[rows] = x
        squares[rows] = total - 2 * (x * right).sum(1) + ((A @ x[:, :, None])[:, :, 0] * x).sum(1)
        if cov is not None:
            S = torch.zeros_like(A)
            S[:, free[:, None], free] = torch.cholesky_inverse(root)
            cov[rows] = S[:, a, b]
            squares[rows] += (A * S).sum((1, 2))
    return mean, cov, squares


def solve_nonnegative(
    order: Order,
    values: Array,
    other: Array,
    start: Array,
    ridge: Array,
    *,
    centre: Array | None,
    prior: Array | None,
    weights: Array | None,
    cycles: int,
    tolerance: float,
) -> tuple[Array, Array]:
    """Nonnegative factors of the rows of an order; all arrays in double precision, on the device of the order."""
    k = other.shape[1]
    x, squares = start.clone(), ridge.new_empty(order.n)
    one = torch.eye(k, dtype=torch.float64, device=other.device)
    for rows in _chunks(order, k):
        pieces = segments(order.ptr[rows.start : rows.stop + 1], _length(order))
        sums = pieces.add_up(_sums(order, pieces, values, other, None, weights)).view(-1, k + 1, k + 1)
        A, b, total = sums[:, :k, :k], sums[:, :k, k], sums[:, k, k]
        M = A + ridge[rows, None, None] * one + (0.0 if prior is None else prior)
        h = b if centre is None else b + ridge[rows, None] * centre
        found = x[rows] = descend(M, h, x[rows], cycles, tolerance)
        squares[rows] = total + (found * ((A @ found[:, :, None])[:, :, 0] - 2 * b)).sum(1)
    return x, squares


def blocks(order: Order, other: Array, weights: Array | None) -> Array:
    """``sum_t w_t y_t^H y_t`` over the rows of an order, y_t the rows of ``other``: (rows, k, k)."""
    k = other.shape[1]
    out = torch.zeros((order.n, k * k), dtype=other.dtype, device=other.device)
    if not order.m:
        return out.view(-1, k, k)
    for rows in _chunks(order, k):
        pieces = segments(order.ptr[rows.start : rows.stop + 1], _length(order))
        out[rows] = pieces.add_up(_sums(order, pieces, None, other, None, weights))
    return out.view(-1, k, k)


def _length(order: Order) -> int:
    """Observations of a segment: the power of two above the mean, so that padding at most doubles the work of a typical row."""
    return int(min(max(2 ** int(np.ceil(np.log2(max(order.m / max(order.n, 1), 1)))), 8), 256))


def _chunks(order: Order, k: int) -> Iterator[slice]:
    """Groups of rows whose sums take about 100 MB (one row may take more)."""
    most, length = max(1, CHUNK // (k + 1) ** 2), _length(order)
    pieces = np.maximum(-(-np.diff(order.ptr.cpu().numpy()) // length), 1)
    ends, begin = np.cumsum(pieces), 0
    while begin < order.n:
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(begin, end)
        begin = end


def _sums(
    order: Order, pieces: Segments, values: Array | None, other: Array, moments: Array | None, weights: Array | None
) -> Array:
    """``sum_t w_t [y_t, r_t]^H [y_t, r_t]`` over each segment, plus the covariances: (segments, (k + 1)^2).

    Without values ``sum_t w_t y_t^H y_t``: (segments, k^2).
    """
    k, device = other.shape[1], other.device
    side = k if values is None else k + 1
    lane = torch.arange(_length(order), device=device)
    wide = k + 1 + (0 if moments is None else moments.shape[1])
    step = max(1, BLOCK // (len(lane) * wide))
    if moments is not None:  # position of each entry in a packed upper triangle
        a, b = torch.triu_indices(k, k, device=device)
        place = torch.empty((k, k), dtype=torch.int64, device=device)
        place[a, b] = place[b, a] = torch.arange(len(a), device=device)
    out = torch.empty((pieces.count, side, side), dtype=other.dtype, device=device)
    for start in range(0, pieces.count, step):
        part = slice(start, start + step)
        at = pieces.begin[part, None] + lane
        inside = at < pieces.end[part, None]
        at = torch.where(inside, at, 0)
        index = order.index[at].long()
        w = inside.to(other.dtype) if weights is None else weights[at] * inside
        y = other[index] if values is None else torch.cat([other[index], values[at, None]], dim=2)
        torch.bmm((w[:, :, None] * y).mH, y, out=out[part])
        if moments is not None:
            packed = torch.bmm(w[:, None, :], moments[index])[:, 0]
            out[part, :k, :k] += packed[:, place]
    return out.flatten(1)
