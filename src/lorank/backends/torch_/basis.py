"""An orthonormal basis that grows by blocks, of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..cholesky_qr import first_pass, second_pass
from .lazy_arrays import Tall, _eye, settle

Array = Any
LITTLE = 1e-6  # of a column's square left after a projection: less, and Gram products of what it was do not tell what is left


class TorchBasis:
    """As :class:`~lorank.backends.basis.Basis`, in blocks: what is left of an array is put off until somebody reads it."""

    def __init__(self, backend: Any) -> None:
        self.backend, self.grams, self.blocks = backend, backend.grams, list[Array]()

    @property
    def last(self) -> Array:
        return self.blocks[-1]

    def append(self, q: Array) -> None:
        self.blocks += settle([Tall.of(q)])

    def without(self, y: Array) -> tuple[Array, np.ndarray]:
        rest, part, before, left = self._project(y)
        if (np.diagonal(left).real < LITTLE * np.diagonal(before).real).any():
            rest, more, _, left = self._project(rest)
            part = part + more
        rest._square = left
        return rest, part.astype(self.backend.dtype(rest), copy=False)

    def _project(self, y: Array) -> tuple[Tall, np.ndarray, np.ndarray, np.ndarray]:
        """What is left of y, its part in the basis, and the Gram matrices before and after."""
        (t,) = settle([Tall.of(y)])
        one, width = Tall.of(t), t.shape[1]
        everything = (*self.blocks, t)
        products = self.grams.products(Tall(everything, None, (0, 0)), one)
        whole, before = products[:-width], products[-width:]
        coefficients = -products
        coefficients[-width:] = _eye(width)
        return Tall(everything, coefficients, one.shape), whole, before, before - whole.conj().T @ whole

    def extend(self, y: Array) -> np.ndarray:
        k = self._extend(Tall.of(y))
        return self._extend_safely(y) if k is None else k

    def _extend(self, y: Tall) -> np.ndarray | None:
        first = first_pass(self.grams.product(y, y))
        if first is None:
            return None
        _, _, measured, left = around = self._project(y.times(first[1]))
        second = second_pass(left) if np.isfinite(measured).all() else None
        if second is None:
            return None
        self.append(around[0].times(second[1]))
        return (second[0] @ first[0]).astype(self.backend.dtype(y), copy=False)

    def _extend_safely(self, y: Array) -> np.ndarray:
        """Where columns depend on each other: where k is zero, q may be anything that is orthogonal to the rest."""
        basis = torch.cat(self.blocks, dim=1)
        q, k = self.backend.qr(y)
        q, change = self.backend.qr(self.backend.without(basis, q)[0])
        self.append(q)
        return change @ k

    def product(self, p: np.ndarray) -> Array:
        return Tall(tuple(self.blocks), p, (self.blocks[0].shape[0], p.shape[1]))

    def restart(self, q: Array) -> None:
        self.blocks = settle([Tall.of(q)])

    def first(self, count: int) -> Array:
        return self.blocks[0][:, :count].contiguous()
