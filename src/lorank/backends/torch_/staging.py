"""Pinned buffers for small transfers between host and device.

An ordinary copy of a few hundred bytes takes the host two to three times as long as a launch. Here arguments of a kernel are
written to pinned memory and copied asynchronously, and kernels write results to pinned memory directly.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch

Array = Any
SLOTS = 32
WORDS = 1 << 16  # numbers of eight bytes in a slot, the most that can be sent at a time
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
        """Next slot: as integers and as floating-point numbers, its address on the device, and its number."""
        slot = self._slot = (self._slot + 1) % SLOTS
        if slot == 0:
            self.wait()  # until the device has read what was sent from the slots
        return self._whole[slot], self._numbers[slot], self._addresses[slot], slot

    def here(self, slot: int) -> Array:
        """A slot in pinned memory: for a kernel that reads little of it and is waited for."""
        return self._host[slot]

    def send(self, slot: int, words: int) -> Array:
        """Copy the beginning of a slot to the device; it is valid until the slot is used again."""
        size = 1 << max(words - 1, 255).bit_length()
        views = self._views.get((slot, size))
        if views is None:
            views = self._views[slot, size] = self._host[slot, :size], self._there[slot, :size]
        views[1].copy_(views[0], non_blocking=True)
        return views[1]

    def scratch(self, size: int) -> Array:
        """Scratch memory for a kernel."""
        if self._scratch.numel() < size:
            self._scratch = torch.empty(size, dtype=torch.float64, device=self.device)
        return self._scratch

    def wait(self) -> None:
        """Wait until all kernels have finished."""
        if self._stream is not None:
            self._stream.synchronize()


_all: dict[tuple[Any, ...], Staging] = {}


def staging(device: torch.device) -> Staging:
    """Buffers of this thread and of the current stream."""
    stream = torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0
    key = (device, stream, threading.get_ident())
    found = _all.get(key)
    if found is None:
        found = _all[key] = Staging(device)
    return found
