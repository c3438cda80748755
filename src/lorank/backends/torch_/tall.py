"""Tall arrays as combinations of others, computed when somebody reads them.

On a GPU an operation on an n x r array costs its launch, however small n is, and a pass over memory, where n is large. Almost
all that geometry does with tall arrays is linear in few of them, ``sum_k A_k C_k`` with small C_k: so the C_k are computed on
the host, Gram products come from those of the A_k, and one kernel makes the whole sum when it is needed.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

Array = Any
Terms = tuple[tuple[Array, np.ndarray | None], ...]  # tensors with coefficients; None stands for the identity


class Tall:
    """``sum_k A_k C_k``, an n x r array."""

    __array_priority__ = 1000  # so that NumPy leaves ``array * tall`` to it

    def __init__(self, terms: Terms, shape: tuple[int, int]) -> None:
        self.terms, self.shape = terms, shape
        self.square: tuple[Terms, np.ndarray] | None = None  # its Gram matrix, with the terms it was made from

    @staticmethod
    def of(a: Any) -> Tall:
        return a if isinstance(a, Tall) else Tall(((a, None),), tuple(a.shape))

    @property
    def dtype(self) -> Any:
        return self.terms[0][0].dtype

    @property
    def device(self) -> Any:
        return self.terms[0][0].device

    @property
    def ndim(self) -> int:
        return 2

    def tensor(self) -> Array:
        """The array itself."""
        return settle([self])[0]

    def times(self, a: np.ndarray) -> Tall:
        """``self a`` for a small a."""
        return Tall(tuple((t, a if c is None else c @ a) for t, c in self.terms), (self.shape[0], a.shape[1]))

    def __matmul__(self, a: Any) -> Any:
        return self.times(a) if isinstance(a, np.ndarray) else self.tensor() @ a

    def __mul__(self, c: Any) -> Any:
        if not isinstance(c, (int, float)):
            return self.tensor() * c
        r = self.shape[1]
        return Tall(tuple((t, c * (np.eye(r) if k is None else k)) for t, k in self.terms), self.shape)

    __rmul__ = __mul__

    def __neg__(self) -> Tall:
        return -1.0 * self

    def __add__(self, other: Any) -> Tall:
        found: dict[int, tuple[Array, np.ndarray | None]] = {id(t): (t, c) for t, c in self.terms}
        for t, c in Tall.of(other).terms:
            if id(t) in found:
                mine, r = found[id(t)][1], self.shape[1]
                c = (np.eye(r) if mine is None else mine) + (np.eye(r) if c is None else c)
            found[id(t)] = (t, c)
        return Tall(tuple(found.values()), self.shape)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Tall:
        return self + -1.0 * Tall.of(other)

    def __rsub__(self, other: Any) -> Tall:
        return Tall.of(other) - self

    def __truediv__(self, other: Any) -> Array:
        return self.tensor() / other

    def __getitem__(self, key: Any) -> Array:
        return self.tensor()[key]

    def __len__(self) -> int:
        return self.shape[0]

    def __abs__(self) -> Array:
        return abs(self.tensor())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.tensor(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        a = self.tensor().cpu().numpy()
        return a if dtype is None else a.astype(dtype)


class Grams:
    """Gram products of tensors, each computed once: on the host, in double precision."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Any, Any, int, int, np.ndarray]] = {}

    def find(self, a: Array, b: Array) -> np.ndarray | None:
        known = self._known.get((id(a), id(b)))
        if known is None or known[0]() is not a or known[1]() is not b or known[2] != a._version or known[3] != b._version:
            return None
        return known[4]

    def keep(self, a: Array, b: Array, product: np.ndarray) -> None:
        if len(self._known) > 400:
            self._known = {key: one for key, one in self._known.items() if one[0]() is not None and one[1]() is not None}
        one, two = weakref.ref(a), weakref.ref(b)
        self._known[id(a), id(b)] = (one, two, a._version, b._version, product)
        self._known[id(b), id(a)] = (two, one, b._version, a._version, product.conj().T)

    def require(self, pairs: Sequence[tuple[Array, Array]]) -> None:
        """Compute those that are not known, all in one transfer."""
        missing: dict[tuple[int, int], tuple[Array, Array]] = {}
        for a, b in pairs:
            if (id(b), id(a)) not in missing and self.find(a, b) is None:
                missing[id(a), id(b)] = (a, b)
        if missing:
            wanted = list(missing.values())
            for (a, b), product in zip(wanted, _products(wanted), strict=True):
                self.keep(a, b, product)

    def product(self, a: Tall, b: Tall) -> np.ndarray:
        """``a^H b``; of an array with itself it is kept, for norms and orthonormal bases both ask for that."""
        if a is b and a.square is not None and a.square[0] is a.terms:
            return a.square[1]
        known = [[self.find(t, u) for u, _ in b.terms] for t, _ in a.terms]
        if any(g is None for row in known for g in row):
            self.require([(t, u) for t, _ in a.terms for u, _ in b.terms])
            known = [[self.find(t, u) for u, _ in b.terms] for t, _ in a.terms]
        total: Any = _times(known, [d for _, d in b.terms])
        if len(a.terms) > 1 or a.terms[0][1] is not None:
            left = np.concatenate([np.eye(t.shape[1]) if c is None else c for t, c in a.terms])
            total = left.conj().T @ total
        if a is b:
            a.square = (a.terms, total)
        return total


def _times(blocks: list[list[Any]], small: list[np.ndarray | None]) -> np.ndarray:
    """A matrix of blocks times a column of blocks, in one product: many small ones take longer."""
    if len(small) == 1:
        column = [row[0] for row in blocks]
        whole = column[0] if len(column) == 1 else np.concatenate(column)
        return whole if small[0] is None else whole @ small[0]
    rows = [np.concatenate(row, axis=1) for row in blocks]
    whole = rows[0] if len(rows) == 1 else np.concatenate(rows)
    widths = [g.shape[1] for g in blocks[0]]
    return whole @ np.concatenate([np.eye(w) if d is None else d for w, d in zip(widths, small, strict=True)])


def _products(pairs: Sequence[tuple[Array, Array]]) -> list[np.ndarray]:
    """``a^H b`` of each pair, on the host and in double precision."""
    first = pairs[0][0]
    width = first.shape[1]
    if not (first.is_cuda and width <= 32 and all(_alike(x, first, width) for pair in pairs for x in pair)):
        return fetch([plain_product(a, b) for a, b in pairs])
    from . import tall_kernels

    some = [pairs[k : k + tall_kernels.MOST] for k in range(0, len(pairs), tall_kernels.MOST)]
    return [product for stack in fetch([tall_kernels.products(part) for part in some]) for product in stack]


def _alike(a: Array, first: Array, width: int) -> bool:
    return a.dtype == first.dtype and a.shape[1] == width and a.is_contiguous() and not a.is_complex()


def plain_product(a: Array, b: Array) -> Array:
    """``a^H b``, as a double precision array; computed in double precision on the CPU."""
    kind = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    return (a.mH @ b).to(kind) if a.is_cuda else a.to(kind).mH @ b.to(kind)


def fetch(arrays: Sequence[Array]) -> list[np.ndarray]:
    """Small tensors to the host, in one transfer."""
    if not arrays[0].is_cuda or len(arrays) == 1:
        return [a.detach().resolve_conj().cpu().numpy() for a in arrays]
    flat = torch.cat([a.reshape(-1) for a in arrays]).cpu().numpy()
    ends = np.cumsum([a.numel() for a in arrays])
    return [part.reshape(a.shape) for part, a in zip(np.split(flat, ends[:-1]), arrays, strict=True)]


def send(arrays: Sequence[np.ndarray], like: Array, dtype: Any = None) -> list[Array]:
    """Small arrays to where a tensor is, in one transfer; in its dtype, or another one."""
    flat = arrays[0].ravel() if len(arrays) == 1 else np.concatenate([a.ravel() for a in arrays])
    flat = torch.from_numpy(flat).to(like.device, like.dtype if dtype is None else dtype)
    if len(arrays) == 1:
        return [flat.view(arrays[0].shape)]
    return [part.view(a.shape) for part, a in zip(flat.split([a.size for a in arrays]), arrays, strict=True)]


def settle(arrays: Sequence[Tall]) -> list[Array]:
    """The arrays themselves; their coefficients travel together. Each then stands for its own tensor."""
    open_ = [a for a in arrays if len(a.terms) > 1 or a.terms[0][1] is not None]
    if open_:
        small = [_double(np.eye(a.shape[1]) if c is None else c) for a in open_ for _, c in a.terms]
        first = open_[0].terms[0][0]
        flat = iter(send(small, first, torch.complex128 if first.is_complex() else torch.float64))
        for a in open_:
            a.terms = ((_combine([(t, next(flat)) for t, _ in a.terms]), None),)
    return [a.terms[0][0] for a in arrays]


def beside(a: Any, b: Any) -> Tall:
    """``[a, b]``."""
    r, s = a.shape[1], b.shape[1]
    return _padded(Tall.of(a), 0, s) + _padded(Tall.of(b), r, 0)


def _padded(a: Tall, before: int, after: int) -> Tall:
    """Columns of zeros before and after those of a."""
    terms = []
    for t, c in a.terms:
        c = np.eye(a.shape[1]) if c is None else c
        wide = np.zeros((c.shape[0], before + c.shape[1] + after), c.dtype)
        wide[:, before : before + c.shape[1]] = c
        terms.append((t, wide))
    return Tall(tuple(terms), (a.shape[0], before + a.shape[1] + after))


def _combine(terms: Sequence[tuple[Array, Array]]) -> Array:
    t = terms[0][0]
    # A single product is cuBLAS's where launches count, not bytes.
    worth = t.is_cuda and len(terms) <= 6 and (len(terms) > 1 or t.shape[0] > 1 << 18)
    if worth and all(max(a.shape[1], k.shape[1]) <= 64 and a.is_contiguous() and not a.is_complex() for a, k in terms):
        from . import tall_kernels

        return tall_kernels.combine(terms)
    return plain_combine(terms)


def plain_combine(terms: Sequence[tuple[Array, Array]]) -> Array:
    """``sum_k A_k C_k``."""
    t, c = terms[0]
    out = t @ c.to(t.dtype)
    for t, c in terms[1:]:
        out.addmm_(t, c.to(t.dtype))
    return out


def _double(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a, np.complex128 if np.iscomplexobj(a) else np.float64)
