"""Cholesky QR: factors of tall arrays from their Gram matrices, with checks of accuracy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .observations import Array


def first_pass(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """From ``y^H y``: k and its inverse with ``y = q k`` and q nearly orthonormal; None where y is nearly dependent."""
    diagonal = np.diagonal(squares).real
    if not (len(diagonal) == 0 or 0 < diagonal.min() <= diagonal.max() < np.inf):  # also catches nan
        return None
    scale = np.sqrt(diagonal)
    found = _cholesky(squares / np.outer(scale, scale))
    return None if found is None else (found[0] * scale, found[1] / scale[:, None])


def at_large_angles(k: np.ndarray, inverse: np.ndarray, y: Array) -> bool:
    """One Cholesky pass loses less than a digit: the columns of ``y = q k`` are far from dependent.

    The criterion is the inverse of k for columns of unit length. False where squares may have underflowed.
    """
    size = abs(k).max(0, initial=0)  # norms of the columns, within a factor: prevents overflow of squares
    numbers = np.finfo(y.dtype)
    if size.min(initial=np.inf) < np.sqrt(len(y) * numbers.tiny / numbers.eps):
        return False
    return float((abs(k / size) ** 2).sum(0) @ (abs(inverse * size[:, None]) ** 2).sum(1)) < len(k) + 8


def second_pass(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The same from ``q^H q`` of a nearly orthonormal q; None where it is not."""
    if not abs(squares - np.eye(len(squares))).max(initial=0) < 0.1:  # also catches nan
        return None
    return _cholesky(squares)


def _cholesky(a: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Upper triangular k with ``a = k^H k`` and its inverse, in double precision; None where a is not positive definite.

    Calls LAPACK directly: on small matrices the functions of NumPy take several times as long.
    """
    if not len(a):
        return a, a
    factor, invert = _lapack(a.dtype.kind == "c")
    k, failed = factor(a, clean=True)
    if failed:
        return None
    inverse, failed = invert(k)
    return None if failed else (k, inverse)


@functools.cache
def _lapack(complex_: bool) -> tuple[Any, Any]:
    from scipy.linalg import lapack

    return (lapack.zpotrf, lapack.ztrtri) if complex_ else (lapack.dpotrf, lapack.dtrtri)
