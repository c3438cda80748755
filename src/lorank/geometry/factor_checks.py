"""Checks of matrices and factors as users pass them in."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import Array, as_owned, backend_of
from ..common.checks import ParameterError, check, whole


def matrix_of_numbers(a: Any, name: str) -> Array:
    """A finite matrix of floating-point numbers with at least one row and one column, or a ValueError that names it."""
    if np.ma.isMaskedArray(a):
        raise ParameterError(name, "is a masked array: see Completion.from_dense for a matrix with gaps")
    if hasattr(a, "tocoo"):
        raise ParameterError(name, f"is a sparse matrix: pass {name}.toarray(), or see Completion.from_sparse")
    try:
        a = as_owned(a)
    except (TypeError, ValueError) as error:
        raise ParameterError(name, f"must be a matrix of numbers: {error}") from None
    backend = backend_of(a)
    dtype = backend.dtype(a)
    if dtype.kind not in "biufc":
        raise ParameterError(name, f"must be a matrix of numbers, got {dtype}")
    if a.ndim != 2 or 0 in a.shape:
        raise ParameterError(name, f"must be a matrix with at least one row and one column, got shape {tuple(a.shape)}")
    if dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        a = backend.astype(a, np.complex128 if dtype.kind == "c" else np.float64)
    if not backend.all_finite(a):
        raise ParameterError(name, "holds nan or inf")
    return a


def check_rank(rank: Any, top: int) -> None:
    """A ValueError where the rank is no whole number from 1 to ``top``."""
    check("rank", rank, whole(1))
    if rank > top:
        raise ParameterError("rank", f"must lie between 1 and {top}, got {rank}")
