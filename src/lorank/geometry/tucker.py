"""Tensors of fixed multilinear rank: points in Tucker form, tangent vectors, Riemannian gradient, retraction and transport.

A tensor of order d is ``X = C x_1 U_1 ... x_d U_d`` with a core C and orthonormal factors U_k. ``a x_k M`` multiplies each
mode-k fiber of the tensor a by the matrix M. Factors are tall arrays of the backend, cores are small NumPy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..backends import Array, Arrays, backend_of
from ..common.checks import ParameterError
from .manifold import WeightedManifold
from .weights import Weights

SMALLEST = 1e-13  # eigenvalues of Gram matrices below this share of the largest count as zero


def unfold(a: np.ndarray, k: int) -> np.ndarray:
    """The mode-k fibers of a tensor as the columns of a matrix; the other modes in increasing order, the last fastest."""
    return np.moveaxis(a, k, 0).reshape(a.shape[k], -1)


def multiply(a: np.ndarray, matrices: Sequence[np.ndarray | None]) -> np.ndarray:
    """``a x_1 M_1 ... x_d M_d``; None is the identity."""
    for k, matrix in enumerate(matrices):
        if matrix is None:
            continue
        before, n, after = a.shape[:k], a.shape[k], a.shape[k + 1 :]
        if after:
            product = matrix @ a.reshape(math.prod(before), n, math.prod(after))
        else:
            product = a.reshape(math.prod(before), n) @ matrix.T
        a = product.reshape(*before, len(matrix), *after)
    return a


def except_mode(k: int, matrices: Sequence[np.ndarray]) -> list[np.ndarray | None]:
    """The matrices with the identity for mode k."""
    return [None if j == k else matrix for j, matrix in enumerate(matrices)]


class Tucker:
    """Tensor in Tucker form: a core times one factor with orthonormal columns in each mode.

    ``X = C x_1 U_1 ... x_d U_d`` has the multilinear rank of its core C.

    Parameters
    ----------
    core : (r_1, ..., r_d) array
    factors : sequence of (n_k, r_k) arrays
        With orthonormal columns; :meth:`from_dense` and :meth:`from_factors` compute them.
    backend : Arrays, optional
        Backend of the factors; by default NumPy, or torch for tensors.

    Examples
    --------
    >>> import numpy as np, lorank as lr
    >>> rng = np.random.default_rng(0)
    >>> X = lr.Tucker.from_factors(rng.standard_normal((2, 2, 2)), [rng.standard_normal((n, 2)) for n in (6, 5, 4)])
    >>> X
    Tucker(6 x 5 x 4, rank (2, 2, 2), float64)
    >>> a = X.to_dense()
    >>> bool(np.isclose(X.entries([5], [0], [2])[0], a[5, 0, 2]))
    True
    """

    __slots__ = ("backend", "core", "factors")

    def __init__(self, core: Array, factors: Sequence[Array], backend: Arrays | None = None) -> None:
        self.backend = backend_of(factors[0]) if backend is None else backend
        self.core = self.backend.small(core)
        self.factors = self.backend.asarrays(*factors)

    @classmethod
    def from_factors(cls, core: np.ndarray, factors: Sequence[Array], backend: Arrays | None = None) -> Tucker:
        """The tensor with that core and any factors, which need not be orthonormal."""
        backend = backend_of(factors[0]) if backend is None else backend
        bases, triangles = zip(*backend.qrs(list(factors)), strict=True)
        return cls(multiply(np.asarray(core), triangles), bases, backend)

    @classmethod
    def from_dense(cls, a: np.ndarray, rank: int | Sequence[int]) -> Tucker:
        """The truncated higher-order SVD of a dense tensor, a quasi-optimal approximation of that rank."""
        a = np.asarray(a, np.result_type(a, np.float32))
        if a.ndim < 3:
            raise ParameterError("a", f"must be a tensor of order 3 or more, got {a.ndim} modes")
        core, factors = _higher_order_svd(a, TUCKER.check_rank(rank, a.shape))
        return cls(core, factors)

    @property
    def manifold(self) -> TuckerManifold:
        """The manifold that the point belongs to."""
        return TUCKER

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(u.shape[0]) for u in self.factors)

    @property
    def rank(self) -> tuple[int, ...]:
        """The multilinear rank: one number per mode."""
        return self.core.shape

    @property
    def dtype(self) -> np.dtype:
        return self.backend.dtype(self.factors[0])

    def singular_values(self) -> list[np.ndarray]:
        """Singular values of the unfoldings, one array per mode."""
        return [np.linalg.svd(unfold(self.core, k), compute_uv=False) for k in range(self.core.ndim)]

    def numpy(self) -> Tucker:
        """The point with NumPy arrays."""
        return Tucker(self.core, [self.backend.to_numpy(u) for u in self.factors])

    def norm(self) -> float:
        """Frobenius norm."""
        return float(np.linalg.norm(self.core))

    def is_finite(self) -> bool:
        return bool(np.isfinite(self.core).all()) and all(self.backend.all_finite(u) for u in self.factors)

    def padded(self, rank: Any) -> Tucker:
        """The point itself: its rank does not change during a run."""
        return self

    def to_dense(self) -> np.ndarray:
        """The dense tensor."""
        return multiply(self.core, [self.backend.to_numpy(u) for u in self.factors])

    def entries(self, *indices: Any) -> np.ndarray:
        """The entries at the index tuples ``(indices[0][p], ..., indices[d-1][p])``."""
        found = index_arrays(indices, self.shape)
        factors = [self.backend.to_numpy(u) for u in self.factors]
        out = np.empty(len(found[0]), self.dtype)
        step = max(1, (1 << 22) // self.core.size)
        for first in range(0, len(out), step):
            part = slice(first, first + step)
            left = factors[0][found[0][part]] @ self.core.reshape(self.rank[0], -1)
            for u, one in zip(factors[1:], found[1:], strict=True):
                left = np.einsum("pa,pab->pb", u[one[part]], left.reshape(len(left), u.shape[1], -1))
            out[part] = left[:, 0]
        return out

    def distance(self, other: Tucker) -> float:
        """``|X - Y|_F``, from coordinates in a common basis, so that nothing cancels."""
        X, Y = self.numpy(), other.numpy()
        pairs = zip(X.factors, Y.factors, strict=True)
        coordinates: list[np.ndarray] = [np.linalg.qr(np.hstack(pair))[1] for pair in pairs]
        widths = [u.shape[1] for u in X.factors]
        a = multiply(X.core, [k[:, :r] for k, r in zip(coordinates, widths, strict=True)])
        b = multiply(Y.core, [k[:, r:] for k, r in zip(coordinates, widths, strict=True)])
        return float(np.linalg.norm(a - b))

    def __repr__(self) -> str:
        return f"Tucker({' x '.join(map(str, self.shape))}, rank {self.rank}, {self.dtype})"


class TensorCotangent(Protocol):
    """An ambient gradient G at a Tucker point, by the products that its projection needs."""

    @property
    def core(self) -> np.ndarray:
        """``G x_1 U_1^T ... x_d U_d^T``."""

    @property
    def modes(self) -> Sequence[Array]:
        """For each mode k the (n_k, r_k) array ``unfold(G x_(j != k) U_j^T, k) unfold(C, k)^T``."""


class TuckerTangent:
    """``xi = dC x_1 U_1 ... x_d U_d + sum_k C x_k dU_k x_(j != k) U_j`` with ``U_k^T dU_k = 0``."""

    def __init__(self, X: Tucker, core: np.ndarray, factors: Sequence[Array]) -> None:
        self.X, self.core, self.factors = X, core, tuple(factors)

    @classmethod
    def project(cls, X: Tucker, core: np.ndarray, factors: Sequence[Array]) -> TuckerTangent:
        """The tangent vector of any core and factors: parts of the factors in the span of U_k are moved into the core."""
        found = []
        for k, (u, du) in enumerate(zip(X.factors, factors, strict=True)):
            inside = X.backend.gram(u, du)
            core = core + multiply(X.core, _only(k, inside, X.core.ndim))
            found.append(X.backend.minus(du, u, inside))
        return cls(X, core, found)

    def __mul__(self, c: float) -> TuckerTangent:
        c = float(c)
        return TuckerTangent(self.X, c * self.core, [c * u for u in self.factors])

    __rmul__ = __mul__

    def __add__(self, other: TuckerTangent) -> TuckerTangent:
        pairs = zip(self.factors, other.factors, strict=True)
        return TuckerTangent(self.X, self.core + other.core, [u + v for u, v in pairs])

    def __sub__(self, other: TuckerTangent) -> TuckerTangent:
        return self + -other

    def __neg__(self) -> TuckerTangent:
        return -1.0 * self

    def norm(self) -> float:
        """Frobenius norm: the terms of xi are orthogonal."""
        square = float(np.linalg.norm(self.core)) ** 2
        for k, du in enumerate(self.factors):
            c = unfold(self.X.core, k)
            square += float(np.vdot(self.X.backend.gram(du, du), c @ c.T))
        return math.sqrt(max(square, 0.0))

    def inner(self, G: TensorCotangent) -> float:
        """``<G, xi>``: the slope along xi where G is the gradient."""
        pairs = list(zip(G.modes, self.factors, strict=True))
        return float(np.vdot(G.core, self.core)) + sum(self.X.backend.inners(pairs))


class _Products(NamedTuple):
    """The products of a tangent vector at one point with another point, as a :class:`TensorCotangent` there."""

    core: np.ndarray
    modes: Sequence[Array]


class _Transport:
    """Transport by orthogonal projection to the tangent space at X."""

    def __init__(self, old: Tucker, X: Tucker) -> None:
        self.old, self.X = old, X
        self.overlaps = [X.backend.gram(u, v) for u, v in zip(X.factors, old.factors, strict=True)]

    def vector(self, xi: TuckerTangent) -> TuckerTangent:
        return TUCKER.gradient(self.X, self._products(xi), Weights())

    def slope(self, xi: TuckerTangent, G: TensorCotangent) -> float:
        return self.vector(xi).inner(G)

    def _products(self, xi: TuckerTangent) -> _Products:
        X, C, S, d = self.X, self.old.core, self.overlaps, self.old.core.ndim
        D = [X.backend.gram(u, du) for u, du in zip(X.factors, xi.factors, strict=True)]

        def changed(k: int, skipped: int = -1) -> np.ndarray:
            """``C`` times D_k in mode k and S_j in the others, but for the skipped mode."""
            return multiply(C, [None if j == skipped else D[j] if j == k else S[j] for j in range(d)])

        core = multiply(xi.core, S) + sum(changed(k) for k in range(d))
        modes = []
        for k in range(d):
            fixed = multiply(xi.core, except_mode(k, S)) + sum(changed(j, skipped=k) for j in range(d) if j != k)
            moved, c = multiply(C, except_mode(k, S)), unfold(X.core, k)
            left, right = unfold(fixed, k) @ c.T, unfold(moved, k) @ c.T
            modes.append(X.backend.plus(self.old.factors[k], left, xi.factors[k], right))
        return _Products(core, modes)


class TuckerManifold(WeightedManifold):
    """Tensors of fixed multilinear rank.

    Examples
    --------
    >>> TUCKER.check_rank(5, (100, 100, 3)), TUCKER.dof((30, 20, 10), (2, 2, 2), float)
    ((5, 5, 3), 116)
    """

    hermitian = False

    def check_rank(self, rank: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One rank per mode; a single number stands for all modes, as far as they are long enough."""
        if isinstance(rank, (int, np.integer)) and not isinstance(rank, bool):
            if not 1 <= rank <= max(shape):
                raise ParameterError("rank", f"must lie between 1 and {max(shape)}, the longest mode: got {rank}")
            found = [min(int(rank), n) for n in shape]
            return tuple(min(r, math.prod(found[:k] + found[k + 1 :])) for k, r in enumerate(found))
        if not isinstance(rank, Sequence) or len(rank) != len(shape):
            raise ParameterError("rank", f"must be an integer, or one integer for each of {len(shape)} modes, got {rank!r}")
        for k, (r, n) in enumerate(zip(rank, shape, strict=True)):
            if isinstance(r, bool) or not isinstance(r, (int, np.integer)) or not 1 <= r <= n:
                raise ParameterError("rank", f"[{k}] must be an integer from 1 to {n}, the length of mode {k}: got {r!r}")
            others = math.prod(rank[:k]) * math.prod(rank[k + 1 :])
            if r > others:
                raise ParameterError("rank", f"[{k}] = {r} exceeds the product {others} of the other ranks {tuple(rank)}")
        return tuple(int(r) for r in rank)

    def dof(self, shape: tuple[int, ...], rank: Sequence[int], dtype: Any) -> int:
        return math.prod(rank) + sum((n - r) * r for n, r in zip(shape, rank, strict=True))

    def zero(self, shape: tuple[int, ...], rank: Sequence[int], dtype: Any, backend: Arrays) -> Tucker:
        return Tucker(np.zeros(rank, dtype), [backend.eye(n, dtype, r) for n, r in zip(shape, rank, strict=True)], backend)

    def check_point(self, X: Any, shape: tuple[int, ...], rank: Sequence[int], dtype: Any, backend: Arrays) -> Tucker:
        if not isinstance(X, Tucker):
            raise ParameterError("start", f"must be a Tucker point, got {type(X).__name__}")
        if X.shape != tuple(shape) or X.rank != tuple(rank):
            raise ParameterError("start", f"must have shape {tuple(shape)} and rank {tuple(rank)}, got {X!r}")
        if not X.is_finite():
            raise ParameterError("start", "holds nan or inf")
        for k, u in enumerate(X.factors):
            if np.abs(X.backend.to_numpy(X.backend.gram(u, u)) - np.eye(X.rank[k])).max() > 1e-3:
                raise ParameterError("start", f"factor {k} has no orthonormal columns: use Tucker.from_factors(core, factors)")
        return Tucker(np.asarray(X.core, dtype), [backend.asarray(u, dtype) for u in X.numpy().factors], backend)

    def gradient(self, X: Tucker, G: TensorCotangent, weights: Weights) -> TuckerTangent:
        """The Riemannian gradient in the metric ``<Z x_1 W_1 ... x_d W_d, Y>``.

        With ``M_k = U_k^T W_k U_k`` it has the core ``G.core x_k M_k^-1`` and the factors
        ``(W_k^-1 G_k - U_k M_k^-1 U_k^T G_k) H_k^-1``, ``H_k = unfold(C x_(j != k) M_j, k) unfold(C, k)^T``.
        """
        backend = X.backend
        grams = [weights.mode(k).gram(backend, u) for k, u in enumerate(X.factors)]
        inverses = [None if m is None else backend.inverse(m) for m in grams]
        factors = []
        for k, (u, g) in enumerate(zip(X.factors, G.modes, strict=True)):
            inside, inverse = backend.gram(u, g), inverses[k]
            outside = backend.minus(weights.mode(k).solve(g), u, inside if inverse is None else inverse @ inside)
            others = [None if j == k else m for j, m in enumerate(grams)]
            h = unfold(multiply(X.core, others), k) @ unfold(X.core, k).T
            factors.append(backend.product(outside, _pseudo_inverse(h).astype(X.dtype)))
        core = multiply(G.core, inverses)
        if all(m is None for m in grams):
            return TuckerTangent(X, core, factors)
        return TuckerTangent.project(X, core, factors)

    def prepare(self, X: Tucker, G: Any, vectors: Sequence[Any]) -> None:
        pass

    def forget(self, xi: TuckerTangent) -> None:
        pass

    def retract(self, xi: TuckerTangent, alpha: float) -> Tucker:
        """The truncated higher-order SVD of ``X + alpha xi``, from its coordinates in the bases of ``[U_k, dU_k]``."""
        X, backend, d = xi.X, xi.X.backend, xi.X.core.ndim
        pairs = [backend.concat([u, du]) for u, du in zip(X.factors, xi.factors, strict=True)]
        bases, coordinates = zip(*backend.qrs(pairs), strict=True)
        old = [k[:, :r] for k, r in zip(coordinates, X.rank, strict=True)]
        new = [k[:, r:] for k, r in zip(coordinates, X.rank, strict=True)]
        core = multiply(X.core + alpha * xi.core, old)
        for k in range(d):
            core = core + alpha * multiply(X.core, [new[j] if j == k else old[j] for j in range(d)])
        small, rotations = _higher_order_svd(core, X.rank)
        return Tucker(small, [backend.product(q, u) for q, u in zip(bases, rotations, strict=True)], backend)

    def transport(self, old: Tucker, X: Tucker) -> _Transport:
        return _Transport(old, X)

    def arrays(self, X: Tucker) -> dict[str, Array]:
        return {"core": X.core, **{f"U{k}": u for k, u in enumerate(X.factors)}}

    def from_arrays(self, arrays: dict[str, Array], backend: Arrays) -> Tucker:
        factors = [backend.asarray(arrays[f"U{k}"]) for k in range(len(arrays) - 1)]
        return Tucker(np.asarray(arrays["core"]), factors, backend)


TUCKER = TuckerManifold()


def _higher_order_svd(a: np.ndarray, rank: Sequence[int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Core and factors of the truncated higher-order SVD; nan where a has nan."""
    if not np.isfinite(a).all():
        return np.full(rank, np.nan, a.dtype), [np.full((n, r), np.nan, a.dtype) for n, r in zip(a.shape, rank, strict=True)]
    factors = [np.linalg.svd(unfold(a, k), full_matrices=False)[0][:, :r] for k, r in enumerate(rank)]
    return multiply(a, [u.T for u in factors]), factors


def _pseudo_inverse(h: np.ndarray) -> np.ndarray:
    """The pseudo-inverse of a positive semidefinite matrix: directions in which the core vanishes have no gradient."""
    values, vectors = np.linalg.eigh((h + h.T) / 2)
    kept = values > SMALLEST * max(float(values[-1]), 0.0)
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T


def _only(k: int, matrix: np.ndarray, d: int) -> list[np.ndarray | None]:
    return [matrix if j == k else None for j in range(d)]


def index_arrays(indices: Sequence[Any], shape: Sequence[int]) -> list[np.ndarray]:
    """One index array per mode, of equal lengths, or a ParameterError."""
    if len(indices) != len(shape):
        raise ParameterError("indices", f"must be one array per mode, {len(shape)} in all, got {len(indices)}")
    found = [_indices(one, n, k) for k, (one, n) in enumerate(zip(indices, shape, strict=True))]
    if len({len(one) for one in found}) > 1:
        raise ParameterError("indices", f"must have equal lengths, got {', '.join(str(len(one)) for one in found)}")
    return found


def _indices(a: Any, n: int, k: int) -> np.ndarray:
    a = np.asarray(a)
    if a.ndim != 1 or (a.size and a.dtype.kind not in "iu"):
        raise ParameterError("indices", f"of mode {k} must be an array of integers, got shape {a.shape} of {a.dtype}")
    outside = np.flatnonzero((a < 0) | (a >= n))
    if len(outside):
        raise ParameterError("indices", f"of mode {k}: index {a[outside[0]]} at {outside[0]} is outside 0 .. {n - 1}")
    return a.astype(np.int64)
