"""Passes over all entries of ``exp(left right^T)``, in blocks of rows, for complete tables of counts.

Offsets are two more columns of the factors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .observations import Array

MAX_EXPONENT = 80.0  # e^80 is larger than any count
BLOCK = 1 << 18  # numbers of a block in main memory: it fits in the cache of a core
DEVICE_BLOCK = 1 << 27  # numbers of a block on a device


def exponential_sums(
    left: Array, right: Array, u: Array, v: Array, totals: Array | None = None
) -> tuple[float, Array, Array, Array | None]:
    """Sum of all entries of ``E = exp(left right^T)``, ``E v`` and ``E^T u``.

    With ``totals``, an (n1, 1) array, each row of E is first scaled to that sum (except rows with a total of zero); the
    logarithms of the factors are returned last.
    """
    xp = _module(left)
    out, back, whole = xp.empty_like(u), 0.0, 0.0
    shifts = None if totals is None else xp.zeros_like(totals)

    def one(rows: slice) -> tuple[float, Any]:
        e = _exponential(xp, left[rows] @ right.T)
        if totals is not None and shifts is not None:
            sums = e.sum(1)[:, None]
            factors = xp.where((totals[rows] > 0) & (sums > 0), totals[rows] / (sums + (sums == 0)), 0 * sums + 1)
            shifts[rows] = xp.log(factors)
            e *= factors
        out[rows] = e @ v
        return float(_double_sum(xp, e)), e.T @ u[rows]

    for part, product in _each(xp, one, len(left), len(right)):
        whole, back = whole + part, back + product
    return whole, out, back, shifts


def exponential_line(left: Array, right: Array, along: tuple[Array, Array]) -> tuple[float, float, float]:
    """``sum e w``, ``sum e w^2`` and ``max |w|`` for ``e = exp(left right^T)`` and w the entries of the product ``along``."""
    xp = _module(left)

    def one(rows: slice) -> tuple[float, float, float]:
        w = along[0][rows] @ along[1].T
        e = _exponential(xp, left[rows] @ right.T)
        e *= w
        first, second = _double_sum(xp, e), _double_sum(xp, xp.einsum("ij,ij->i", e, w))
        return float(first), float(second), max(float(w.max()), -float(w.min()))

    slope = curvature = largest = 0.0
    for a, b, c in _each(xp, one, len(left), len(right)):
        slope, curvature, largest = slope + a, curvature + b, max(largest, c)
    return slope, curvature, largest


def exponential_slope(left: Array, right: Array, along: tuple[Array, Array], at: float) -> float:
    """``sum e w`` for ``e = exp(left right^T + at w)``, the slope along a line."""
    xp = _module(left)

    def one(rows: slice) -> float:
        w = along[0][rows] @ along[1].T
        e = left[rows] @ right.T
        e += at * w
        return float(_double_sum(xp, xp.einsum("ij,ij->i", _exponential(xp, e), w)))

    return sum(_each(xp, one, len(left), len(right)))


def exponential_squares(left: Array, right: Array, penalty: tuple[Array, Array]) -> tuple[Array, Array]:
    """Squared norms of the rows and columns of ``exp(left right^T)`` plus the product of the penalty's factors."""
    xp = _module(left)
    kind = np.float64 if xp is np else xp.float64
    rows_out = xp.zeros(len(left), dtype=kind, **({} if xp is np else {"device": left.device}))
    cols_out: Any = 0.0

    def one(rows: slice) -> Any:
        g = _exponential(xp, left[rows] @ right.T)
        g += penalty[0][rows] @ penalty[1].T
        g = (g.astype(kind, copy=False) if xp is np else g.to(kind)) ** 2
        rows_out[rows] = g.sum(1)
        return g.sum(0)

    for part in _each(xp, one, len(left), len(right)):
        cols_out = cols_out + part
    return rows_out, cols_out


def _exponential(xp: Any, e: Array) -> Array:
    """``exp(e)``, in place."""
    xp.clip(e, None, MAX_EXPONENT, out=e)
    return xp.exp(e, out=e)


def _double_sum(xp: Any, e: Array) -> Any:
    """Sum in double precision, over rows first in their own precision."""
    if xp is np and e.ndim == 2:
        e = e.sum(1)
    return e.sum(dtype=np.float64 if xp is np else xp.float64)


def _each(xp: Any, one: Callable[[slice], Any], n1: int, n2: int) -> Iterator[Any]:
    """Results of a function for each block of rows, in order: sums do not depend on the number of threads."""
    step = max(1, (BLOCK if xp is np else DEVICE_BLOCK) // max(n2, 1))
    blocks = [slice(k, min(k + step, n1)) for k in range(0, n1, step)]
    threads = min(_threads(), len(blocks))
    if xp is not np or threads < 2:
        yield from map(one, blocks)
        return
    with ThreadPoolExecutor(threads) as pool:  # NumPy releases the interpreter lock
        yield from pool.map(one, blocks)


def _threads() -> int:
    asked = os.environ.get("OMP_NUM_THREADS", "")
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(int(asked), here) if asked.isdigit() and int(asked) > 0 else here


def _module(a: Array) -> Any:
    if isinstance(a, np.ndarray):
        return np
    import torch

    return torch
