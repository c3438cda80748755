"""Checks of what users pass in, shared by the measurement models that take arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backends import Array, Backend, as_owned, backend_of
from ..common.checks import ParameterError, shown

FLOATS = (np.float32, np.float64, np.complex64, np.complex128)


def as_shape(shape: Any) -> tuple[int, int]:
    """A pair of positive ints; whole floats will do, and anything else is refused."""
    try:
        sides = tuple(shape)
        whole = len(sides) == 2 and all(not isinstance(n, (bool, str)) and n == int(n) for n in sides)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise ParameterError("shape", f"must be a pair of integers (n1, n2), got {shown(shape)}")
    n1, n2 = (int(n) for n in sides)
    if n1 < 1 or n2 < 1:
        raise ParameterError("shape", f"must be a pair of positive integers, got {shown(shape)}")
    return n1, n2


def plain_array(a: Any, name: str) -> Array:
    """An array that some backend owns, or anything else as a NumPy array; a ValueError where it is none."""
    if hasattr(a, "tocoo"):
        raise ParameterError(name, f"is a sparse matrix, and an array is asked for: pass {name}.toarray(), or use from_sparse")
    try:
        return as_owned(a)
    except (TypeError, ValueError) as error:
        raise ParameterError(name, f"is no array of numbers: {error}") from None


def finite_array(a: Any, name: str) -> Array:
    """A floating-point array (NumPy's, or another backend's own) without nan and inf, or a ValueError that says where the
    first one is.
    """
    if np.ma.isMaskedArray(a):
        raise ParameterError(name, "is a masked array: leave out what was not measured")
    if hasattr(a, "tocoo"):
        raise ParameterError(name, f"is a sparse matrix: pass {name}.toarray() if that fits in memory, or use from_functions")
    a = plain_array(a, name)
    backend = backend_of(a)
    dtype = backend.dtype(a)
    if dtype.kind not in "biufc":
        raise ParameterError(name, f"must be numbers, got {dtype}")
    if 0 in a.shape:
        raise ParameterError(name, f"is empty, of shape {tuple(a.shape)}")
    if dtype not in FLOATS or not dtype.isnative:
        single = dtype.newbyteorder("=") in FLOATS
        a = backend.astype(a, dtype.newbyteorder("=") if single else np.complex128 if dtype.kind == "c" else np.float64)
    if not backend.all_finite(a):
        place = ", ".join(str(k) for k in np.argwhere(~np.isfinite(backend.to_numpy(a)))[0])
        raise ValueError(f"{name}[{place}] is not finite: leave out what was not measured")
    return backend.detached(a)


def measurement_vector(y: Any) -> Array:
    """The measurements as a one-dimensional floating-point array."""
    y = finite_array(y, "y")
    if y.ndim != 1:
        raise ParameterError(
            "y", f"must be one-dimensional, got shape {y.shape}: pass the measurements themselves, one number each"
        )
    return y


def check_operator_scale(largest: float, operator_scale: float, dtype: Any) -> None:
    """Raise a ValueError where ``A* y`` or ``A A* y`` would leave the range of the dtype.

    They are about ``operator_scale^(1/2)`` and ``operator_scale`` times as large as the measurements. The square of the first
    must also stay in range while it shrinks as a run converges.
    """
    if not largest or not operator_scale > 0:
        return
    small, large, top = (-10, 17, 30) if np.finfo(dtype).bits == 32 else (-100, 140, 140)
    y, root = math.log10(largest), math.log10(operator_scale) / 2
    if not (small <= y + root <= large and small <= y - root <= large and abs(y + 2 * root) <= top):
        raise ValueError(
            f"|A Z|^2 is about {operator_scale:.0e} |Z|^2 and the largest measurement {largest:.0e}: their products leave the "
            f"range of {dtype}. Divide A by a constant, so that its entries are about 1, and the measurements accordingly"
        )


def functions_of_numpy(y: Array, backend: Backend) -> bool:
    """Whether a user's functions are given NumPy arrays: where y is one. A ValueError where they cannot be."""
    if not isinstance(y, np.ndarray):
        return False
    if not backend.in_main_memory:
        raise ParameterError(
            "y",
            f"is a NumPy array, so the functions are taken for functions of NumPy arrays, which {backend.name} cannot use: "
            "write them for tensors and pass y as a tensor on that device, or leave out backend",
        )
    return True
