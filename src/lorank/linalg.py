"""Truncated singular value decomposition of a matrix known by its products, by a restarted block Krylov method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .backends.dense import Array, Dense
from .geometry import FixedRank

Product = Callable[[Array], Array]


def truncated_svd(
    times: Product,
    adjoint_times: Product,
    start: Array,
    rank: int,
    backend: Dense,
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
        Where to begin: the closer its span to the leading right singular vectors, the fewer products.
    tol : float
        Ends when ``|W^H u - sigma v| <= tol sigma_1`` for the wanted triples together.
    depth : int
        Krylov blocks added to the start before each Rayleigh-Ritz step.
    restarts : int
        The most Rayleigh-Ritz steps. Clustered trailing values may not have settled by then, which costs nothing in the
        approximation error.

    Notes
    -----
    Block Golub-Kahan bidiagonalisation with full reorthogonalisation and thick restarts: ``W V = U T`` with orthonormal
    U, V of ``b (depth + 1)`` columns and a small T, whose singular triples give those of W.
    """
    b = start.shape[1]
    v = backend.orthonormalize(start)
    y = times(v)
    dtype = backend.dtype(y)
    rounding = float(np.finfo(dtype).eps)
    tol = max(tol, 10 * rounding)  # further restarts would only add more of it
    n1, n2, width = y.shape[0], v.shape[0], b * (depth + 1)
    if n2 <= width:  # as thin as the bases would be: no need to iterate
        return _thin_svd(times(backend.eye(n2, dtype)), rank, backend)
    if n1 <= width:
        return _thin_svd(adjoint_times(backend.eye(n1, dtype)), rank, backend).H
    V, U = backend.zeros((n2, width), backend.dtype(v)), backend.zeros((n1, width), dtype)
    T = np.zeros((width, width), dtype)
    V[:, :b] = v
    U[:, :b], T[:b, :b] = backend.qr(y)
    del v, y
    for _ in range(restarts):
        end = b
        z = backend.without(V[:, :b], adjoint_times(U[:, :b]))[0]
        while end < width and backend.norm(z) > 4 * rounding * backend.norm(T[:end, :end]):
            old, new = slice(0, end), slice(end, end + b)
            V[:, new] = _orthonormal(backend, V[:, old], z)[0]
            y, T[old, new] = backend.without(U[:, old], times(V[:, new]))
            U[:, new], T[new, new] = _orthonormal(backend, U[:, old], y)
            del y
            end += b
            z = backend.without(V[:, :end], adjoint_times(U[:, new]))[0]
        p, s, q = backend.svd(T[:end, :end])
        # W^H u - sigma v = z p_last, since W^H of all blocks but the last lies in the span of V
        off = backend.norm(backend.product(z, p[end - b :, :rank]))
        U[:, :b], V[:, :b] = backend.settled(backend.product(U[:, :end], p[:, :b]), backend.product(V[:, :end], q[:, :b]))
        T[...] = 0
        backend.add_diagonal(T[:b, :b], s[:b])
        if end == b or not off > tol * s[0]:
            break
    U, V = (backend.copy(a[:, :rank]) for a in (U, V))
    return FixedRank(U, s[:rank], V, backend)


def _thin_svd(a: Array, rank: int, backend: Dense) -> FixedRank:
    q, k = backend.qr(a)
    u, s, v = backend.svd(k)
    (U,) = backend.settled(backend.product(q, u[:, :rank]))
    return FixedRank(U, s[:rank], backend.asarray(v[:, :rank]), backend)


def _orthonormal(backend: Dense, basis: Array, y: Array) -> tuple[Array, Array]:
    """``y = q k`` with q orthonormal and orthogonal to the basis, for y orthogonal to the basis."""
    extended = backend.extend_basis(basis, y)
    if extended is not None:
        return backend.settled(extended[0])[0], extended[1]
    q, k = backend.qr(y)  # dependent columns: where k is zero, q may be anything that is orthogonal to the rest
    q = backend.without(basis, q)[0]
    q, change = backend.qr(q)
    return q, change @ k
