"""Orthonormal basis of tensors, appended in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..orthonormal import Basis, first_pass, second_pass
from .lazy_arrays import LazyArray, evaluate, identity

Array = Any
MIN_REMAINDER = 1e-6  # share of a column's square after a projection, below which the projection is repeated


class TorchBasis(Basis):
    """Basis with lazily evaluated projections."""

    def __init__(self, backend: Any) -> None:
        self.backend, self.grams, self.blocks = backend, backend.grams, list[Array]()

    @property
    def columns(self) -> Array:
        return torch.cat(self.blocks, dim=1)

    @property
    def last(self) -> Array:
        return self.blocks[-1]

    def append(self, q: Array) -> None:
        self.blocks += evaluate([LazyArray.of(q)])

    def project_out(self, y: Array) -> tuple[Array, np.ndarray]:
        rest, part, before, left = self._project(y)
        if (np.diagonal(left).real < MIN_REMAINDER * np.diagonal(before).real).any():
            rest, more, _, left = self._project(rest)
            part = part + more
        rest.gram_matrix = left
        return rest, part.astype(self.backend.dtype(rest), copy=False)

    def _project(self, y: Array) -> tuple[LazyArray, np.ndarray, np.ndarray, np.ndarray]:
        """Y minus its projection, the coefficients of the projection, and the Gram matrices before and after."""
        (t,) = evaluate([LazyArray.of(y)])
        one, width = LazyArray.of(t), t.shape[1]
        everything = (*self.blocks, t)
        products = self.grams.products(LazyArray(everything, None, (0, 0)), one)
        whole, before = products[:-width], products[-width:]
        coefficients = -products
        coefficients[-width:] = identity(width)
        return LazyArray(everything, coefficients, one.shape), whole, before, before - whole.conj().T @ whole

    def extend(self, y: Array) -> np.ndarray:
        k = self._extend(LazyArray.of(y))
        return self.extend_safely(y) if k is None else k

    def _extend(self, y: LazyArray) -> np.ndarray | None:
        first = first_pass(self.grams.product(y, y))
        if first is None:
            return None
        _, _, measured, left = around = self._project(y.times(first[1]))
        second = second_pass(left) if np.isfinite(measured).all() else None
        if second is None:
            return None
        self.append(around[0].times(second[1]))
        return (second[0] @ first[0]).astype(self.backend.dtype(y), copy=False)

    def product(self, p: np.ndarray) -> Array:
        return LazyArray(tuple(self.blocks), p, (self.blocks[0].shape[0], p.shape[1]))

    def restart(self, q: Array) -> None:
        self.blocks = evaluate([LazyArray.of(q)])

    def first(self, count: int) -> Array:
        return self.blocks[0][:, :count].contiguous()
