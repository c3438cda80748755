"""What the models of recommendations share: who is similar to whom, and what speaks for an item."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..backends import Backend
from ..backends.top_k import top_columns


class Explanation(NamedTuple):
    """Why an item scores as it does: a user's own items, what speaks most for it first, and what each adds to the score."""

    items: np.ndarray
    contributions: np.ndarray
    score: float


def nearest(backend: Backend, factors: np.ndarray, at: np.ndarray, n: int, never: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The n others whose factors point in the same direction as those at some places, and the cosines of the angles.

    Parameters
    ----------
    backend : Backend
    factors : (m, k) array
    at : (p,) integer array
    n : int
    never : (m,) bool array
        Who is left out.

    Returns
    -------
    places, cosines : (p, n) arrays
        -1 and nan where there are no more.
    """
    length = np.sqrt(np.einsum("ij,ij->i", factors, factors, dtype=np.float64))
    unit = (factors / np.where(length > 0, length, 1)[:, None]).astype(np.float32)
    itself = (np.arange(len(at) + 1), at)
    return top_columns(backend, backend.asarray(unit[at]), backend.asarray(unit), n, seen=itself, never=never)


def explanation(factors: np.ndarray, taken: np.ndarray, weights: np.ndarray, M: np.ndarray, item: int) -> Explanation:
    """What each of the items taken adds to the score of another, ``w_t y^T M^-1 y_t``, the largest first.

    Parameters
    ----------
    factors : (n2, k) array
        Of the items.
    taken : (m,) integer array
    weights : (m,) array
    M : (k, k) array
        The matrix of the user's normal equations.
    item : int
    """
    given = np.linalg.solve(M, factors[item].astype(float))
    parts = weights * (factors[taken].astype(float) @ given)
    order = np.argsort(-parts, kind="stable")
    return Explanation(taken[order], parts[order], float(parts.sum()))
