"""Limit of the threads of BLAS."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

_inside = threading.local()


@functools.cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (loads its BLAS)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextlib.contextmanager
def limit_blas_threads(threads: int | None) -> Iterator[None]:
    """Limit the number of BLAS threads; None changes nothing.

    For tall and thin arrays, more threads of BLAS slow down those of the kernels.

    Parameters
    ----------
    threads : int or None

    Examples
    --------
    >>> with limit_blas_threads(1):
    ...     pass
    """
    if threads is None or threads == getattr(_inside, "threads", None):  # set already by the caller
        yield
        return
    before, _inside.threads = getattr(_inside, "threads", None), threads
    limiter = _controller().limit(limits=threads, user_api="blas")
    try:
        yield
    finally:
        limiter.restore_original_limits()
        _inside.threads = before
