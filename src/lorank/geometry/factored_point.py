"""Low-rank point with a lazily computed SVD."""

from __future__ import annotations

from typing import Any

from ..backends import Array, Arrays
from .point import FixedRank


class FactoredPoint(FixedRank):
    """The point ``left right^H``, whose singular value decomposition is computed on first use.

    Solvers with plain factors create such a point in each iteration, and mostly only the last one is decomposed.

    Parameters
    ----------
    left, right : (n1, r) and (n2, r) arrays
        Not copied; they must not change afterwards.
    backend : Arrays
        Backend of the arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> from lorank.geometry.factored_point import FactoredPoint
    >>> X = FactoredPoint(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]), lr.FixedRank.zero((2, 2), 1, float).backend)
    >>> X.shape, float(X.s[0].round(6))
    ((2, 2), 11.18034)
    """

    __slots__ = ("_sides",)

    def __init__(self, left: Array, right: Array, backend: Arrays) -> None:
        self.backend = backend
        self._sides: tuple[Array, Array] | None = (left, right)

    def __getattr__(self, name: str) -> Any:  # called for empty slots only
        if name not in ("U", "s", "V"):
            raise AttributeError(name)
        sides = self._sides
        if sides is not None:  # otherwise another thread has computed them
            X = FixedRank.from_factors(*sides, backend=self.backend)
            self.U, self.s, self.V = X.U, X.s, X.V
            self._sides = None  # last, so that other threads see all three
        return object.__getattribute__(self, name)

    def __reduce__(self) -> Any:
        return FixedRank, (self.U, self.s, self.V, self.backend)

    @property
    def hermitian(self) -> bool:
        return False  # without computing the decomposition

    @property
    def shape(self) -> tuple[int, int]:
        left, right = self._sides or (self.U, self.V)
        return left.shape[0], right.shape[0]

    @property
    def rank(self) -> int:
        left, right = self._sides or (self.U, self.V)
        return int(min(left.shape[1], left.shape[0], right.shape[0]))  # wider factors have no more singular values
