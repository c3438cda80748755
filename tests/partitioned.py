"""A backend in one file: observations cut into blocks of rows, each held by another backend, and sums added up.

Tall arrays stay NumPy's. A vector is a list of its blocks, which nothing outside this file can index.
"""

from __future__ import annotations

import functools
import itertools
import operator

import numpy as np
import scipy.sparse

from lorank.backends import HostEntries, Observations, get_backend, register_backend
from lorank.backends.numpy_backend import NumpyBackend
from lorank.backends.observations import held_out


class PartitionedVector:
    """One number per observation, block by block."""

    __array_ufunc__ = None  # so that NumPy's scalars leave arithmetic to it

    def __init__(self, parts):
        self.parts = list(parts)

    @property
    def shape(self):
        return (sum(len(b) for b in self.parts),)

    def __len__(self):
        return self.shape[0]

    def map(self, function, *others):
        """A function of the blocks of this vector and of others; numbers go to each of them."""
        blocks = [o.parts if isinstance(o, PartitionedVector) else [o] * len(self.parts) for o in others]
        return PartitionedVector(function(*one) for one in zip(self.parts, *blocks, strict=True))

    def fold(self, function, *others):
        """The sum of what a function makes of the blocks."""
        return sum(self.map(function, *others).parts)

    def __rsub__(self, other):
        return self.map(lambda a, b: b - a, other)

    def __rtruediv__(self, other):
        return self.map(lambda a, b: b / a, other)

    def sum(self):
        return sum(b.sum() for b in self.parts)

    def mean(self):
        return self.sum() / len(self)

    def conj(self):
        return self.map(np.conj)

    @property
    def real(self):
        return self.map(np.real)

    def whole(self):
        return np.concatenate(self.parts)


for _name in ("add", "sub", "mul", "truediv", "pow", "neg", "abs", "gt", "lt", "ge", "le", "eq"):
    _operation = getattr(operator, f"__{_name}__")
    setattr(PartitionedVector, f"__{_name}__", lambda self, *others, f=_operation: self.map(f, *others))
PartitionedVector.__radd__, PartitionedVector.__rmul__ = PartitionedVector.__add__, PartitionedVector.__mul__


class Partitioned(NumpyBackend):
    """Row blocks of another backend."""

    def __init__(self, holder, count):
        self.holder, self.count, self.name = holder, count, f"partitioned:{count}:{holder.name}"

    def make_observations(self, indptr, indices, values, n2):
        n1 = len(indptr) - 1
        edges = [round(k * n1 / self.count) for k in range(self.count + 1)]
        slices, blocks = [slice(a, b) for a, b in itertools.pairwise(edges)], []
        for rows in slices:
            part = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
            ptr = np.ascontiguousarray(indptr[rows.start : rows.stop + 1] - indptr[rows.start])
            index = np.ascontiguousarray(indices[part], np.int32)
            blocks.append(self.holder.make_observations(ptr, index, np.ascontiguousarray(values[part]), n2))
        return PartitionedObservations(blocks, slices, (n1, n2))

    # -- vectors: block by block ---------------------------------------------------------------------------------------
    def norm(self, a):
        if not isinstance(a, PartitionedVector):
            return super().norm(a)
        return float(np.sqrt(sum(super(Partitioned, self).norm(b) ** 2 for b in a.parts)))

    def inner(self, a, b):
        if not isinstance(a, PartitionedVector):
            return super().inner(a, b)
        return sum(super(Partitioned, self).inner(*one) for one in zip(a.parts, b.parts, strict=True))

    def astype(self, a, dtype):
        return a.map(lambda b: b.astype(dtype, copy=False)) if isinstance(a, PartitionedVector) else super().astype(a, dtype)

    def dtype(self, a):
        return a.parts[0].dtype if isinstance(a, PartitionedVector) else super().dtype(a)

    def to_numpy(self, a):
        return a.whole() if isinstance(a, PartitionedVector) else super().to_numpy(a)

    def all_finite(self, a):
        return all(map(self.all_finite, a.parts)) if isinstance(a, PartitionedVector) else super().all_finite(a)

    def max_abs(self, a):
        return max(map(self.max_abs, a.parts)) if isinstance(a, PartitionedVector) else super().max_abs(a)


class PartitionedObservations(Observations):
    """Passes over the blocks, one after the other; what concerns columns is added up."""

    def __init__(self, blocks, rows, shape):
        self.parts, self.slices, self.shape = blocks, rows, shape
        self.m = sum(b.m for b in blocks)
        self.values = PartitionedVector(b.values for b in blocks)
        weights = [b.weights for b in blocks]
        self.weights = None if weights[0] is None else PartitionedVector(weights)

    def _with(self, blocks):
        return PartitionedObservations(list(blocks), self.slices, self.shape)

    def _each(self, *vectors):
        return zip(self.parts, self.slices, *(v.parts for v in vectors), strict=True)

    @property
    def rows(self):
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), self.counts(0))

    @property
    def cols(self):
        return np.concatenate([b.cols for b in self.parts])

    def host(self):
        entries = [b.host() for b in self.parts]
        indptr = np.concatenate([[0], np.cumsum(self.counts(0))])
        weights = None if self.weights is None else self.weights.whole()
        return HostEntries(indptr, np.concatenate([e.indices for e in entries]), self.values.whole(), weights)

    def with_values(self, values):
        return self._with(b.with_values(v) for b, _, v in self._each(values))

    def with_weights(self, weights):
        if weights is None:
            return self._with(b.with_weights(None) for b in self.parts)
        if not isinstance(weights, PartitionedVector):  # as they come from a user
            weights = self._cut(weights)
        return self._with(b.with_weights(w) for b, _, w in self._each(weights))

    def _cut(self, p):
        return PartitionedVector(np.split(np.asarray(p), np.cumsum([b.m for b in self.parts])[:-1]))

    def split(self, seed, share):
        flags, left, at = [], np.zeros(self.shape[1]), 0
        for b in self.parts:
            taken = held_out(np.arange(at, at + b.m), seed, share)
            rows = b.rows
            taken &= (np.bincount(rows, ~taken, b.shape[0]) > 0)[rows]
            left += np.bincount(b.cols, ~taken, self.shape[1])
            flags.append(taken)
            at += b.m
        flags = [taken & (left > 0)[b.cols] for b, taken in zip(self.parts, flags, strict=True)]
        if not any(taken.any() for taken in flags):
            return None
        pairs = list(zip(self.parts, flags, strict=True))
        return self._with(b.part(~taken) for b, taken in pairs), self._with(b.part(taken) for b, taken in pairs)

    @property
    def mixed_precision(self):
        return self._with(b.mixed_precision for b in self.parts)

    def gradient_rows(self, u, s, v):
        found = [b.gradient_rows(np.ascontiguousarray(u[rows]), s, v) for b, rows in self._each()]
        return tuple(np.concatenate(one) for one in zip(*found, strict=True))

    def gradient_cols(self, u, s, v):
        found = [b.gradient_cols(np.ascontiguousarray(u[rows]), s, v) for b, rows in self._each()]
        return tuple(sum(one) for one in zip(*found, strict=True))

    def sample(self, left, right):
        return PartitionedVector(b.sample(left[rows], right) for b, rows in self._each())

    def residual(self, left, right):
        return PartitionedVector(b.residual(left[rows], right) for b, rows in self._each())

    def line_sums(self, blocks, p):
        (l1, r1), (l2, r2) = blocks
        parts = [None] * len(self.parts) if p is None else p.parts
        found = [b.line_sums(((l1[rows], r1), (l2[rows], r2)), q) for (b, rows), q in zip(self._each(), parts, strict=True)]
        return tuple(sum(one) for one in zip(*found, strict=True))

    def times(self, p, v):
        return np.concatenate([b.times(q, v) for b, _, q in self._each(p)])

    def adjoint_times(self, p, u):
        return sum(b.adjoint_times(q, np.ascontiguousarray(u[rows])) for b, rows, q in self._each(p))

    def gathered(self, w, side):
        if side:
            return sum(b.gathered(np.ascontiguousarray(w[rows]), 1) for b, rows in self._each())
        return np.concatenate([b.gathered(w, 0) for b in self.parts])

    def sums(self, p, side):
        found = [b.sums(q, side) for b, _, q in self._each(p)]
        return sum(found) if side else np.concatenate(found)

    def squares(self, p):
        rows, cols = zip(*(b.squares(q) for b, _, q in self._each(p)), strict=True)
        return np.concatenate(rows), sum(cols)

    def counts(self, side):
        found = [b.counts(side) for b in self.parts]
        return sum(found) if side else np.concatenate(found)

    def matrix(self, p):
        return scipy.sparse.csr_array(scipy.sparse.vstack([b.matrix(q) for b, _, q in self._each(p)]))

    def outer(self, p):
        g = self.matrix(p)
        return (g @ g.conj().T).toarray(), (g.conj().T @ g).toarray()

    def blocks(self, side, factor):
        if side:
            return sum(b.blocks(1, np.ascontiguousarray(factor[rows])) for b, rows in self._each())
        return np.concatenate([b.blocks(0, factor) for b in self.parts])

    def normal_equations(self, columns, other, prior, shift, *, weights=None, **options):
        if not columns:
            scale = options.pop("scale", None)
            parts = [None] * len(self.parts) if weights is None else weights.parts
            found = [
                b.normal_equations(
                    False, other, prior, shift, weights=w, scale=None if scale is None else scale[rows], **options
                )
                for (b, rows), w in zip(self._each(), parts, strict=True)
            ]
            mean, cov, squares = zip(*found, strict=True)
            return np.concatenate(mean), None if cov[0] is None else np.concatenate(cov), np.concatenate(squares)
        weights = self.weights if weights is None else weights
        ones = self.values * 0 + 1
        return self._columns(other, prior, shift, ones if weights is None else weights * ones, **options)

    def _columns(self, other, prior, shift, w, *, moments=None, scale=None, fixed=-1, noise=1.0, covariance=False):
        """Sums of products over the blocks of rows, then a small system for each column."""
        k = other.shape[1]
        a, b = upper = np.triu_indices(k)
        packed = self.adjoint_times(w, other[:, a] * other[:, b])
        if moments is not None:
            packed = packed + self.adjoint_times(w, moments)
        A = np.zeros((len(packed), k, k))
        A[:, a, b] = packed
        A[:, b, a] = packed
        h = self.adjoint_times(w * self.values, other)
        total = self.sums(w * self.values**2, 1)
        c = np.ones(len(A)) if scale is None else scale
        M = noise * A + c[:, None, None] * prior
        free = np.arange(k) != fixed
        rest = noise * h + c[:, None] * shift - M[:, :, ~free].sum(2)
        S = np.zeros_like(M)
        S[np.ix_(range(len(M)), free, free)] = np.linalg.inv(M[:, free][:, :, free])
        x = np.einsum("nij,nj->ni", S, np.where(free, rest, 0))
        x[:, ~free] = 1
        squares = total - 2 * (x * h).sum(1) + np.einsum("ni,nij,nj->n", x, A, x)
        if covariance:
            squares = squares + (A * S).sum((1, 2))
        return x, S[:, upper[0], upper[1]] if covariance else None, squares


def make(place):
    """``"partitioned:3:native"``: three blocks of the native backend."""
    count, _, holder = place.partition(":")
    return _made(int(count or 3), holder or None)


@functools.cache
def _made(count, holder):
    return Partitioned(get_backend(holder), count)


register_backend("partitioned", make)
