"""The backends by name, and by the arrays they own."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .numpy_arrays import Dense
from .numpy_backend import Reference
from .protocol import Arrays, Backend

NUMPY = Dense()  # NumPy's arrays without observations: whoever only computes with them needs no more


@dataclass(frozen=True)
class Entry:
    """How to come by a backend.

    Attributes
    ----------
    make : callable
        The backend from what stands behind a colon in its name (``"cuda:1"`` in ``"torch:cuda:1"``), or from "".
    place : callable, optional
        What stands behind the colon for an array of the backend's own kind; None for any other object.
    """

    make: Callable[[str], Backend]
    place: Callable[[Any], str | None] = lambda a: None


_ENTRIES: dict[str, Entry] = {}


def register_backend(name: str, make: Callable[[str], Backend], place: Callable[[Any], str | None] | None = None) -> None:
    """Give a backend a name, so that ``backend=name`` finds it.

    Parameters
    ----------
    name : str
        Without a colon.
    make : callable
        Given what stands behind a colon in the name asked for ("" where there is none), returns the backend.
    place : callable, optional
        Given any object, returns what is to stand behind the colon where it is an array of the backend's own kind, and None
        otherwise. By it ``backend=None`` knows whose arrays it was given.
    """
    if not name or ":" in name:
        raise ValueError(f"a backend's name is a word without a colon, got {name!r}")
    _ENTRIES[name] = Entry(make) if place is None else Entry(make, place)


def get_backend(name: str | Backend | None = None, *data: Any) -> Backend:
    """The backend of that name.

    Parameters
    ----------
    name : str, Backend or None
        ``"native"`` (C++), ``"reference"`` (NumPy and SciPy), ``"torch"`` (PyTorch on the CPU), ``"torch:cuda"`` (on a GPU;
        ``"torch:cuda:1"`` on the second one), or one that was registered. None takes the backend that owns the data and, where
        they are NumPy's, ``"native"`` where the extension was built, else ``"reference"`` with a warning.
    data
        What it is to compute with.
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
    """Who computes on a device, ``"cuda"`` for example, or the backend of that name; a ValueError where there is neither."""
    name = str(device)
    return get_backend(name if name.partition(":")[0] in _ENTRIES else f"torch:{name}")


def backend_of(a: Any) -> Arrays:
    """Who computes with such an array: its owner, or NumPy."""
    return _owner(a) or NUMPY


def as_owned(a: Any) -> Any:
    """An array that some backend owns as it is, anything else as a NumPy array."""
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
        from .torch_ import Torch, find_device
    except ImportError as error:
        raise ValueError(
            f'device {device!r} needs PyTorch, which cannot be imported ({error}): pip install "lorank[gpu]"'
        ) from None
    found = find_device(device)
    return Torch(found) if str(found) == device else _torch(str(found))


def _device_of(a: Any) -> str | None:
    """Where a torch tensor is; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return str(a.device) if torch is not None and hasattr(torch, "Tensor") and isinstance(a, torch.Tensor) else None


@functools.cache
def _reference() -> Backend:
    return Reference()


@functools.cache
def _native() -> Backend | None:
    try:
        from .native import Native
    except ImportError:
        return None
    return Native()


def _native_or_error() -> Backend:
    native = _native()
    if native is None:
        raise ValueError(
            "backend 'native' is not available: lorank was installed without its C++ extension; reinstall it "
            "where a C++17 compiler is found, or use backend='reference'"
        )
    return native


@functools.cache
def _best() -> Backend:
    native = _native()
    if native is not None:
        return native
    warnings.warn(
        "lorank runs on its NumPy/SciPy reference path, several times slower than its C++ kernels: "
        "reinstall it where a C++17 compiler is found",
        RuntimeWarning,
        stacklevel=4,
    )
    return _reference()


register_backend("native", lambda place: _native_or_error())
register_backend("reference", lambda place: _reference())
register_backend("torch", lambda place: _torch(place or "cpu"), _device_of)
