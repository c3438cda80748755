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
    """
    block, v = start.shape[1], backend.orthonormalize(start)
    wv = times(v)
    for _ in range(restarts):
        bases, images = [v], [wv]
        for _ in range(depth):
            new = _orthogonal(backend, bases, adjoint_times(images[-1]))
            if new is None:  # the space is exhausted: what is there is exact
                break
            bases.append(new)
            images.append(times(new))
        basis, image = (bases[0], images[0]) if len(bases) == 1 else (backend.concat(bases), backend.concat(images))
        q, k = backend.qr(image)
        p, s, z = backend.svd(k)
        u, s, v = q @ p[:, :block], s[:block], basis @ z[:, :block]
        wv = u * s
        wu = adjoint_times(u[:, :rank])
        if len(bases) == 1 or not backend.norm(wu - v[:, :rank] * s[:rank]) > tol * s[0]:
            break
    return FixedRank(backend.asarray(u[:, :rank]), s[:rank], backend.asarray(v[:, :rank]), backend)


def _orthogonal(backend: Dense, bases: list[Array], y: Array) -> Array | None:
    """An orthonormal basis of y's part outside the bases; None where (numerically) nothing is left."""
    known = bases[0] if len(bases) == 1 else backend.concat(bases)
    if known.shape[0] < known.shape[1] + y.shape[1]:
        return None
    before = backend.norm(y)
    for _ in range(2):
        y = y - known @ backend.gram(known, y)
    if not backend.norm(y) > 100 * np.finfo(y.dtype).eps * before:
        return None
    extended = backend.extend_basis(known, y)
    if extended is not None:
        return extended[0]
    q = backend.qr(y)[0]  # dependent columns: take any completion, made orthogonal once more
    q = q - known @ backend.gram(known, q)
    return backend.qr(q)[0]
