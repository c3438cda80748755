"""Other last bits: what another processor, BLAS or number of threads would make of the same computation.

``pytest --rounding 1`` (or 2, 3, ...) changes the last bit of what the backends' products and passes give, up, down or not at
all, by a hash of the number itself and the seed. A function of its arguments stays one, so that "same seed, same bits" still
holds; but every run takes another path. A test that fails under some seed asserts the path and not the promise.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

import numpy as np

MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: spreads the bits of neighbouring numbers

# Where sums are made: modules, and methods of their classes. Names that are not there are passed over.
TALL = ("gram", "product", "minus", "plus", "norm", "inner")
PASSES = (
    *("gradient_rows", "gradient_cols", "residual", "sample", "line_sums"),
    *("times", "adjoint_times", "normal_equations"),
)
SUMS = {
    "backends.numpy_backend": TALL,
    "backends.numpy_observations": PASSES,
    "backends.native": TALL + PASSES,
    "phase.linear_maps": ("apply", "adjoint"),
}


def shaken(a: Any, seed: int) -> Any:
    """The same numbers, a third of them a rounding unit up and a third of them one down; whole ones, being exact, stay."""
    if isinstance(a, tuple):
        return tuple(shaken(x, seed) for x in a)
    if isinstance(a, float):
        return float(shaken(np.array([a]), seed)[0])
    if not isinstance(a, np.ndarray) or a.dtype.kind not in "fc" or a.dtype.itemsize // (1 + (a.dtype.kind == "c")) < 4:
        return a
    out = np.array(a, order="C")
    parts = out.reshape(-1).view(out.real.dtype)
    bits = np.abs(parts).view(np.uint32 if parts.dtype == np.float32 else np.uint64).astype(np.uint64)
    with np.errstate(over="ignore"):
        hashed = (bits + np.uint64(seed)) * np.uint64(MULTIPLIER)
    units = ((hashed >> np.uint64(40)) % np.uint64(3)).astype(parts.dtype) - parts.dtype.type(1)
    parts *= np.where(parts == np.rint(parts), 1, 1 + units * np.finfo(parts.dtype).eps)
    return out


def install(seed: int) -> int:
    """From here on, the backends round otherwise; returns how many methods do."""
    count = 0
    for module, names in SUMS.items():
        try:
            found = importlib.import_module(f"lorank.{module}")
        except ImportError:  # the C++ extension
            continue
        for cls in (c for _, c in inspect.getmembers(found, inspect.isclass) if c.__module__ == found.__name__):
            for name in names:
                if inspect.isfunction(vars(cls).get(name)):
                    setattr(cls, name, _wrapped(vars(cls)[name], seed))
                    count += 1
    return count


def _wrapped(method: Any, seed: int) -> Any:
    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        return shaken(method(*args, **options), seed)

    return call
