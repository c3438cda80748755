"""Normal equations of alternating least squares on tensors, many small systems at a time.

They are defined in :class:`~lorank.backends.observations.Observations`. The sums over the observations of a row are made by the
passes of the device: matrices by :func:`blocks` or its Triton kernel, right-hand sides and covariances by products with a
sparse matrix. A group of rows takes four launches on a GPU, whatever the number of observations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ..normal_equations import NonnegativeSystems, RowSystems, descend
from .plain import Order, Segments, segments

Array = Any
CHUNK = 1 << 24  # numbers in the matrices that are held at a time,
DEVICE_CHUNK = 1 << 27  # and on a GPU: 1 GB, and five times that with factors and inverses
BLOCK = 1 << 24  # numbers that are gathered at a time
OTHERS = ("weights", "fixed", "noise", "covariance", "cycles", "tolerance")  # weights have an order, the others are numbers


def solve(order: Order, values: Array, given: RowSystems, kernels: tuple[Any, Any]) -> tuple[Array, Array | None, Array]:
    """Factors of the rows of an order; all arrays in double precision, on the device of the order.

    ``kernels`` are the module with the passes of the device, and the function that computes :func:`blocks` there.
    """
    k, device = given.other.shape[1], given.other.device
    a, b = torch.triu_indices(k, k, device=device)
    free = torch.tensor([i for i in range(k) if i != given.fixed], device=device)
    mean, squares = torch.ones((order.n, k), dtype=torch.float64, device=device), values.new_empty(order.n, dtype=torch.float64)
    cov = torch.zeros((order.n, len(a)), dtype=torch.float64, device=device) if given.covariance else None
    for rows, A, right, total in _sums(order, values, given.other, given.moments, given.weights, kernels):
        c = torch.ones_like(total) if given.scale is None else given.scale[rows]
        M = given.noise * A + c[:, None, None] * given.prior
        h = given.noise * right + c[:, None] * given.shift
        if given.fixed >= 0:
            h = (h - M[:, :, given.fixed])[:, free]
            M = M[:, free][:, :, free]
        root, failed = torch.linalg.cholesky_ex(M)
        root = torch.where((failed > 0)[:, None, None], torch.nan, root)
        x = torch.ones_like(right)
        inverse = None if cov is None else torch.cholesky_inverse(root)
        # Triangular solves of many small systems are slow on a GPU; covariances need the inverse anyway.
        x[:, free] = (torch.cholesky_solve(h[:, :, None], root) if inverse is None else inverse @ h[:, :, None])[:, :, 0]
        mean[rows] = x
        squares[rows] = total - 2 * (x * right).sum(1) + ((A @ x[:, :, None])[:, :, 0] * x).sum(1)
        if cov is not None:
            S = torch.zeros_like(A)
            S[:, free[:, None], free] = inverse
            cov[rows] = S[:, a, b]
            squares[rows] += (A * S).sum((1, 2))
    return mean, cov, squares


def solve_nonnegative(order: Order, values: Array, given: NonnegativeSystems, kernels: tuple[Any, Any]) -> tuple[Array, Array]:
    """Nonnegative factors of the rows of an order; all arrays in double precision, on the device of the order."""
    k = given.other.shape[1]
    x, squares = given.start.clone(), given.ridge.new_empty(order.n)
    one = torch.eye(k, dtype=torch.float64, device=given.other.device)
    for rows, A, b, total in _sums(order, values, given.other, None, given.weights, kernels):
        M = A + given.ridge[rows, None, None] * one + (0.0 if given.prior is None else given.prior)
        h = b if given.centre is None else b + given.ridge[rows, None] * given.centre
        found = x[rows] = descend(M, h, x[rows], given.cycles, given.tolerance)
        squares[rows] = total + (found * ((A @ found[:, :, None])[:, :, 0] - 2 * b)).sum(1)
    return x, squares


def _sums(
    order: Order, values: Array, other: Array, moments: Array | None, weights: Array | None, kernels: tuple[Any, Any]
) -> Iterator[tuple[slice, Array, Array, Array]]:
    """A group of rows, and for each row ``sum_t w_t (y_t y_t^T + S_t)``, ``sum_t w_t r_t y_t`` and ``sum_t w_t r_t^2``."""
    k, (passes, matrices) = other.shape[1], kernels
    w = torch.ones_like(values) if weights is None else weights
    upper = torch.triu_indices(k, k, device=other.device)
    for rows, entries, part in _parts(order, k):
        some = w[entries] * values[entries]
        A = matrices(part, other, None if weights is None else weights[entries])
        if moments is not None:
            packed = passes.times(part, w[entries], moments)
            A[:, upper[0], upper[1]] += packed
            A[:, upper[1], upper[0]] = A[:, upper[0], upper[1]]
        yield rows, A, passes.times(part, some, other), passes.row_sums(part, some * values[entries])


def _parts(order: Order, k: int) -> Iterator[tuple[slice, slice, Order]]:
    """Groups of rows whose matrices are held at a time, their observations, and the order of these."""
    most = max(1, (CHUNK if order.ptr.device.type == "cpu" else DEVICE_CHUNK) // max(k * k, 1))
    if order.n <= most:
        yield slice(0, order.n), slice(0, order.m), order
        return
    for begin in range(0, order.n, most):
        rows = slice(begin, min(begin + most, order.n))
        first, last = order.ptr[[rows.start, rows.stop]].tolist()
        ptr = order.ptr[rows.start : rows.stop + 1] - first
        pieces = None if order.segments is None else segments(ptr)
        yield rows, slice(first, last), Order(ptr, order.index[first:last], pieces)


def blocks(order: Order, other: Array, weights: Array | None) -> Array:
    """``sum_t w_t y_t^H y_t`` over the rows of an order, y_t the rows of ``other``: (rows, k, k).

    Rows are divided into segments of about the mean number of observations, padded to the same length: the sums over many
    segments are one batched product.
    """
    k = other.shape[1]
    out = torch.zeros((order.n, k * k), dtype=other.dtype, device=other.device)
    if not order.m:
        return out.view(order.n, k, k)
    for rows in _chunks(order, k):
        pieces = segments(order.ptr[rows.start : rows.stop + 1], _length(order))
        out[rows] = pieces.add_up(_segment_sums(order, pieces, other, weights))
    return out.view(order.n, k, k)


def _length(order: Order) -> int:
    """Observations of a segment: the power of two above the mean, so that padding at most doubles the work of a typical row."""
    return int(min(max(2 ** int(np.ceil(np.log2(max(order.m / max(order.n, 1), 1)))), 8), 256))


def _chunks(order: Order, k: int) -> Iterator[slice]:
    """Groups of rows whose segments take about 100 MB (one row may take more)."""
    most, length = max(1, CHUNK // (k + 1) ** 2), _length(order)
    pieces = np.maximum(-(-np.diff(order.ptr.cpu().numpy()) // length), 1)
    ends, begin = np.cumsum(pieces), 0
    while begin < order.n:
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(begin, end)
        begin = end


def _segment_sums(order: Order, pieces: Segments, other: Array, weights: Array | None) -> Array:
    """``sum_t w_t y_t^H y_t`` over each segment: (segments, k^2)."""
    k, device = other.shape[1], other.device
    lane = torch.arange(_length(order), device=device)
    step = max(1, BLOCK // (len(lane) * max(k, 1)))
    out = torch.empty((pieces.count, k, k), dtype=other.dtype, device=device)
    for start in range(0, pieces.count, step):
        part = slice(start, start + step)
        at = pieces.begin[part, None] + lane
        inside = at < pieces.end[part, None]
        at = torch.where(inside, at, 0)
        y = other[order.index[at].long()]
        w = inside.to(other.dtype) if weights is None else weights[at] * inside
        torch.bmm((w[:, :, None] * y).mH, y, out=out[part])
    return out.flatten(1)
