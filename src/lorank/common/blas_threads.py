"""Limit of the threads of BLAS.

Small dense arrays are computed fastest with one thread: more of them wait for each other and take many times the CPU time.
Kernels have threads of their own, which these limits leave alone.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar("T")
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


def one_blas_thread(target: T) -> T:
    """Decorator: run a function, or all public methods that a class defines, with one BLAS thread.

    Examples
    --------
    >>> import numpy as np
    >>> @one_blas_thread
    ... def solve_small(A, b):
    ...     return np.linalg.solve(A, b)
    >>> solve_small(np.eye(2), np.ones(2))
    array([1., 1.])
    """
    if isinstance(target, type):
        for name, method in list(vars(target).items()):
            if isinstance(method, types.FunctionType) and not name.startswith("_"):
                setattr(target, name, one_blas_thread(method))
        return target
    function: Any = target

    @functools.wraps(function)
    def limited(*args: Any, **options: Any) -> Any:
        with limit_blas_threads(1):
            return function(*args, **options)

    return limited  # type: ignore[return-value]
