"""Tangent vectors of the fixed-rank manifold, the Riemannian gradient in a metric, transport and retraction."""

from __future__ import annotations

import functools
import math
from typing import Protocol

import numpy as np

from ..backends import Array, Arrays
from .point import FixedRank
from .weights import DiagonalWeight, Weight, Weights


class Cotangent(Protocol):
    """An ambient gradient G at ``X = U diag(s) V^H``, by the three products that its projection needs."""

    @property
    def GV(self) -> Array:
        """``G V``, n1 x r."""

    @property
    def GhU(self) -> Array:
        """``G^H U``, n2 x r."""

    @property
    def core(self) -> Array:
        """``U^H G V``, r x r."""


class Tangent:
    """``xi = U M V^H + Up V^H + U Vp^H`` with ``U^H Up = 0`` and ``V^H Vp = 0``.

    Parameters
    ----------
    X : FixedRank
        The foot point.
    M : (r, r) array
    Up : (n1, r) array
    Vp : (n2, r) array
    """

    def __init__(self, X: FixedRank, M: Array, Up: Array, Vp: Array) -> None:
        self.X, self.M, self.Up, self.Vp = X, M, Up, Vp

    @classmethod
    def project(
        cls, X: FixedRank, left: Array, right: Array, core: Array | None = None, *, inner: Array | None = None
    ) -> Tangent:
        """The tangent vector ``left V^H + U right^H - U core V^H`` in normal form; ``inner`` is ``U^H left`` if known."""
        minus, one_side = X.backend.minus, X.hermitian and right is left
        wanted = [] if inner is not None else [(X.U, left)]
        found = X.backend.gram_pairs(wanted if one_side else [*wanted, (X.V, right)])
        a = found[0] if inner is None else inner
        Up = minus(left, X.U, a)
        b, Vp = (a, Up) if one_side else (found[-1], None)
        M = a + b.conj().T
        return cls(X, M if core is None else M - core, Up, minus(right, X.V, b) if Vp is None else Vp)

    @property
    def hermitian(self) -> bool:
        """Whether the vector and its point are Hermitian and store one factor for both sides."""
        return self.X.hermitian and self.Vp is self.Up

    def __mul__(self, c: float) -> Tangent:
        c = float(c)  # a NumPy scalar would turn single precision into double
        Up = c * self.Up
        return Tangent(self.X, c * self.M, Up, Up if self.hermitian else c * self.Vp)

    __rmul__ = __mul__

    def __add__(self, other: Tangent) -> Tangent:
        Up = self.Up + other.Up
        return Tangent(self.X, self.M + other.M, Up, Up if self.hermitian and other.hermitian else self.Vp + other.Vp)

    def __sub__(self, other: Tangent) -> Tangent:
        Up = self.Up - other.Up
        return Tangent(self.X, self.M - other.M, Up, Up if self.hermitian and other.hermitian else self.Vp - other.Vp)

    def __neg__(self) -> Tangent:
        return -1.0 * self

    def computed(self) -> Tangent:
        """The vector with Up and Vp evaluated, for backends with lazy sums, which would grow from step to step."""
        Up, Vp = self.X.backend.asarrays(self.Up, self.Vp)
        return Tangent(self.X, self.M, Up, Up if self.hermitian else Vp)

    def norm(self) -> float:
        """Frobenius norm."""
        return math.hypot(*self.X.backend.norms([self.M, self.Up, self.Vp]))

    def inner(self, G: Cotangent) -> float:
        """``Re <G, xi>``: the slope along xi where G is the gradient."""
        a, b, c = self.X.backend.inners([(G.core, self.M), (G.GV, self.Up), (G.GhU, self.Vp)])
        return a + b + c

    def blocks(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Two pairs (left, right) with ``xi = left_1 right_1^H + left_2 right_2^H``."""
        X = self.X
        return (X.U, X.backend.minus(self.Vp, X.V, -self.M.conj().T)), (self.Up, X.V)

    def factors(self) -> tuple[Array, Array]:
        """``left`` (n1 x 2r) and ``right`` (n2 x 2r) with ``xi = left right^H``."""
        (l1, r1), (l2, r2) = self.blocks()
        return self.X.backend.concat([l1, l2]), self.X.backend.concat([r1, r2])

    def to_dense(self) -> Array:
        left, right = self.factors()
        return left @ right.conj().T

    @functools.cached_property
    def bases(self) -> tuple[Array, Array, Array, Array] | None:
        """Orthonormal Q2, K2, Q1, K1 with ``Up = Q2 K2``, ``Vp = Q1 K1``; cached for other step lengths."""
        pairs = [(self.X.U, self.Up)] if self.hermitian else [(self.X.U, self.Up), (self.X.V, self.Vp)]
        found = self.X.backend.extend_bases(pairs)
        return None if found is None else (*found[0], *found[-1])


def riemannian_gradient(X: FixedRank, G: Cotangent, weights: Weights) -> Tangent:
    """The gradient in the metric ``<Z, Y>_W = <L Z R, Y>``: the paper's projection of ``L^-1 G R^-1``.

    With ``M1 = U^H L U`` and ``M2 = V^H R V``::

        xi = U M1^-1 (G^H U)^H R^-1 + L^-1 (G V) M2^-1 V^H - U M1^-1 (U^H G V) M2^-1 V^H

    Without the last term for weights that are ``additive``.
    """
    if weights.inverse is not None:
        return weights.inverse.solve(X, G.GV, G.GhU)
    core, weight_left, weight_right = G.core, weights.mode(0), weights.mode(1)
    if X.hermitian and G.GhU is G.GV and weight_right is weight_left:  # one factor, one side
        m = _inverse_gram(X, weight_left, X.U)
        both = weight_left.solve(G.GV)
        core, both = (core, both) if m is None else (m @ core @ m, X.backend.product(both, m))
        return Tangent.project(X, both, both, None if weights.additive else core)
    m1, m2 = _inverse_grams(X, weight_left, weight_right)
    left, right = weight_left.solve(G.GV), weight_right.solve(G.GhU)
    if m1 is not None:
        core, right = m1 @ core, X.backend.product(right, m1)
    if m2 is not None:
        core, left = core @ m2, X.backend.product(left, m2)
    return Tangent.project(X, left, right, None if weights.additive else core, inner=core if left is G.GV else None)


def _inverse_grams(X: FixedRank, left: Weight, right: Weight) -> tuple[Array | None, Array | None]:
    """The inverses for both sides, batched for diagonal weights: one transfer from a device instead of two."""
    if isinstance(left, DiagonalWeight) and isinstance(right, DiagonalWeight):
        m1, m2 = X.backend.gram_pairs([(X.U, left.apply(X.U)), (X.V, right.apply(X.V))])
        return X.backend.inverse(m1), X.backend.inverse(m2)
    return _inverse_gram(X, left, X.U), _inverse_gram(X, right, X.V)


def _inverse_gram(X: FixedRank, weight: Weight, u: Array) -> Array | None:
    """``(u^H W u)^-1``; None where that is the identity."""
    m = weight.gram(X.backend, u)
    return None if m is None else X.backend.inverse(m)


class FixedRankTransport:
    """Transport from the tangent space at one point to that at another, by orthogonal projection.

    Only the last step of it uses tall arrays: with ``a = U^H U_o``, ``b = U^H Up``, ``e = V_o^H V`` and ``f = Vp^H V`` (o for
    the old point), ``xi V = U_o (f + M e) + Up e`` and ``xi^H U = Vp a^H + V_o (M^H a^H + b^H)``.
    """

    def __init__(self, old: FixedRank, X: FixedRank) -> None:
        self.X, self.a, self.e = X, X.backend.gram(X.U, old.U), X.backend.gram(old.V, X.V)

    def vector(self, xi: Tangent) -> Tangent:
        """The vector xi, transported."""
        X, old, a, e = self.X, xi.X, self.a, self.e
        gram, plus, minus = X.backend.gram, X.backend.plus, X.backend.minus
        b, f = gram(X.U, xi.Up), gram(xi.Vp, X.V) + xi.M @ e
        core = a @ f + b @ e  # U^H xi V
        Up = minus(plus(old.U, f, xi.Up, e), X.U, core)
        if xi.hermitian and X.hermitian:
            return Tangent(X, core, Up, Up)
        a, b = a.conj().T, b.conj().T
        return Tangent(X, core, Up, minus(plus(xi.Vp, a, old.V, xi.M.conj().T @ a + b), X.V, core.conj().T))

    def slope(self, xi: Tangent, G: Cotangent) -> float:
        """``vector(xi).inner(G)`` from small matrices: ``<G, P xi> = <P G, xi>`` for the projection P at X."""
        X, old, a, e, gram = self.X, xi.X, self.a, self.e, self.X.backend.gram
        g = gram(old.V, G.GhU)
        f, h = gram(xi.Vp, X.V) + xi.M @ e, gram(xi.Vp, G.GhU) + xi.M @ g
        b = gram(X.U, xi.Up)
        c, d = gram(G.GV, old.U), gram(G.GV, xi.Up)
        both = _trace(a, h) + _trace(b, g) + _trace(c, f) + _trace(d, e)
        return both - _trace(G.core.conj().T, a @ f + b @ e)


def _trace(a: Array, b: Array) -> float:
    """``Re tr(a b)`` of small matrices."""
    return float(np.vdot(a.conj().T, b).real)


def retract(xi: Tangent, alpha: float) -> FixedRank:
    """``H_r(X + alpha xi)``: the best approximation of rank r, by two thin QRs and an SVD of a 2r x 2r matrix.

    For Hermitian vectors at Hermitian points, the best positive semidefinite approximation by one QR and an eigendecomposition.
    """
    X, backend, r, alpha = xi.X, xi.X.backend, xi.X.rank, float(alpha)
    core = backend.add_diagonal(alpha * xi.M, backend.small(X.s))
    if (bases := xi.bases) is None:
        return _retract_safely(xi, core, alpha)
    Q2, K2, Q1, K1 = bases
    p, s, q = _leading(backend, _bordered(core, alpha * K1.conj().T, alpha * K2), r, xi.hermitian)
    U = backend.plus(X.U, p[:r], Q2, p[r:])
    return FixedRank(U, s, U if xi.hermitian else backend.plus(X.V, q[:r], Q1, q[r:]), backend)


def retract_orthographic(xi: Tangent, alpha: float) -> FixedRank:
    """``(X + alpha xi) V C^-1 U^H (X + alpha xi)`` with ``C = U^H (X + alpha xi) V``: orthographic retraction, by two thin QRs.

    The difference to ``X + alpha xi`` is orthogonal to the tangent space at X. Directions in which C is singular are dropped.
    """
    X, backend, alpha = xi.X, xi.X.backend, float(alpha)
    core = backend.add_diagonal(alpha * xi.M, backend.small(X.s))
    inverse = np.linalg.pinv(core, rcond=10 * len(core) * float(np.finfo(core.dtype).eps)).astype(core.dtype)
    left = X.U + backend.product(alpha * xi.Up, inverse)  # (X + alpha xi) V C^-1
    right = backend.product(X.V, core.conj().T) + alpha * xi.Vp
    return FixedRank.from_factors(left, right, backend=backend)


def _retract_safely(xi: Tangent, core: Array, alpha: float) -> FixedRank:
    """The same by QR of ``[U, Up]`` and ``[V, Vp]``, stable for linearly dependent columns."""
    X, backend, r = xi.X, xi.X.backend, xi.X.rank
    q2, k2 = backend.qr(backend.concat([X.U, xi.Up]))
    q1, k1 = (q2, k2) if xi.hermitian else backend.qr(backend.concat([X.V, xi.Vp]))
    off = alpha * np.eye(r, dtype=core.dtype)
    p, s, q = _leading(backend, k2 @ _bordered(core, off, off) @ k1.conj().T, r, xi.hermitian)
    U = backend.product(q2, p)
    return FixedRank(U, s, U if xi.hermitian else backend.product(q1, q), backend)


def _bordered(core: Array, right: Array, below: Array) -> Array:
    """The 2r x 2r matrix of these blocks and zeros."""
    r = len(core)
    middle = np.zeros((2 * r, 2 * r), core.dtype)
    middle[:r, :r], middle[:r, r:], middle[r:, :r] = core, right, below
    return middle


def _leading(backend: Arrays, a: Array, rank: int, hermitian: bool) -> tuple[Array, Array, Array]:
    """The leading singular triples of a small matrix; of a Hermitian one eigenpairs, with zero for negative eigenvalues."""
    if not hermitian:
        p, s, q = backend.svd(a)
        return p[:, :rank], s[:rank], q[:, :rank]
    values, vectors = backend.eigh(a)
    s, p = values[:rank], vectors[:, :rank]
    return p, s * (s > 0), p
