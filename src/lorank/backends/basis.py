"""An orthonormal basis that grows."""

from __future__ import annotations

from typing import Any

from .protocol import Array, Arrays


class Basis:
    """Orthonormal columns that grow by blocks."""

    def __init__(self, backend: Arrays, n: int, width: int, dtype: Any) -> None:
        self.backend, self._all, self._start, self._end = backend, backend.zeros((n, width), dtype), 0, 0

    @property
    def _columns(self) -> Array:
        return self._all[:, : self._end]

    @property
    def last(self) -> Array:
        """The block that came last."""
        return self._all[:, self._start : self._end]

    def append(self, q: Array) -> None:
        self._start, self._end = self._end, self._end + q.shape[1]
        self.last[...] = q

    def without(self, y: Array) -> tuple[Array, Array]:
        """``y`` without its part in the span of the basis, and the coefficients of that part."""
        return self.backend.without(self._columns, y)

    def extend(self, y: Array) -> Array:
        """Append an orthonormal q with ``y = q k``, for y orthogonal to the basis; returns k."""
        extended = self.backend.extend_basis(self._columns, y)
        if extended is None:  # dependent columns: where k is zero, q may be anything that is orthogonal to the rest
            q, k = self.backend.qr(y)
            q, change = self.backend.qr(self.backend.without(self._columns, q)[0])
            extended = q, change @ k
        self.append(extended[0])
        return extended[1]

    def product(self, p: Array) -> Array:
        """The basis times a small p."""
        return self.backend.product(self._columns, p)

    def restart(self, q: Array) -> None:
        """Begin again with these columns."""
        self._end = 0
        self.append(q)

    def first(self, count: int) -> Array:
        """A copy of the first columns."""
        return self.backend.copy(self._all[:, :count])
