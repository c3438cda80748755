"""Small numbers on their way to a device and back, through memory that both sides reach.

An ordinary copy of a few hundred bytes costs a GPU's host two to three times what a launch does. Here numbers for a kernel are
written into pinned memory and copied without waiting, and results are written by the kernel into pinned memory itself, so that
all there is to do is to wait for it.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch

Array = Any
SLOTS = 32
WORDS = 1 << 16  # numbers of eight bytes in a slot: as many can be sent at a time
RESULTS = 1 << 16


class Staging:
    """Buffers for one device, one stream and one thread."""

    def __init__(self, device: torch.device) -> None:
        pinned = device.type == "cuda"
        self.device = device
        self._host = torch.empty((SLOTS, WORDS), dtype=torch.int64, pin_memory=pinned)
        self._there = torch.empty((SLOTS, WORDS), dtype=torch.int64, device=device)
        self._views: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._whole = self._host.numpy()
        self._numbers = self._whole.view(np.float64)
        self._addresses = [self._there[k].data_ptr() for k in range(SLOTS)]
        self._slot = 0
        self.results = torch.empty(RESULTS, dtype=torch.float64, pin_memory=pinned)
        self.found = self.results.numpy()
        self.counters = torch.zeros(128, dtype=torch.int32, device=device)
        self._scratch = torch.empty(1, dtype=torch.float64, device=device)
        self._stream = torch.cuda.current_stream(device) if pinned else None

    def take(self) -> tuple[np.ndarray, np.ndarray, int, int]:
        """The next slot: as whole and as floating-point numbers, the device's address of it, and its number."""
        slot = self._slot = (self._slot + 1) % SLOTS
        if slot == 0:
            self.wait()  # until what was sent from the slots has been read
        return self._whole[slot], self._numbers[slot], self._addresses[slot], slot

    def here(self, slot: int) -> Array:
        """A slot as it is: for a kernel that reads little of it, and is waited for."""
        return self._host[slot]

    def send(self, slot: int, words: int) -> Array:
        """Copy the beginning of a slot to the device, where it stays until the slots have come round."""
        size = 1 << max(words - 1, 255).bit_length()
        views = self._views.get((slot, size))
        if views is None:
            views = self._views[slot, size] = self._host[slot, :size], self._there[slot, :size]
        views[1].copy_(views[0], non_blocking=True)
        return views[1]

    def scratch(self, size: int) -> Array:
        """Memory for a kernel's own use."""
        if self._scratch.numel() < size:
            self._scratch = torch.empty(size, dtype=torch.float64, device=self.device)
        return self._scratch

    def wait(self) -> None:
        """Until all that was launched is done."""
        if self._stream is not None:
            self._stream.synchronize()


_all: dict[tuple[Any, ...], Staging] = {}


def staging(device: torch.device) -> Staging:
    """The buffers of this thread and of the current stream."""
    stream = torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0
    key = (device, stream, threading.get_ident())
    found = _all.get(key)
    if found is None:
        found = _all[key] = Staging(device)
    return found
