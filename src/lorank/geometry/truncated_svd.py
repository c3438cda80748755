"""Truncated singular value decomposition of an implicit matrix, by a restarted block Krylov method."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..backends import Array, Arrays
from .point import FixedRank

Product = Callable[[Array], Array]


class ImplicitMatrix(NamedTuple):
    """A matrix W given by its products with thin arrays, ``W v`` and ``W^H u``."""

    times: Product
    adjoint_times: Product

    def __sub__(self, other: ImplicitMatrix) -> ImplicitMatrix:
        return ImplicitMatrix(
            lambda v: self.times(v) - other.times(v), lambda u: self.adjoint_times(u) - other.adjoint_times(u)
        )

    def scaled(self, rows: Array, cols: Array) -> ImplicitMatrix:
        """``diag(rows) W diag(cols)`` for real (n1, 1) and (n2, 1) arrays."""
        return ImplicitMatrix(lambda v: rows * self.times(cols * v), lambda u: cols * self.adjoint_times(rows * u))


def truncated_svd(
    times: Product,
    adjoint_times: Product,
    start: Array,
    rank: int,
    backend: Arrays,
    *,
    tol: float = 1e-8,
    depth: int = 2,
    restarts: int = 20,
) -> FixedRank:
    """The ``rank`` leading singular triples of a matrix W.

    Parameters
    ----------
    times, adjoint_times : callables
        ``W v`` and ``W^H u`` for thin v, u.
    start : (n2, b) array, b >= rank
        Initial right vectors: the closer their span to the leading right singular vectors, the fewer products.
    tol : float
        Converged when ``|W^H u - sigma v| <= tol sigma_1`` for all triples together.
    depth : int
        Krylov blocks added to the start before each Rayleigh-Ritz step.
    restarts : int
        Largest number of Rayleigh-Ritz steps. Clustered trailing vectors may not have converged by then, which does not affect
        the approximation error.

    Notes
    -----
    Block Golub-Kahan bidiagonalization with full reorthogonalization and thick restarts: ``W V = U T`` with orthonormal
    U, V of ``b (depth + 1)`` columns and a small T, whose singular triples give those of W.
    """
    b = start.shape[1]
    v = backend.orthonormalize(start)
    y = times(v)
    dtype = backend.dtype(y)
    rounding = float(np.finfo(dtype).eps)
    tol = max(tol, 10 * rounding)  # smaller tolerances are below rounding
    n1, n2, width = y.shape[0], v.shape[0], b * (depth + 1)
    if n2 <= width:  # no wider than the bases: a direct SVD
        return _thin_svd(times(backend.eye(n2, dtype)), rank, backend)
    if n1 <= width:
        return _thin_svd(adjoint_times(backend.eye(n1, dtype)), rank, backend).H
    V, U = backend.basis(n2, width, backend.dtype(v)), backend.basis(n1, width, dtype)
    T = np.zeros((width, width), dtype)
    V.append(v)
    u, T[:b, :b] = backend.qr(y)
    U.append(u)
    del v, y, u
    for _ in range(restarts):
        end = b
        z = V.project_out(adjoint_times(U.last))[0]
        while end < width and backend.norm(z) > 4 * rounding * backend.norm(T[:end, :end]):
            old, new = slice(0, end), slice(end, end + b)
            V.extend(z)
            y, T[old, new] = U.project_out(times(V.last))
            T[new, new] = U.extend(y)
            del y
            end += b
            z = V.project_out(adjoint_times(U.last))[0]
        p, s, q = backend.svd(T[:end, :end])
        # W^H u - sigma v = z p_last, since W^H of all blocks but the last lies in the span of V
        off = backend.norm(backend.product(z, p[end - b :, :rank]))
        u, v = backend.asarrays(U.product(p[:, :b]), V.product(q[:, :b]))
        U.restart(u)
        V.restart(v)
        T[...] = 0
        backend.add_diagonal(T[:b, :b], s[:b])
        if end == b or not off > tol * s[0]:
            break
    return FixedRank(U.first(rank), s[:rank], V.first(rank), backend)


def _thin_svd(a: Array, rank: int, backend: Arrays) -> FixedRank:
    q, k = backend.qr(a)
    u, s, v = backend.svd(k)
    return FixedRank(backend.product(q, u[:, :rank]), s[:rank], backend.asarray(v[:, :rank]), backend)
