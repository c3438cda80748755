"""Manifold of Hermitian positive semidefinite matrices of fixed rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import Arrays
from ..common.checks import ParameterError
from .manifold import FixedRankManifold
from .point import FixedRank


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


SEMIDEFINITE = SemidefiniteManifold()
