"""The number of threads that BLAS may use."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

_inside = threading.local()


@functools.cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be seen)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextlib.contextmanager
def limited_blas(threads: int | None) -> Iterator[None]:
    """BLAS on so many threads; None leaves them alone.

    On tall and thin arrays the threads of BLAS only get in the way of the kernels' own.

    Parameters
    ----------
    threads : int or None

    Examples
    --------
    >>> with limited_blas(1):
    ...     pass
    """
    if threads is None or threads == getattr(_inside, "threads", None):  # or a part of what has set them already
        yield
        return
    before, _inside.threads = getattr(_inside, "threads", None), threads
    limiter = _controller().limit(limits=threads, user_api="blas")
    try:
        yield
    finally:
        limiter.restore_original_limits()
        _inside.threads = before
