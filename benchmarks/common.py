"""What every benchmark prints beside its figures."""

from __future__ import annotations

import platform

import numpy as np
import scipy

import lorank as lr
from lorank.backends import get_backend


def versions() -> str:
    """One line: versions, instruction set and threads."""
    backend = get_backend()
    kernels = "reference path"
    if backend.name == "native":
        from lorank import _kernels

        kernels = f"{_kernels.instruction_set()}, {_kernels.threads()} kernel thread(s)"
    return (
        f"lorank {lr.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, Python {platform.python_version()}, "
        f"{kernels}, BLAS limited to 1"
    )


def spread(values: list[float]) -> str:
    """Median and range, in milliseconds."""
    low, mid, high = np.percentile(values, [0, 50, 100]) * 1e3
    return f"{mid:7.2f} ({low:.2f} .. {high:.2f})"
