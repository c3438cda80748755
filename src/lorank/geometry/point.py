"""Points of the fixed-rank manifold: matrices in factored form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import Array, Arrays, as_owned, backend_of
from ..common.checks import FLOAT_TYPE, SHAPE, ParameterError, check, counted, shown, whole
from .matrix_interface import MatrixInterface

if TYPE_CHECKING:
    from .manifold import Manifold


class FixedRank(MatrixInterface):
    """``X = U diag(s) V^H`` with orthonormal columns in U and V.

    Parameters
    ----------
    U : (n1, r) array
    s : (r,) array
        Real, non-negative, decreasing.
    V : (n2, r) array
    backend : Arrays, optional
        Backend of the arrays; by default NumPy, or torch for tensors.

    Notes
    -----
    The constructor does not check its input; :meth:`from_factors` and :meth:`from_dense` make a point from any matrix.

    Raises
    ------
    ValueError
        Where the widths of the factors differ, or the rank exceeds the smaller side.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> X = lr.FixedRank.from_factors(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0], [5.0]]))
    >>> X
    FixedRank(2 x 3, rank 1, float64)
    >>> (X @ np.ones(3)).round(6).tolist()
    [12.0, 24.0]
    >>> X[1].round(6).tolist()
    [6.0, 8.0, 10.0]
    """

    __slots__ = ("U", "V", "backend", "s")

    def __init__(self, U: Array, s: Array, V: Array, backend: Arrays | None = None) -> None:
        self.backend = backend_of(U) if backend is None else backend
        if V is U:  # Hermitian
            (self.U,) = (self.V,) = self.backend.asarrays(U)
        else:
            self.U, self.V = self.backend.asarrays(U, V)
        self.s = self.backend.values(s)

    @classmethod
    def from_factors(cls, left: Array, right: Array, rank: int | None = None, backend: Arrays | None = None) -> FixedRank:
        """The point ``left right^H``, truncated to ``rank`` (by default the factors' width)."""
        if backend is None:  # called by a user
            left, right = _matrix(left, "left"), _matrix(right, "right")
            if left.shape[1] != right.shape[1]:
                raise ValueError(
                    f"left and right must have the same width: got {left.shape[1]} and {counted(right.shape[1], 'column')}"
                )
            backend = backend_of(left)
        if rank is not None:
            _check_rank(rank, left.shape[1])
        (q1, k1), (q2, k2) = backend.qrs([left, right])
        u, s, v = backend.svd(k1 @ k2.conj().T)
        r = left.shape[1] if rank is None else rank
        return cls(backend.product(q1, u[:, :r]), s[:r], backend.product(q2, v[:, :r]), backend)

    @classmethod
    def from_dense(cls, a: Array, rank: int, backend: Arrays | None = None) -> FixedRank:
        """The best approximation of rank ``rank`` to a dense matrix."""
        a = _matrix(a, "a") if backend is None else a
        backend = backend_of(a) if backend is None else backend
        _check_rank(rank, min(a.shape))
        u, s, v = backend.svd(backend.asarray(a))
        return cls(backend.asarray(u[:, :rank]), s[:rank], backend.asarray(v[:, :rank]), backend)

    @classmethod
    def zero(cls, shape: Sequence[int], rank: int, dtype: Any, backend: Arrays | None = None) -> FixedRank:
        """The zero matrix, with unit vectors as factors."""
        check("shape", tuple(shape) if isinstance(shape, Sequence) else shape, SHAPE)
        if max(shape) >= 2**31:
            raise ParameterError("shape", f"must have sides below 2^31, got {shown(shape)}")
        _check_rank(rank, min(shape))
        check("dtype", dtype, FLOAT_TYPE)
        backend = backend_of(None) if backend is None else backend
        u, v = (backend.eye(n, dtype, rank) for n in shape)
        return cls(u, backend.zeros((rank,), np.zeros(0, dtype).real.dtype), v, backend)

    @classmethod
    def semidefinite(cls, factor: Array, rank: int | None = None, backend: Arrays | None = None) -> FixedRank:
        """The Hermitian point ``factor factor^H``, truncated to ``rank``. It stores one factor for both sides."""
        factor = _matrix(factor, "factor") if backend is None else factor
        backend = backend_of(factor) if backend is None else backend
        if rank is not None:
            _check_rank(rank, factor.shape[1])
        q, k = backend.qr(factor)
        u, s, _ = backend.svd(k)
        r = factor.shape[1] if rank is None else rank
        U = backend.product(q, u[:, :r])
        return cls(U, s[:r] ** 2, U, backend)

    @property
    def hermitian(self) -> bool:
        """Whether the point stores one factor for both sides, as Hermitian positive semidefinite matrices do."""
        return self.V is self.U

    @property
    def manifold(self) -> Manifold:
        """The manifold that the point belongs to: of semidefinite matrices for Hermitian points."""
        from .manifold import FIXED_RANK, SEMIDEFINITE  # circular import

        return SEMIDEFINITE if self.hermitian else FIXED_RANK

    @property
    def rank(self) -> int:
        return int(self.s.shape[0])

    @property
    def dtype(self) -> np.dtype:
        return self.backend.dtype(self.U)

    @property
    def real_dtype(self) -> np.dtype:
        """The dtype of the singular values."""
        return self.backend.dtype(self.s)

    def numpy(self) -> FixedRank:
        """The point with NumPy arrays."""
        U, s, V = (self.backend.to_numpy(a) for a in (self.U, self.s, self.V))
        return FixedRank(U, s, U if self.hermitian else V)

    def scaled(self, rows: Array, cols: Array) -> FixedRank:
        """``diag(rows) X diag(cols)``."""
        left, right = self.U * self.s * rows[:, None], self.V * cols[:, None]
        return FixedRank.from_factors(left, right, backend=self.backend)

    def astype(self, dtype: Any, factor: float = 1.0) -> FixedRank:
        """The point times ``factor`` in another precision.

        A Newton-Schulz step, ``U (3 I - U^H U) / 2``, makes columns that are orthonormal to single precision so to double.
        """
        backend, dtype = self.backend, np.dtype(dtype)
        if dtype == self.dtype and factor == 1:
            return self
        finer = np.finfo(dtype).bits > np.finfo(self.dtype).bits

        def cast(a: Array) -> Array:
            a = backend.astype(a, dtype)
            return backend.product(a, backend.add_diagonal(-0.5 * backend.gram(a, a), np.full(self.rank, 1.5))) if finer else a

        U = cast(self.U)
        s = backend.astype(self.s, np.zeros(0, dtype).real.dtype) * factor
        return FixedRank(U, s, U if self.hermitian else cast(self.V), backend)

    def padded(self, rank: int) -> FixedRank:
        """The matrix with zero singular values added up to ``rank``."""
        if rank <= self.rank:
            return self
        backend, more = self.backend, rank - self.rank
        rng = np.random.default_rng(0)

        def filled(a: Array) -> Array:
            added = backend.qr(backend.concat([a, backend.random_normal(rng, (a.shape[0], more), self.dtype)]))[0][
                :, self.rank :
            ]
            return backend.concat([a, added])

        s = backend.concat([self.s, backend.zeros((more,), self.real_dtype)], axis=0)
        U = filled(self.U)
        return FixedRank(U, s, U if self.hermitian else filled(self.V), backend)

    def is_finite(self) -> bool:
        """Whether no factor holds nan or inf."""
        return all(self.backend.all_finite(a) for a in (self.s, self.U, self.V))

    def norm(self) -> float:
        """Frobenius norm."""
        return self.backend.norm(self.s)

    def entries(self, rows: Any, cols: Any) -> Array:
        """The entries at the index pairs (rows[k], cols[k])."""
        rows, cols = (
            self.backend.asindex(_indices(k, n, name))
            for k, n, name in zip((rows, cols), self.shape, ("rows", "cols"), strict=True)
        )
        if rows.shape != cols.shape:
            raise ValueError(
                f"rows and cols must have the same length: got {math.prod(rows.shape)} and {math.prod(cols.shape)}"
            )
        shape, rows, cols = rows.shape, rows.ravel(), cols.ravel()
        return self.backend.entries(self.U * self.s, self.V, rows, cols).reshape(shape)

    def distance(self, other: FixedRank) -> float:
        """``|X - Y|_F`` from the factors, accurate to rounding relative to ``|X|_F``.

        With ``U' = U A + E``, ``V' = V B + F`` (E, F orthogonal to U, V) the difference is a sum of four mutually
        orthogonal blocks, whose squared norms add up without cancellation.
        """
        if type(self.U) is not type(other.U):
            return self.numpy().distance(other.numpy())
        backend, gram = self.backend, self.backend.gram
        if self.rank == other.rank == 1 and self.hermitian and other.hermitian:
            return _distance_of_signals(self, other)
        a, b = gram(self.U, other.U), gram(self.V, other.V)
        # E and F themselves, and not their Gram matrices by subtraction, which would cancel
        e, f = backend.asarrays(backend.minus(other.U, self.U, a), backend.minus(other.V, self.V, b))
        e_s, f_s = e * other.s, f * other.s
        s, t = backend.small(self.s), backend.small(other.s)
        core = backend.add_diagonal((a * t) @ b.conj().T, -s)
        across = (gram(e_s, e_s) * gram(f, f).T).sum().real
        b_h, a_h = b.conj().T, a.conj().T
        parts = [norm**2 for norm in backend.norms([core, backend.product(e_s, b_h), backend.product(f_s, a_h)])]
        return float(np.sqrt(sum((*parts, max(float(across), 0.0)))))

    def __repr__(self) -> str:
        n1, n2 = self.shape
        return f"FixedRank({n1} x {n2}, rank {self.rank}, {self.dtype})"


def _distance_of_signals(X: FixedRank, Y: FixedRank) -> float:
    """The distance of ``s u u^H`` and ``t v v^H``, used in every step of phase retrieval: ``v = a u + e``."""
    a = X.backend.gram(X.U, Y.U)
    e = X.backend.norm(X.backend.minus(Y.U, X.U, a)) ** 2
    s, t, a2 = float(X.s[0]), float(Y.s[0]), abs(complex(a[0, 0])) ** 2
    return math.sqrt((t * a2 - s) ** 2 + t * t * e * (2 * a2 + e))


def _indices(a: Any, n: int, name: str) -> Array:
    try:
        a = as_owned(a)
    except (TypeError, ValueError) as error:
        raise ParameterError(name, f"must be integers: {error}") from None
    backend, empty = backend_of(a), 0 in a.shape
    if backend.dtype(a).kind not in "iu":
        if not empty:
            raise ParameterError(name, f"must be integers, got {a.dtype}")
        a = backend.astype(a, np.int64)
    if not empty and (a.min() < 0 or a.max() >= n):
        k = backend.first_true((a.ravel() < 0) | (a.ravel() >= n))
        raise ValueError(f"{name}[{k}] = {a.ravel()[k]} is outside 0 .. {n - 1}")
    return a


def _matrix(a: Any, name: str) -> Array:
    """A finite, non-empty floating-point matrix, or an error that names the parameter."""
    if np.ma.isMaskedArray(a):
        raise ParameterError(name, "is a masked array: see Completion.from_dense for a matrix with missing entries")
    if hasattr(a, "tocoo"):
        raise ParameterError(name, f"is a sparse matrix: pass {name}.toarray(), or see Completion.from_sparse")
    try:
        a = as_owned(a)
    except (TypeError, ValueError) as error:
        raise ParameterError(name, f"must be a matrix of numbers: {error}") from None
    backend = backend_of(a)
    dtype = backend.dtype(a)
    if dtype.kind not in "biufc":
        raise ParameterError(name, f"must be a matrix of numbers, got {dtype}")
    if a.ndim != 2 or 0 in a.shape:
        raise ParameterError(name, f"must be a matrix with at least one row and one column, got shape {tuple(a.shape)}")
    if dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        a = backend.astype(a, np.complex128 if dtype.kind == "c" else np.float64)
    if not backend.all_finite(a):
        raise ParameterError(name, "holds nan or inf")
    return a


def _check_rank(rank: Any, top: int) -> None:
    """Raise an error where the rank is not an integer from 1 to ``top``."""
    check("rank", rank, whole(1))
    if rank > top:
        raise ParameterError("rank", f"must lie between 1 and {top}, got {rank}")
