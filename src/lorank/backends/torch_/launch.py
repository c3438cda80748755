"""Launching Triton kernels without the work that Triton does for each launch: what it finds out is the same every time."""

from __future__ import annotations

from typing import Any

import torch

_compiled: dict[Any, Any] = {}


def launch(
    kernel: Any, grid: tuple[int, int, int], kind: Any, arrays: tuple[Any, ...], numbers: tuple[int, ...], **options: int
) -> None:
    """Launch ``kernel(*arrays, *numbers, *constants)``.

    Parameters
    ----------
    kind : hashable
        Whatever decides the dtypes of the arrays.
    numbers : tuple of int
        Arguments that the kernel is not specialised for (its ``do_not_specialize``).
    options
        The constants, in the order of the kernel's parameters, and ``num_warps``.
    """
    device = arrays[0].device
    key = (kernel, kind, device, *options.values(), *[a.data_ptr() % 16 == 0 for a in arrays])
    found = _compiled.get(key)
    if found is not None and torch.cuda.current_device() == device.index:
        constants = [value for name, value in options.items() if name != "num_warps"]
        found[grid](*arrays, *numbers, *constants)
        return
    if device.type == "cuda":
        with torch.cuda.device(device):
            _compiled[key] = kernel[grid](*arrays, *numbers, **options)
    else:  # Triton's interpreter
        kernel[grid](*arrays, *numbers, **options)
