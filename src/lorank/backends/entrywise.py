"""Functions of vectors, entry by entry: what datafits are made of.

A vector has one number per observation and belongs to its backend. NumPy's are taken in pieces that stay in the caches, torch's
as they are; any other kind of vector (blocks on several machines, say) has two methods for it:

- ``map(function, *others)``: the vector of ``function(*blocks)``, block by block; numbers among the others go to each block;
- ``fold(function, *others)``: the sum over blocks of what the function returns, a small NumPy array.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .protocol import Vector

PIECE = 1 << 13  # entries at a time: some ten intermediate results of that length stay in a core's cache


def entrywise(function: Callable[..., Any], *vectors: Vector) -> Vector:
    """``function(xp, *vectors)`` for a function that looks at each entry alone.

    Parameters
    ----------
    function : callable
        Of the module that computes with the pieces (``numpy`` or ``torch``, which share ``exp``, ``log``, ``where``, ...) and a
        piece of each vector; returns as many numbers as a piece has.
    vectors : vectors
        Alike in length, the first at least.

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
    """The sums over all entries of what ``function(xp, *vectors)`` returns: a tuple or list of vectors.

    Returns
    -------
    (k,) array
        In double precision, whatever the vectors are in.

    Examples
    --------
    >>> import numpy as np
    >>> total(lambda xp, a: (a, a * a), np.array([1.0, 2.0]))
    array([3., 5.])
    """
    return reduced(_sums(function), *vectors)


def reduced(function: Callable[..., Any], *vectors: Vector) -> np.ndarray:
    """The sum over pieces of what ``function(xp, *pieces)`` returns: a small array of the pieces' own kind.

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
    return sys.modules["torch"]  # a tensor's own module is there
