"""Metrics on a tangent space, one weight per mode: for matrices ``<Z, Y>_W = <L Z R, Y>`` with L on rows and R on columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..backends import Array, Arrays

if TYPE_CHECKING:
    from .block_weights import BlockInverses


class Weight(Protocol):
    """A Hermitian positive definite weight W on C^n."""

    def gram(self, backend: Arrays, u: Array) -> Array | None:
        """``u^H W u``; None where it is the identity for orthonormal u."""

    def apply(self, a: Array) -> Array:
        """``W a``."""

    def solve(self, a: Array) -> Array:
        """``W^-1 a``."""


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
    modes : tuple of Weight
        One weight per mode, for matrices the paper's L^(1/4) and R^(1/4); empty for the Euclidean metric.
    low, high : float
        Bounds on products of one weight of each mode, the paper's nu and mu; units of step sizes.
    inverse : BlockInverses, optional
        The inverse of a metric that is not a product of weights.
    additive : bool
        The inverse of the metric on matrices is the sum of its parts on ``{L V^H}`` and ``{U R^H}``, as in the quotient metric
        (:class:`~lorank.metrics.Quotient`). Other manifolds ignore it.
    """

    modes: tuple[Weight, ...] = ()
    low: float = 1.0
    high: float = 1.0
    inverse: BlockInverses | None = None
    additive: bool = False

    def mode(self, k: int) -> Weight:
        """The weight of mode k: 0 for rows, 1 for columns."""
        return self.modes[k] if self.modes else NO_WEIGHT
