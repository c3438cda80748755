"""Protocol of manifolds, and the manifolds of fixed-rank and of Hermitian positive semidefinite matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..backends import Array, Arrays
from ..common.checks import ParameterError
from .point import FixedRank
from .tangent import Cotangent, FixedRankTransport, Tangent, retract, riemannian_gradient
from .weights import Weights


class Transport(Protocol):
    """Vector transport from the tangent space at one point to that at another."""

    def vector(self, xi: Any) -> Any:
        """The transported vector."""

    def slope(self, xi: Any, G: Any) -> float:
        """``<G, T xi>`` for an ambient gradient G, without computing the transported vector T xi."""


class Manifold(Protocol):
    """The set that contains the solution of a problem, with the operations that solvers use. Points have it as ``X.manifold``.

    A point X has ``manifold``, ``shape``, ``rank``, ``dtype``, ``backend``, ``norm()``, ``distance(other)``, ``is_finite()``,
    ``padded(rank)`` and ``numpy()``; a tangent vector has ``X``, ``norm()``,
    ``inner(G)`` (its inner product with an ambient gradient), sums, differences and products with numbers.
    """

    def check_rank(self, rank: Any, shape: tuple[int, ...]) -> Any:
        """The rank in the form that points store, or a ValueError."""

    def dof(self, shape: tuple[int, ...], rank: Any, dtype: Any) -> int:
        """Number of real degrees of freedom of points with entries of that dtype."""

    def zero(self, shape: tuple[int, ...], rank: Any, dtype: Any, backend: Arrays) -> Any:
        """The point zero."""

    def check_point(self, X: Any, shape: tuple[int, ...], rank: Any, dtype: Any, backend: Arrays) -> Any:
        """A user's point in that dtype and backend, or a ValueError."""

    def gradient(self, X: Any, G: Any, weights: Weights) -> Any:
        """The Riemannian gradient in the metric of the weights, a tangent vector at X."""

    def prepare(self, X: Any, G: Any, vectors: Sequence[Any]) -> None:
        """Announce that inner products of these vectors, at an earlier point, with X and G follow; backends may batch them."""

    def forget(self, xi: Any) -> None:
        """Free what a tangent vector caches for retractions."""

    def retract(self, xi: Any, alpha: float) -> Any:
        """The retraction of ``X + alpha xi`` to the manifold."""

    def transport(self, old: Any, X: Any) -> Transport:
        """From the tangent space at ``old`` to that at X."""

    def arrays(self, X: Any) -> dict[str, Array]:
        """The arrays of a point, for files."""

    def from_arrays(self, arrays: dict[str, Array], backend: Arrays) -> Any:
        """The point of such arrays, in that backend."""


class WeightedManifold:
    """Manifold with one metric weight per mode, such as rows and columns.

    Gradients of its problems have ``squared_norms``, one array per mode.
    """


class FixedRankManifold(WeightedManifold):
    """Matrices of rank r.

    Attributes
    ----------
    hermitian : bool
        Whether all points are Hermitian (:class:`~lorank.geometry.SemidefiniteManifold`).

    Examples
    --------
    >>> FIXED_RANK.dof((30, 20), 2, float), FIXED_RANK.dof((30, 20), 2, complex)
    (96, 192)
    """

    hermitian = False

    def check_rank(self, rank: Any, shape: tuple[int, ...]) -> int:
        top = min(shape)
        if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)):
            raise ParameterError("rank", f"must be 'auto' or an integer from 1 to {top}, got {rank!r}")
        if not 1 <= rank <= top:
            raise ParameterError(
                "rank", f"must lie between 1 and {top}, the smaller side of a {shape[0]} x {shape[1]} matrix: got {rank}"
            )
        return int(rank)

    def dof(self, shape: tuple[int, ...], rank: int, dtype: Any) -> int:
        return (shape[0] + shape[1] - rank) * rank * (2 if np.dtype(dtype).kind == "c" else 1)

    def zero(self, shape: tuple[int, ...], rank: int, dtype: Any, backend: Arrays) -> FixedRank:
        return FixedRank.zero(shape, rank, dtype, backend)

    def nearest(self, X: FixedRank, rank: int | None = None) -> FixedRank:
        """The nearest point to X, of rank ``rank`` where X is no point of the manifold."""
        return X

    def gradient(self, X: FixedRank, G: Cotangent, weights: Weights) -> Tangent:
        return riemannian_gradient(X, G, weights)

    def prepare(self, X: FixedRank, G: Cotangent, vectors: Sequence[Tangent]) -> None:
        X.backend.prepare_grams(
            [X.U, G.GV, *(a for xi in vectors for a in (xi.X.U, xi.Up))],
            [X.V, G.GhU, *(a for xi in vectors for a in (xi.X.V, xi.Vp))],
        )

    def retract(self, xi: Tangent, alpha: float) -> FixedRank:
        return retract(xi, alpha)

    def forget(self, xi: Tangent) -> None:
        vars(xi).pop("bases", None)  # as large as the vector

    def transport(self, old: FixedRank, X: FixedRank) -> FixedRankTransport:
        return FixedRankTransport(old, X)

    def arrays(self, X: FixedRank) -> dict[str, Array]:
        return {"U": X.U, "s": X.s, "V": X.V}

    def from_arrays(self, arrays: dict[str, Array], backend: Arrays) -> FixedRank:
        U, s = backend.asarray(arrays["U"]), backend.asarray(arrays["s"])
        hermitian = arrays["U"].shape == arrays["V"].shape and bool((arrays["U"] == arrays["V"]).all())
        return FixedRank(U, s, U if hermitian else backend.asarray(arrays["V"]), backend)

    def check_point(self, X: Any, shape: tuple[int, ...], rank: int, dtype: Any, backend: Arrays) -> FixedRank:
        if not isinstance(X, FixedRank):
            raise ValueError(f"start must be a FixedRank point, got {type(X).__name__}")
        if not all(hasattr(a, "ndim") for a in (X.U, X.s, X.V)):
            U = np.asarray(X.U)
            X = FixedRank(U, np.asarray(X.s), U if X.hermitian else np.asarray(X.V))
        if X.U.ndim != 2 or X.V.ndim != 2 or X.s.ndim != 1:
            shapes = ", ".join(str(tuple(a.shape)) for a in (X.U, X.s, X.V))
            raise ValueError(f"a point is U (n1 x r), s (r) and V (n2 x r), got shapes {shapes}")
        if any(X.backend.dtype(a).kind not in "fciu" for a in (X.U, X.s, X.V)):
            raise ValueError("start must hold numbers")
        if X.shape != tuple(shape):
            raise ValueError(f"start is a {X.shape[0]} x {X.shape[1]} matrix, the problem's is {shape[0]} x {shape[1]}")
        if not X.rank == X.U.shape[1] == X.V.shape[1] == rank:
            raise ValueError(f"start has rank {X.rank} (U {X.U.shape[1]}, V {X.V.shape[1]} columns), expected rank {rank}")
        if not X.is_finite():
            raise ValueError("start holds nan or inf")
        if any(X.backend.is_complex(a) for a in (X.U, X.V)) and np.dtype(dtype).kind != "c":
            raise ValueError("start is complex and the problem is real")
        s = X.backend.to_numpy(X.s)
        if np.iscomplexobj(s) or (s < 0).any() or (np.diff(s) > 0).any():
            raise ValueError("start.s must be real, not negative and in decreasing order: see FixedRank.from_factors")
        for name, factor in (("U", X.U), ("V", X.V)):
            off = np.abs(X.backend.to_numpy(X.backend.gram(factor, factor)) - np.eye(rank)).max()
            if off > 1e-3:
                raise ValueError(
                    f"start.{name} has no orthonormal columns (off by {off:.1e}): make a point with "
                    "FixedRank.from_factors(left, right)"
                )
        U = backend.asarray(X.U, dtype)
        V = U if X.hermitian else backend.asarray(X.V, dtype)  # a Hermitian point stays one
        return FixedRank(U, backend.asarray(X.s, np.zeros(0, dtype).real.dtype), V, backend)


class SemidefiniteManifold(FixedRankManifold):
    """Hermitian positive semidefinite matrices of rank r, as :class:`FixedRank` points with one factor for both sides.

    A model with this manifold has Hermitian gradients: ``A* p`` is Hermitian for real p. Tangent vectors, steps and transports
    of Hermitian points keep one factor for both sides as well, at half the work.

    Examples
    --------
    >>> SEMIDEFINITE.dof((30, 30), 2, float), SEMIDEFINITE.dof((30, 30), 2, complex)
    (59, 116)
    """

    hermitian = True

    def check_rank(self, rank: Any, shape: tuple[int, ...]) -> int:
        if shape[0] != shape[1]:
            raise ParameterError("shape", f"must be square for a Hermitian matrix, got {shape[0]} x {shape[1]}")
        return super().check_rank(rank, shape)

    def dof(self, shape: tuple[int, ...], rank: int, dtype: Any) -> int:
        n = shape[0]
        return 2 * n * rank - rank**2 if np.dtype(dtype).kind == "c" else n * rank - rank * (rank - 1) // 2

    def zero(self, shape: tuple[int, ...], rank: int, dtype: Any, backend: Arrays) -> FixedRank:
        X = super().zero(shape, rank, dtype, backend)
        return FixedRank(X.U, X.s, X.U, backend)

    def check_point(self, X: Any, shape: tuple[int, ...], rank: int, dtype: Any, backend: Arrays) -> FixedRank:
        return self.nearest(super().check_point(X, shape, rank, dtype, backend))

    def nearest(self, X: FixedRank, rank: int | None = None) -> FixedRank:
        rank = X.rank if rank is None else rank
        if X.hermitian and rank == X.rank:
            return X
        backend = X.backend
        basis = backend.orthonormalize(backend.concat([X.U, X.V]))
        left, right = backend.gram(basis, X.U), backend.gram(basis, X.V)
        core = (left * backend.small(X.s)) @ right.conj().T
        values, vectors = backend.eigh((core + core.conj().T) / 2)
        s, (U,) = values[:rank], backend.asarrays(backend.product(basis, vectors[:, :rank]))
        return FixedRank(U, (s * (s > 0)).astype(X.real_dtype), U, backend)


FIXED_RANK, SEMIDEFINITE = FixedRankManifold(), SemidefiniteManifold()
