"""The largest entries of each row of a block on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

Array = Any


def top(block: Array, n: int, hidden: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """See :meth:`~lorank.backends.protocol.Arrays.top`."""
    if len(hidden[0]):
        block[tuple(torch.from_numpy(np.ascontiguousarray(a, np.int64)).to(block.device) for a in hidden)] = -torch.inf
    value, found = torch.topk(block, min(n + 1, block.shape[1]), dim=1, sorted=False)
    found = found.sort(dim=1).values  # rising, so that a stable sort leaves the smaller column first
    value, order = torch.gather(block, 1, found).sort(dim=1, descending=True, stable=True)
    found = torch.gather(found, 1, order)
    if value.shape[1] > n:
        tied = torch.nonzero((value[:, n] == value[:, n - 1]) & torch.isfinite(value[:, n]))[:, 0]
        for part in tied.split(max(1, (1 << 26) // block.shape[1])):  # which of the equal ones came along was chance
            found[part, :n] = block[part].sort(dim=1, descending=True, stable=True).indices[:, :n]
    return found[:, :n].cpu().numpy(), value[:, :n].double().cpu().numpy()
