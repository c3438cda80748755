"""Block-diagonal metrics: one r x r matrix for each row and each column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..backends import Array
from .point import FixedRank
from .tangent import Tangent
from .weights import DiagonalWeight, Weights


@dataclass(frozen=True)
class BlockInverses:
    """Additive Schwarz preconditioner for ``A* A`` on a tangent space, from its diagonal blocks near a point.

    The tangent space is the sum of the spaces ``{L V^H}`` and ``{U R^H}``. On each of them ``A* A`` is one small matrix per
    row of L or of R, the normal equations of alternating least squares. The preconditioner is the sum of both inverses,
    ``xi -> (xi V) B^-1 V^H + U ((xi^H U) C^-1)^H``. It is Hermitian, positive definite and at most twice the inverse of
    ``A* A``.

    Attributes
    ----------
    at : FixedRank
        The point of the blocks.
    rows, cols : functions of (n1, r) and (n2, r) arrays
        Each row of the array times the inverse of its block (:meth:`Backend.block_solver`).
    scale : float
        Factor on the inverse.
    """

    at: FixedRank
    rows: Callable[[Array], Array]
    cols: Callable[[Array], Array]
    scale: float = 1.0

    def solve(self, X: FixedRank, left: Array, right: Array) -> Tangent:
        """``left B^-1 V^H + U (right C^-1)^H`` for ``left = xi V`` and ``right = xi^H U`` at a point X near that of the blocks.

        The blocks are transformed to X: with ``V = V_o Q`` they become ``Q^H B Q``.
        """
        sides = ((left, self.rows, X.V, self.at.V), (right, self.cols, X.U, self.at.U))
        return Tangent.project(X, *(self.scale * self._side(X, *side) for side in sides))

    @staticmethod
    def _side(X: FixedRank, a: Array, solve: Callable[[Array], Array], basis: Array, old: Array) -> Array:
        if basis is old:
            return solve(a)
        q = X.backend.inverse(X.backend.gram(old, basis))
        return X.backend.product(solve(X.backend.product(a, q)), q.conj().T)

    def drift(self, X: FixedRank) -> float:
        """Sine of the largest angle between the singular subspaces at X and at the point of the blocks."""
        turns = X.backend.gram_pairs([(self.at.U, X.U), (self.at.V, X.V)])
        least = min(np.linalg.norm(turn, -2) for turn in turns)
        return float(np.sqrt(max(0.0, 1 - float(least) ** 2)))


@dataclass(frozen=True)
class ExpectedInverses:
    """The same preconditioner with the expectation of the blocks, given the numbers of observations: n r numbers, not n r^2.

    Where entries are drawn with frequencies ``p_i q_j``, the block of row i has the mean ``l_i V^H diag(rho) V``, l and rho the
    weights of :class:`~lorank.metrics.Counts`, in units of the operator scale. With a damping D, one r x r
    eigendecomposition serves all rows: ``l_i M + D = S^-H (l_i + delta) S^-1``.

    Attributes
    ----------
    rows, cols : (basis, inverses)
        S, and the (n, r) array of ``1 / (l_i + delta_k)``.
    """

    rows: tuple[Array, Array]
    cols: tuple[Array, Array]

    @classmethod
    def of(cls, X: FixedRank, weights: Weights, damping: np.ndarray) -> ExpectedInverses | None:
        """With the damping ``damping_j`` of column j of ``xi V`` and of ``xi^H U``; None for weights that are not diagonal."""
        left, right = weights.mode(0), weights.mode(1)
        if not (isinstance(left, DiagonalWeight) and isinstance(right, DiagonalWeight)):
            return None
        backend = X.backend

        def side(own: DiagonalWeight, other: DiagonalWeight, basis: Array) -> tuple[Array, Array]:
            gram = np.asarray(other.gram(backend, basis), np.result_type(X.dtype, np.float64))
            root = np.linalg.inv(np.linalg.cholesky(gram)).conj().T  # C^-H
            delta, q = np.linalg.eigh((root.conj().T * damping) @ root)
            delta = backend.asarray(np.maximum(delta, 0).astype(X.real_dtype))
            return (root @ q).astype(X.dtype), 1 / (own.w[:, None] + delta[None, :])

        return cls(side(left, right, X.V), side(right, left, X.U))

    def solve(self, X: FixedRank, left: Array, right: Array) -> Tangent:
        """As :meth:`BlockInverses.solve`, at the point of construction."""
        product = X.backend.product
        sides = ((left, *self.rows), (right, *self.cols))
        return Tangent.project(X, *(product(product(a, basis) * inverse, basis.conj().T) for a, basis, inverse in sides))
