"""Limit of the threads of BLAS.

Small dense arrays are computed fastest with one thread: more of them wait for each other and take many times the CPU time.
Kernels have threads of their own, which these limits leave alone.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
_lock = threading.Lock()
_limits: list[int] = []  # in force, of all threads of the process
_unlimited: list[int] = []  # numbers of threads before the first of them


@functools.cache
def _libraries() -> tuple[list[Any], list[Any]]:
    """The BLAS libraries with one number of threads for the process, and those with one for each thread."""
    import scipy.linalg  # noqa: F401  (loads its BLAS)
    from threadpoolctl import ThreadpoolController

    found = [one for one in ThreadpoolController().lib_controllers if one.user_api == "blas"]
    own = [one for one in found if getattr(one, "threading_layer", "") == "openmp"]
    return [one for one in found if one not in own], own


@contextlib.contextmanager
def limit_blas_threads(threads: int | None) -> Iterator[None]:
    """Limit the number of BLAS threads; None changes nothing.

    The smallest limit of all threads of the process holds, and the number before is restored when the last of them ends:
    computations at the same time do not change each other's rounding.

    Parameters
    ----------
    threads : int or None

    Examples
    --------
    >>> with limit_blas_threads(1):
    ...     pass
    """
    if threads is None:
        yield
        return
    _, own = _libraries()
    before = [one.num_threads for one in own]
    for one in own:
        one.set_num_threads(threads)
    _change(_limits.append, threads)
    try:
        yield
    finally:
        _change(_limits.remove, threads)
        for one, number in zip(own, before, strict=True):
            one.set_num_threads(number)


def _change(change: Callable[[int], None], threads: int) -> None:
    """Add or remove a limit, and set the number of threads of the process accordingly."""
    global _unlimited
    shared, _ = _libraries()
    with _lock:
        before = min(_limits, default=None)
        if before is None:
            _unlimited = [one.num_threads for one in shared]
        change(threads)
        after = min(_limits, default=None)
        if after != before:
            for one, number in zip(shared, _unlimited, strict=True):
                _set(one, number if after is None else after)


def _set(library: Any, threads: int) -> None:
    """Set the number of threads from any thread: threadpoolctl ignores all but the first that has set one."""
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(threads)
    release(force=True)


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
    return limit_blas_threads(1)(target)  # type: ignore[type-var]
