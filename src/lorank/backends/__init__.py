"""Where the arrays live and who passes over the observations.

A backend supplies the short list of operations that the rest of the package is written in: a few on tall arrays
(:class:`~lorank.backends.dense.Dense`) and the passes over observed entries
(:class:`~lorank.backends.reference.ReferenceObservations` shows them in plain NumPy). A new backend is one new file.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from .dense import Dense
from .reference import Reference

__all__ = ["Reference", "dense_backend", "get_backend", "is_tensor"]


def get_backend(name: str | Reference | None = None, *data: Any) -> Reference:
    """The backend of that name.

    Parameters
    ----------
    name : str, backend or None
        ``"native"`` (C++), ``"reference"`` (NumPy and SciPy), ``"torch"`` (PyTorch on the CPU) or ``"torch:cuda"`` (on a GPU;
        ``"torch:cuda:1"`` on the second one). None takes ``"torch"`` for tensors, on their device, and for anything else
        ``"native"`` where the extension was built, else ``"reference"`` with a warning.
    data
        What it is to compute with.
    """
    if name is None:
        tensor = next((a for a in data if is_tensor(a)), None)
        return _best() if tensor is None else torch_backend(tensor.device)
    if isinstance(name, Reference):
        return name
    if name == "reference":
        return _reference()
    if name == "native":
        native = _native()
        if native is None:
            raise ValueError(
                "backend 'native' is not available: lorank was installed without its C++ extension; reinstall it "
                "where a C++17 compiler is found, or use backend='reference'"
            )
        return native
    if name == "torch" or (isinstance(name, str) and name.startswith("torch:")):
        return torch_backend(name.partition(":")[2] or "cpu")
    raise ValueError(f"unknown backend {name!r}: choose 'native', 'reference', 'torch' or 'torch:cuda'")


def dense_backend(a: Any) -> Dense:
    """Who computes with such an array: NumPy, or torch on the tensor's device."""
    return torch_backend(a.device) if is_tensor(a) else Dense()


def is_tensor(a: Any) -> bool:
    """Whether this is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "Tensor") and isinstance(a, torch.Tensor)


def torch_backend(device: Any) -> Reference:
    """PyTorch on a device; raises a ValueError where there is no PyTorch or no such device."""
    return _torch(str(device))


@functools.cache
def _torch(device: str) -> Reference:
    try:
        from .torch_ import Torch, find_device
    except ImportError as error:
        raise ValueError(
            f'device {device!r} needs PyTorch, which cannot be imported ({error}): pip install "lorank[gpu]"'
        ) from None
    found = find_device(device)
    return Torch(found) if str(found) == device else _torch(str(found))


@functools.cache
def _reference() -> Reference:
    return Reference()


@functools.cache
def _native() -> Reference | None:
    try:
        from .native import Native
    except ImportError:
        return None
    return Native()


@functools.cache
def _best() -> Reference:
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
