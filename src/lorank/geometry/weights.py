"""Metrics ``<Z, Y>_W = <L Z R, Y>`` on a tangent space: a weight L on rows and a weight R on columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..backends import Array, Arrays


class Weight(Protocol):
    """A Hermitian positive definite weight W on C^n."""

    def gram(self, backend: Arrays, u: Array) -> Array | None:
        """``u^H W u``; None where it is the identity for orthonormal u."""
        ...

    def apply(self, a: Array) -> Array:
        """``W a``."""
        ...

    def solve(self, a: Array) -> Array:
        """``W^-1 a``."""
        ...


@dataclass(frozen=True)
class Identity:
    """The identity."""

    def gram(self, backend: Arrays, u: Array) -> Array | None:
        return None

    def apply(self, a: Array) -> Array:
        return a

    def solve(self, a: Array) -> Array:
        return a


NO_WEIGHT = Identity()


@dataclass(frozen=True)
class DiagonalWeight:
    """``W = diag(w)``."""

    w: Array  # (n,) positive

    def gram(self, backend: Arrays, u: Array) -> Array | None:
        return backend.gram(u, self.apply(u))

    def apply(self, a: Array) -> Array:
        return a * self.w[:, None]

    def solve(self, a: Array) -> Array:
        return a / self.w[:, None]


@dataclass(frozen=True)
class DenseWeight:
    """A full matrix W, with its inverse."""

    w: Array  # (n, n)
    inverse: Array  # (n, n)

    def gram(self, backend: Arrays, u: Array) -> Array | None:
        return backend.gram(u, self.apply(u))

    def apply(self, a: Array) -> Array:
        return self.w @ a

    def solve(self, a: Array) -> Array:
        return self.inverse @ a


@dataclass(frozen=True)
class Weights:
    """A metric at a point.

    Attributes
    ----------
    left, right : Weight
        The paper's L^(1/4) and R^(1/4).
    low, high : float
        Bounds on products of a left and a right weight, the paper's nu and mu; units of step sizes.
    """

    left: Weight = NO_WEIGHT
    right: Weight = NO_WEIGHT
    low: float = 1.0
    high: float = 1.0
