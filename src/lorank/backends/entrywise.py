"""Entrywise functions of vectors, and sums over their entries.

NumPy vectors are processed in pieces that fit the caches, torch tensors as a whole. Any other kind of vector, such as blocks on
several machines, supplies two methods:

- ``map(function, *others)``: the vector of ``function(*blocks)``, block by block; numbers are passed to each block;
- ``fold(function, *others)``: the sum over blocks of the small NumPy arrays that the function returns.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .observations import Vector

PIECE = 1 << 13  # entries at a time: about ten temporary arrays of that length fit in the cache of a core


def entrywise(function: Callable[..., Any], *vectors: Vector) -> Vector:
    """``function(xp, *vectors)`` for an entrywise function.

    Parameters
    ----------
    function : callable
        Takes the module of the arrays (``numpy`` or ``torch``, which share ``exp``, ``log``, ``where``, ...) and a piece of
        each vector; returns a vector of the length of the piece.
    vectors : vectors
        Of equal length; at least one.

    Examples
    --------
    >>> import numpy as np
    >>> entrywise(lambda xp, a, b: xp.exp(a) + b, np.zeros(3), np.ones(3))
    array([2., 2., 2.])
    """
    first = vectors[0]
    if isinstance(first, np.ndarray):
        if len(first) <= PIECE:
            return np.asarray(function(np, *vectors))
        out: np.ndarray | None = None
        for k in range(0, len(first), PIECE):
            part = np.asarray(function(np, *(v[k : k + PIECE] for v in vectors)))
            if out is None:
                out = np.empty(len(first), part.dtype)
            out[k : k + PIECE] = part
        return out
    if hasattr(first, "fold"):
        return first.map(lambda *blocks: entrywise(function, *blocks), *vectors[1:])
    return function(_torch(), *vectors)


def total(function: Callable[..., Any], *vectors: Vector) -> np.ndarray:
    """Sums over all entries of each vector that ``function(xp, *vectors)`` returns.

    Returns
    -------
    (k,) array
        In double precision.

    Examples
    --------
    >>> import numpy as np
    >>> total(lambda xp, a: (a, a * a), np.array([1.0, 2.0]))
    array([3., 5.])
    """
    return reduced(_sums(function), *vectors)


def reduced(function: Callable[..., Any], *vectors: Vector) -> np.ndarray:
    """Sum over pieces of the small arrays that ``function(xp, *pieces)`` returns.

    Examples
    --------
    >>> import numpy as np
    >>> reduced(lambda xp, k: xp.bincount(k, minlength=3), np.array([0, 2, 2]))
    array([1, 0, 2])
    """
    first = vectors[0]
    if isinstance(first, np.ndarray):
        pieces = (function(np, *(v[k : k + PIECE] for v in vectors)) for k in range(0, max(len(first), 1), PIECE))
        return np.asarray(functools.reduce(operator.add, pieces))
    if hasattr(first, "fold"):
        return np.asarray(first.fold(lambda *blocks: reduced(function, *blocks), *vectors[1:]))
    return np.asarray(function(_torch(), *vectors).cpu().numpy())  # in one transfer


def _sums(function: Callable[..., Any]) -> Callable[..., Any]:
    def sums(xp: Any, *pieces: Any) -> Any:
        found = function(xp, *pieces)
        if xp is np:
            return np.array([np.sum(one, dtype=np.float64) for one in found])
        return xp.stack([one.sum(dtype=xp.float64) for one in found])

    return sums


def _torch() -> Any:
    return sys.modules["torch"]  # imported already, as there is a tensor
