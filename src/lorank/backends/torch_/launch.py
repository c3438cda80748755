"""Launch of Triton kernels with cached compilation results, which avoids the overhead of Triton in each launch."""

from __future__ import annotations

from typing import Any

import torch

_compiled: dict[Any, tuple[Any, ...]] = {}


def launch(
    kernel: Any,
    grid: tuple[int, int, int],
    kind: Any,
    arrays: tuple[Any, ...],
    numbers: tuple[int, ...],
    constants: tuple[int, ...],
    warps: int,
) -> None:
    """Launch ``kernel(*arrays, *numbers, *constants)``.

    Parameters
    ----------
    kind : hashable
        Determines the dtypes of the arrays.
    numbers : tuple of int
        Arguments that the kernel is not specialised for (its ``do_not_specialize``).
    constants : tuple of int
        The ``constexpr`` arguments.
    warps : int
    """
    device = arrays[0].device
    if device.type != "cuda":  # Triton's interpreter
        kernel[grid](*arrays, *numbers, *constants, num_warps=warps)
        return
    if torch.cuda.current_device() != device.index:
        with torch.cuda.device(device):
            launch(kernel, grid, kind, arrays, numbers, constants, warps)
        return
    places = [a.data_ptr() for a in arrays]
    odd = 0
    for place in places:
        odd |= place
    aligned = None if not odd & 15 else tuple(place % 16 == 0 for place in places)
    key = (id(kernel), kind, device.index, constants, aligned)
    found = _compiled.get(key)
    if found is None:
        made = kernel[grid](*arrays, *numbers, *constants, num_warps=warps)
        _compiled[key] = (made, made.run, made.function, made.packed_metadata)
        return
    made, run, function, packed = found
    stream = torch._C._cuda_getCurrentRawStream(device.index)
    try:  # as a compiled kernel does, but with addresses for tensors: Triton would query the driver for each
        run(*grid, stream, function, packed, None, None, None, *places, *numbers, *constants)
    except TypeError:  # another version of Triton
        made[grid](*arrays, *numbers, *constants)


def divide_up(a: int, b: int) -> int:
    return -(-a // b)


def power_of_two(n: int) -> int:
    """Smallest power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()
