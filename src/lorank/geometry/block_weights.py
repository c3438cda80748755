"""A small matrix for each row and each column: the finest metric that is still cheap to invert."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..backends import Array
from .point import FixedRank
from .tangent import Cotangent, Tangent
from .weights import DiagonalWeight, Weights


@dataclass(frozen=True)
class BlockInverses:
    """What :meth:`Problem.blocks` says of A*A near a point, inverted and applied to tangent vectors.

    The tangent space is the sum of the spaces ``{L V^H}`` and ``{U R^H}``. On each of them A*A is a small matrix for each row
    of L, or of R: the normal equations of alternating least squares. Both are solved and the solutions added up (additive
    Schwarz): ``xi -> (xi V) B^-1 V^H + U ((xi^H U) C^-1)^H``. Hermitian and positive definite, as sums of such are, and never
    more than twice the inverse of A*A, so only what the two spaces do not see of each other is left to iterations.

    Attributes
    ----------
    at : FixedRank
        Where the blocks were taken.
    rows, cols : functions of (n1, r) and (n2, r) arrays
        Each row of the array times the inverse of its own block (:meth:`Backend.block_solver`).
    scale : float
        The unit that blocks are measured in.
    """

    at: FixedRank
    rows: Callable[[Array], Array]
    cols: Callable[[Array], Array]
    scale: float = 1.0

    def solve(self, X: FixedRank, left: Array, right: Array) -> Tangent:
        """``left B^-1 V^H + U (right C^-1)^H`` for ``left = xi V`` and ``right = xi^H U`` at X, there or near there.

        Elsewhere the blocks are carried along: with ``V = V_o Q`` they become ``Q^H B Q``.
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
        """How far the singular vectors at X have turned away from those where the blocks were taken: the sine of an angle."""
        turns = X.backend.gram_pairs([(self.at.U, X.U), (self.at.V, X.V)])
        least = min(np.linalg.norm(turn, -2) for turn in turns)
        return float(np.sqrt(max(0.0, 1 - float(least) ** 2)))


@dataclass(frozen=True)
class ExpectedInverses:
    """The same with the blocks that are expected from the numbers of observations alone, n r numbers in place of n r^2.

    Where entries are drawn with frequencies ``p_i q_j``, the block of row i is ``l_i V^H diag(rho) V`` on average, l and rho
    the weights of :class:`~lorank.metrics.Counts`, in units of the operator scale. With a damping D, one r x r
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
        """For the damping ``damping_j`` of column j of ``xi V`` and of ``xi^H U``; None for other than diagonal weights."""
        left, right = weights.left, weights.right
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
        """As :meth:`BlockInverses.solve`, at the point that they were made for."""
        product = X.backend.product
        sides = ((left, *self.rows), (right, *self.cols))
        return Tangent.project(X, *(product(product(a, basis) * inverse, basis.conj().T) for a, basis, inverse in sides))


@dataclass(frozen=True)
class BlockWeights(Weights):
    """A metric that is known by its inverse, block by block."""

    inverses: BlockInverses | None = None

    def gradient(self, X: FixedRank, G: Cotangent) -> Tangent:
        """The gradient in this metric."""
        assert self.inverses is not None
        return self.inverses.solve(X, G.GV, G.GhU)
