"""Pauli matrices of several qubits applied to thin arrays, in butterflies and without any matrix.

A Pauli matrix P with bit flips f and signs z has one entry in each row: ``P_(i, i XOR f) = (-i)^|f & z| (-1)^|z & i|``. The
expectations of all matrices with the same flips are the Walsh-Hadamard transform of one diagonal of X, which is computed in
small matrix products.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .observations import Array

BLOCK, DEVICE_BLOCK = 1 << 19, 1 << 22  # numbers of gathered rows at a time: in main memory, and on a GPU
BITS = 5  # of a factor of a Walsh-Hadamard transform


class PauliSums(Protocol):
    """Pauli matrices P_k, by their bit flips and signs."""

    def expectations(self, left: Array, right: Array) -> Array:
        """``Re trace(P_k left right^H)`` for all k, for complex thin arrays."""
        ...

    def times(self, p: Array, v: Array) -> Array:
        """``sum_k p_k P_k v`` for a complex thin array v."""
        ...

    def row_squares(self, p: Array, shift: Array) -> Array:
        """Squared norms of the rows of ``sum_k p_k P_k + shift I``."""
        ...


class ArrayPauliSums:
    """:class:`PauliSums` by operations that NumPy and torch arrays share.

    Parameters
    ----------
    flips, signs : (m,) int64 arrays
        Bit masks; pairs are distinct.
    qubits : int
    backend : Arrays
    """

    def __init__(self, flips: np.ndarray, signs: np.ndarray, qubits: int, backend: Any) -> None:
        self.qubits, self.backend = qubits, backend
        order = np.lexsort((signs, flips))
        flips, signs = flips[order], signs[order]
        self.distinct, self.indptr = distinct_flips(flips)
        asindex, asarray = backend.asindex, backend.asarray
        self.order, self.signs = asindex(asarray(order)), asindex(asarray(signs))
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        self.inverse = asindex(asarray(inverse))
        group = np.repeat(np.arange(len(self.distinct)), np.diff(self.indptr))
        self.group, self.flips = asindex(asarray(group)), asindex(asarray(self.distinct))
        self.phases = asarray((-1j) ** (np.bitwise_count(flips & signs) % 4))
        self.rows = asindex(asarray(np.arange(1 << qubits)))
        low = min(qubits, BITS)
        sizes = [1 << low] * (qubits // low) + [1 << (qubits % low)] * bool(qubits % low)
        self.hadamards = [asarray(_hadamard(size)) for size in sizes]

    def expectations(self, left: Array, right: Array) -> Array:
        parts = []
        for block, group in self._blocks(left.shape[1]):
            columns = self.rows[None] ^ self.flips[group][:, None]
            diagonals = (left[None] * right[columns].conj()).sum(-1)
            sums = self._transform(diagonals)
            chosen = sums[self.group[block] - group.start, self.signs[block]]
            parts.append((chosen * self.phases[block].conj()).real)
        return self.backend.concat(parts, axis=0)[self.inverse]

    def times(self, p: Array, v: Array) -> Array:
        out = self.backend.zeros(tuple(v.shape), complex)
        for columns, diagonals in self._diagonals(p, v.shape[1]):
            out = out + (diagonals[:, :, None] * v[columns]).sum(0)
        return out

    def row_squares(self, p: Array, shift: Array) -> Array:
        total, diagonal = shift**2, 0.0
        for columns, diagonals in self._diagonals(p, 1):
            total = total + (abs(diagonals) ** 2).sum(0)
            diagonal = diagonal + (diagonals.real * (columns == self.rows[None])).sum(0)
        return total + 2 * shift * diagonal

    def _diagonals(self, p: Array, width: int) -> Any:
        """Columns and entries of ``sum_k p_k P_k``: one array row for each distinct bit flip."""
        scaled = p[self.order] * self.phases
        for block, group in self._blocks(width):
            coefficients = self.backend.zeros((group.stop - group.start, 1 << self.qubits), complex)
            coefficients[self.group[block] - group.start, self.signs[block]] = scaled[block]
            yield self.rows[None] ^ self.flips[group][:, None], self._transform(coefficients)

    def _blocks(self, width: int) -> Any:
        """Slices of the matrices and of the distinct flips that are processed together."""
        most = BLOCK if self.backend.in_main_memory else DEVICE_BLOCK
        step = max(1, most // (width << self.qubits))
        for at in range(0, len(self.distinct), step):
            end = min(at + step, len(self.distinct))
            yield slice(int(self.indptr[at]), int(self.indptr[end])), slice(at, end)

    def _transform(self, a: Array) -> Array:
        """The Walsh-Hadamard transforms of the rows, by a small matrix product for each group of bits."""
        shape = tuple(a.shape)
        parts = [a.real, a.imag]
        for k, part in enumerate(parts):
            for h in self.hadamards:  # the last bits are transformed and then moved to the front
                part = (part.reshape(-1, h.shape[0]) @ h).reshape(shape[0], -1, h.shape[0])
                part = part.swapaxes(1, 2).reshape(*shape)
            parts[k] = part
        return parts[0] + 1j * parts[1]


def distinct_flips(flips: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values of a sorted array, and the position of the first of each (with the length at the end)."""
    first = np.flatnonzero(np.diff(flips, prepend=-1))
    return flips[first], np.append(first, len(flips))


def _hadamard(n: int) -> np.ndarray:
    i = np.arange(n)
    return np.where(np.bitwise_count(i[:, None] & i) % 2, -1.0, 1.0)
