"""Backends by name, and by the arrays they own."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .numpy_backend import NumpyBackend
from .protocol import Arrays, Backend

NUMPY = NumpyBackend()
SPIN_COUNT = "20000"  # less than a millisecond
REINSTALL = "reinstall it where a C++17 compiler is found"
THREAD_SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


class Entry(NamedTuple):
    """Registered backend; the attributes are parameters of :func:`register_backend`."""

    make: Callable[[str], Backend]
    place: Callable[[Any], str | None]


_ENTRIES: dict[str, Entry] = {}


def register_backend(name: str, make: Callable[[str], Backend], place: Callable[[Any], str | None] | None = None) -> None:
    """Make a backend available as ``backend=name``.

    Parameters
    ----------
    name : str
        Without a colon.
    make : callable
        Returns the backend for the part of the requested name after the colon, such as ``"cuda:1"`` in ``"torch:cuda:1"``; ""
        where there is none.
    place : callable, optional
        For an array of the backend's own kind, returns the part after the colon; None for any other object. With
        ``backend=None`` the backend of an array is found by it.
    """
    if not name or ":" in name:
        raise ValueError(f"name of a backend must be a word without a colon, got {name!r}")
    _ENTRIES[name] = Entry(make, place or (lambda a: None))


def get_backend(name: str | Backend | None = None, *data: Any) -> Backend:
    """Backend by name.

    Parameters
    ----------
    name : str, Backend or None
        ``"native"`` (C++), ``"numpy"`` (NumPy and SciPy), ``"torch"`` (PyTorch on the CPU), ``"torch:cuda"`` (on a GPU;
        ``"torch:cuda:1"`` on the second one), or a registered name. Default: the backend that owns the data; for NumPy arrays
        ``"native"``, or ``"numpy"`` with a warning where the C++ extension is missing.
    data
        Arrays to compute with.
    """
    if name is None:
        owners = (owner for a in data if (owner := _owner(a)) is not None)
        return next(owners, None) or _best()
    if isinstance(name, str):
        word, _, place = name.partition(":")
        if word not in _ENTRIES:
            known = ", ".join(map(repr, (*_ENTRIES, "torch:cuda")))
            raise ValueError(f"unknown backend {name!r}: choose one of {known}")
        return _ENTRIES[word].make(place)
    if not callable(getattr(name, "make_observations", None)):
        raise ValueError(f"backend must be a name such as 'native' or a lorank.backends.Backend, got {name!r}")
    return name


def device_backend(device: Any) -> Backend:
    """Backend of a device such as ``"cuda"``, or of that name; raises ValueError where there is neither."""
    name = str(device)
    return get_backend(name if name.partition(":")[0] in _ENTRIES else f"torch:{name}")


def backend_of(a: Any) -> Arrays:
    """Backend that owns an array; NumPy by default."""
    return _owner(a) or NUMPY


def as_owned(a: Any) -> Any:
    """Array of a registered backend unchanged, any other object as a NumPy array."""
    return a if _owner(a) is not None else np.asarray(a)


def _owner(a: Any) -> Backend | None:
    if type(a) is np.ndarray:
        return None
    for entry in _ENTRIES.values():
        place = entry.place(a)
        if place is not None:
            return entry.make(place)
    return None


# -- the backends that come with the package -------------------------------------------------------------------------
@functools.cache
def _torch(device: str) -> Backend:
    try:
        from .torch_ import TorchBackend, find_device
    except ImportError as error:
        raise ValueError(
            f'device {device!r} needs PyTorch, which cannot be imported ({error}): pip install "lorank[gpu]"'
        ) from None
    found = find_device(device)
    return TorchBackend(found) if str(found) == device else _torch(str(found))


def _device_of(a: Any) -> str | None:
    """Device of a torch tensor, without importing torch; None for other objects."""
    torch = sys.modules.get("torch")
    return str(a.device) if torch is not None and hasattr(torch, "Tensor") and isinstance(a, torch.Tensor) else None


def _load_kernels() -> None:
    """Load the C++ extension with a short spin time of idle threads.

    By default, idle threads of GCC's OpenMP spin for about ten milliseconds before they sleep. On a machine with other load,
    two threads then take several times as long as one. Less than a millisecond suffices for the gaps between passes. The
    runtime reads its settings when it is loaded: the variable is set for that time only, unless the user has set one.
    """
    own = not any(name in os.environ for name in THREAD_SETTINGS)
    if own:
        os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT
    try:
        with contextlib.suppress(ImportError):  # reported when it is first needed
            from .. import _kernels  # type: ignore[attr-defined]  # noqa: F401
    finally:
        if own:
            del os.environ["GOMP_SPINCOUNT"]


@functools.cache
def _native() -> Backend | None:
    try:
        from .native import NativeBackend
    except ImportError:
        return None
    return NativeBackend()


def _native_or_error() -> Backend:
    if (native := _native()) is None:
        text = "backend 'native' is not available: lorank was installed without its C++ extension"
        raise ValueError(f"{text}; {REINSTALL}, or use backend='numpy'")
    return native


@functools.cache
def _best() -> Backend:
    if (native := _native()) is None:
        text = "lorank runs on its NumPy backend, several times slower than its C++ kernels"
        warnings.warn(f"{text}: {REINSTALL}", RuntimeWarning, stacklevel=4)
    return native or NUMPY


register_backend("native", lambda place: _native_or_error())
register_backend("numpy", lambda place: NUMPY)
register_backend("torch", lambda place: _torch(place or "cpu"), _device_of)
_load_kernels()
