"""A point known by factors that nobody has made orthonormal yet."""

from __future__ import annotations

from typing import Any

from ..backends import Array, Arrays
from .point import FixedRank


class FactoredPoint(FixedRank):
    """``left right^H``, whose singular values and vectors are found when somebody asks for them.

    Solvers that work with plain factors make such a point in each iteration, and only the last one is mostly looked at.

    Parameters
    ----------
    left, right : (n1, r) and (n2, r) arrays
        Not to be changed afterwards.
    backend : Arrays

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

    def __getattr__(self, name: str) -> Any:  # of slots that are still empty
        if name not in ("U", "s", "V"):
            raise AttributeError(name)
        sides = self._sides
        if sides is not None:  # else another thread has found them meanwhile
            X = FixedRank.from_factors(*sides, backend=self.backend)
            self.U, self.s, self.V = X.U, X.s, X.V
            self._sides = None  # last: whoever sees that finds the others
        return object.__getattribute__(self, name)

    def __reduce__(self) -> Any:
        return FixedRank, (self.U, self.s, self.V, self.backend)

    @property
    def shape(self) -> tuple[int, int]:
        left, right = self._sides or (self.U, self.V)
        return left.shape[0], right.shape[0]

    @property
    def rank(self) -> int:
        left, right = self._sides or (self.U, self.V)
        return int(min(left.shape[1], left.shape[0], right.shape[0]))  # wider factors than that have no more singular values
