"""Lazily evaluated linear combinations of tall tensors, and a cache of their Gram products.

On a GPU an operation on an n x r array costs a launch and a pass over memory. Most operations of the geometry are linear in a
few tall arrays, ``sum_k A_k C_k`` with small C_k: the C_k are computed on the host, Gram products follow from those of the A_k,
and one kernel evaluates the sum when its entries are needed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

Array = Any


class LazyArray:
    """``sum_k A_k C_k``, an n x r array.

    Attributes
    ----------
    tensors : tuple of tensors
        The A_k.
    coefficients : array or None
        The C_k, stacked; None for one tensor and the identity.
    """

    __array_priority__ = 1000  # NumPy defers ``array * lazy`` to this class
    __slots__ = ("_marks", "coefficients", "gram_matrix", "shape", "tensors")

    def __init__(self, tensors: tuple[Array, ...], coefficients: np.ndarray | None, shape: tuple[int, int]) -> None:
        self.shape, self.tensors, self.coefficients = shape, tensors, coefficients
        self._marks: tuple[int, ...] | None = None
        self.gram_matrix: np.ndarray | None = None  # of the array with itself, once known

    def replace_terms(self, tensors: tuple[Array, ...], coefficients: np.ndarray | None) -> None:
        """Represent the same array by another combination."""
        self.tensors, self.coefficients = tensors, coefficients
        self._marks = self.gram_matrix = None

    @staticmethod
    def of(a: Any) -> LazyArray:
        return a if isinstance(a, LazyArray) else LazyArray((a,), None, tuple(a.shape))

    def marks(self) -> tuple[int, ...]:
        """Key of each tensor in the cache of Gram products."""
        if self._marks is None:
            self._marks = tuple([_mark(t) for t in self.tensors])
        return self._marks

    def stacked(self) -> np.ndarray:
        return identity(self.shape[1]) if self.coefficients is None else self.coefficients

    @property
    def dtype(self) -> Any:
        return self.tensors[0].dtype

    @property
    def device(self) -> Any:
        return self.tensors[0].device

    @property
    def ndim(self) -> int:
        return 2

    def tensor(self) -> Array:
        """The array as a tensor."""
        return evaluate([self])[0]

    def times(self, a: np.ndarray) -> LazyArray:
        """``self a`` for a small a."""
        c = self.coefficients
        return LazyArray(self.tensors, a if c is None else c @ a, (self.shape[0], a.shape[1]))

    def __matmul__(self, a: Any) -> Any:
        return self.times(a) if isinstance(a, np.ndarray) else self.tensor() @ a

    def __mul__(self, c: Any) -> Any:
        if not isinstance(c, (int, float)):
            return self.tensor() * c
        return LazyArray(self.tensors, c * self.stacked(), self.shape)

    __rmul__ = __mul__

    def __neg__(self) -> LazyArray:
        return -1.0 * self

    def __add__(self, other: Any) -> LazyArray:
        other = LazyArray.of(other)
        return _joined(self, self.stacked(), other, other.stacked(), self.shape)

    __radd__ = __add__

    def __sub__(self, other: Any) -> LazyArray:
        return self + -1.0 * LazyArray.of(other)

    def __rsub__(self, other: Any) -> LazyArray:
        return LazyArray.of(other) - self

    def __truediv__(self, other: Any) -> Array:
        return self.tensor() / other

    def __getitem__(self, key: Any) -> Array:
        return self.tensor()[key]

    def __len__(self) -> int:
        return self.shape[0]

    def __abs__(self) -> Array:
        return abs(self.tensor())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.tensor(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        a = self.tensor().cpu().numpy()
        return a if dtype is None else a.astype(dtype)


def _joined(a: LazyArray, c: np.ndarray, b: LazyArray, d: np.ndarray, shape: tuple[int, int]) -> LazyArray:
    """Sum of the tensors of a with coefficients c and of b with coefficients d; common tensors are merged."""
    if a.tensors is b.tensors:
        return LazyArray(a.tensors, c + d, shape)
    known, at = {}, 0
    for t in a.tensors:
        known[id(t)] = at
        at += t.shape[1]
    if not any(id(t) in known for t in b.tensors):
        return LazyArray(a.tensors + b.tensors, np.concatenate([c, d]), shape)
    tensors, blocks, rows = list(a.tensors), [c.astype(np.result_type(c, d))], 0
    for t in b.tensors:
        part = d[rows : rows + t.shape[1]]
        rows += t.shape[1]
        if id(t) in known:
            blocks[0][known[id(t)] : known[id(t)] + t.shape[1]] += part
        else:
            tensors.append(t)
            blocks.append(part)
    return LazyArray(tuple(tensors), blocks[0] if len(blocks) == 1 else np.concatenate(blocks), shape)


class GramCache:
    """Gram products of tensors, computed once each: NumPy arrays in double precision."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], np.ndarray] = {}
        self._blocks: dict[tuple[tuple[int, ...], tuple[int, ...]], np.ndarray] = {}

    def find(self, a: Array, b: Array) -> np.ndarray | None:
        return self._known.get((_mark(a), _mark(b)))

    def require(self, pairs: Sequence[tuple[LazyArray, LazyArray]]) -> None:
        """Compute the missing products of their tensors, with one transfer."""
        missing: dict[tuple[int, int], tuple[Array, Array]] = {}
        known = self._known
        for a, b in pairs:
            key = a.marks(), b.marks()
            if key in self._blocks:
                continue
            for m, t in zip(key[0], a.tensors, strict=True):
                for k, u in zip(key[1], b.tensors, strict=True):
                    if (m, k) not in known and (k, m) not in missing:
                        missing[m, k] = (t, u)
        if not missing:
            return
        if len(known) > 4000:  # the older half: a run uses about the last hundred
            self._known = known = dict(list(known.items())[2000:])
        for (m, k), product in zip(missing, _products(list(missing.values())), strict=True):
            known[m, k] = product
            if m != k:
                known[k, m] = product.conj().T if product.dtype.kind == "c" else product.T

    def product(self, a: LazyArray, b: LazyArray) -> np.ndarray:
        """``a^H b``; that of an array with itself is stored, because norms and bases use it."""
        if a is b and a.gram_matrix is not None:
            return a.gram_matrix
        total, left, right = self.products(a, b), a.coefficients, b.coefficients
        if right is not None:
            total = total @ right
        if left is not None:
            total = (left.conj().T if left.dtype.kind == "c" else left.T) @ total
        if a is b:
            a.gram_matrix = total
        return total

    def products(self, a: LazyArray, b: LazyArray) -> np.ndarray:
        """Products of all tensors of one sum with those of another, as one matrix."""
        one, two = key = a.marks(), b.marks()
        if len(one) == 1 and len(two) == 1:
            if (one[0], two[0]) not in self._known:
                self.require([(a, b)])
            return self._known[one[0], two[0]]
        whole = self._blocks.get(key)
        if whole is None:
            try:
                whole = self._assembled(one, two)
            except KeyError:
                self.require([(a, b)])
                whole = self._assembled(one, two)
            if len(self._blocks) > 500:
                self._blocks.clear()
            self._blocks[key] = whole
        return whole

    def _assembled(self, one: tuple[int, ...], two: tuple[int, ...]) -> np.ndarray:
        known = self._known
        if len(two) == 1:
            return np.concatenate([known[m, two[0]] for m in one])
        rows = [np.concatenate([known[m, k] for k in two], axis=1) for m in one]
        return rows[0] if len(rows) == 1 else np.concatenate(rows)


_marks = itertools.count()


def _mark(t: Array) -> int:
    """Unique key of the content of a tensor; it changes when the tensor is changed in place."""
    known: tuple[int, int] | None = getattr(t, "lorank_mark", None)
    if known is None or known[1] != t._version:
        known = t.lorank_mark = (next(_marks), t._version)
    return known[0]


@functools.cache
def identity(n: int) -> np.ndarray:
    return np.eye(n)


def _products(pairs: Sequence[tuple[Array, Array]]) -> list[np.ndarray]:
    """``a^H b`` of each pair as NumPy arrays in double precision."""
    first = pairs[0][0]
    width = first.shape[1]
    if not (_has_kernels(first) and all(_alike(x, first, width) for pair in pairs for x in pair)):
        return fetch([plain_product(a, b) for a, b in pairs])
    from . import array_kernels

    if not array_kernels.can_multiply(width, 1):
        return fetch([plain_product(a, b) for a, b in pairs])
    most = array_kernels.MAX_PAIRS if array_kernels.can_multiply(width, array_kernels.MAX_PAIRS) else 16
    return [one for k in range(0, len(pairs), most) for one in array_kernels.products(pairs[k : k + most])]


def _alike(a: Array, first: Array, width: int) -> bool:
    return a.dtype == first.dtype and a.shape[1] == width and a.is_contiguous() and not a.data_ptr() % 16


def _has_kernels(a: Array) -> bool:
    return a.is_cuda and not a.is_complex()


def plain_product(a: Array, b: Array) -> Array:
    """``a^H b``, as a double precision array; computed in double precision on the CPU."""
    kind = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    return (a.mH @ b).to(kind) if a.is_cuda else a.to(kind).mH @ b.to(kind)


def fetch(arrays: Sequence[Array]) -> list[np.ndarray]:
    """Small tensors as NumPy arrays, by one transfer."""
    if not arrays[0].is_cuda or len(arrays) == 1:
        return [a.detach().resolve_conj().cpu().numpy() for a in arrays]
    flat = torch.cat([a.reshape(-1) for a in arrays]).cpu().numpy()
    ends = np.cumsum([a.numel() for a in arrays])
    return [part.reshape(a.shape) for part, a in zip(np.split(flat, ends[:-1]), arrays, strict=True)]


def send(arrays: Sequence[np.ndarray], like: Array, dtype: Any = None) -> list[Array]:
    """Small arrays to the device of a tensor, by one transfer; in its dtype, or another one."""
    flat = arrays[0].ravel() if len(arrays) == 1 else np.concatenate([a.ravel() for a in arrays])
    flat = torch.from_numpy(flat).to(like.device, like.dtype if dtype is None else dtype)
    if len(arrays) == 1:
        return [flat.view(arrays[0].shape)]
    return [part.view(a.shape) for part, a in zip(flat.split([a.size for a in arrays]), arrays, strict=True)]


def evaluate(arrays: Sequence[LazyArray]) -> list[Array]:
    """Evaluate lazy arrays together; each is then represented by its own tensor."""
    open_ = [a for a in arrays if a.coefficients is not None]
    if open_:
        for a, made in zip(open_, _combine([(a.tensors, a.stacked()) for a in open_]), strict=True):
            a.replace_terms((made,), None)
    return [a.tensors[0] for a in arrays]


def side_by_side(a: Any, b: Any) -> LazyArray:
    """``[a, b]``."""
    a, b = LazyArray.of(a), LazyArray.of(b)
    r, s, c, d = a.shape[1], b.shape[1], a.stacked(), b.stacked()
    wide = np.zeros((len(c) + len(d), r + s), np.result_type(c, d))
    wide[: len(c), :r], wide[len(c) :, r:] = c, d
    return _joined(a, wide[: len(c)], b, wide[len(c) :], (a.shape[0], r + s))


def _combine(sums: Sequence[tuple[tuple[Array, ...], np.ndarray]]) -> list[Array]:
    """``sum_k A_k C_k`` for each pair of tensors A_k and stacked coefficients C_k."""
    first = sums[0][0][0]
    if _has_kernels(first):
        from . import array_kernels

        if array_kernels.can_combine(sums):
            return array_kernels.combine(sums)
    kind = torch.complex128 if first.is_complex() else torch.float64
    sent = send([np.ascontiguousarray(c, np.result_type(c, np.float64)) for _, c in sums], first, kind)
    return [plain_combine(tensors, c) for (tensors, _), c in zip(sums, sent, strict=True)]


def plain_combine(tensors: Sequence[Array], coefficients: Array) -> Array:
    """``sum_k A_k C_k`` with stacked C_k."""
    out, at = None, 0
    for t in tensors:
        c = coefficients[at : at + t.shape[1]].to(t.dtype)
        out = t @ c if out is None else out.addmm_(t, c)
        at += t.shape[1]
    return out
