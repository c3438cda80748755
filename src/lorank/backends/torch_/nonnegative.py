"""Factors that are not negative, on tensors; what is computed is said in :mod:`lorank.backends.nonnegative`."""

from __future__ import annotations

from typing import Any

import torch

from ..nonnegative import descend
from .normal_equations import _chunks, _length, _sums
from .plain import Order, segments

Array = Any


def solve(
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
    """Factors of the rows of an order; all arrays in double precision, on the device of the order."""
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
