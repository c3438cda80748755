"""Linear item-to-item models: EASE, its low-rank form, and item neighborhoods.

With the matrix X of users and items, the scores of a user are ``x B`` with ``diag(B) = 0``: an item is predicted from the other
items of the user. EASE (Steck 2019) minimizes ``|X - X B|^2 + regularization |B|^2``, and has the closed form::

    P = (X^T X + regularization I)^-1,   B_ij = -P_ij / P_jj

For many items, the columns of B are restricted to the neighborhood of each item, or X^T X is replaced with a matrix of low
rank plus a diagonal. In the latter case, B is of low rank outside of its diagonal, as in ELSA (Vancura et al. 2022), and no
matrix of all pairs of items is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from ..backends import Backend, Observations
from ..geometry.truncated_svd import truncated_svd

BLOCK = 1 << 23  # numbers of a block of X^T X
NEIGHBORS, SHRINKAGE = 100, 10.0  # of item neighborhoods: items that predict an item, and the constant added to the norms
OVERSAMPLING = 8  # more singular vectors than needed are computed
SVD_TOL, SVD_RESTARTS = 1e-3, 4


@dataclass(frozen=True)
class ItemModel:
    """Matrix B of a linear item-to-item model: stored itself, or as ``left right^T`` without its diagonal.

    Attributes
    ----------
    weights : (n2, n2) array, CSR array or None
        B, with a diagonal of zeros.
    left, right : (n2, k) arrays or None
        Factors of B in place of ``weights``.
    """

    weights: Any = None
    left: np.ndarray | None = None
    right: np.ndarray | None = None

    @property
    def n_items(self) -> int:
        return len(self.left) if self.left is not None else int(self.weights.shape[0])

    def scores(self, X: scipy.sparse.csr_array) -> np.ndarray:
        """``X B`` as a dense array in single precision, for a block of users."""
        X = X.astype(np.float32)  # as the weights, which would be copied otherwise
        if self.left is None or self.right is None:
            found = X @ self.weights
            return found.toarray() if scipy.sparse.issparse(found) else np.asarray(found)
        found = (X @ self.left) @ self.right.T
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        found[rows, X.indices] -= X.data * np.einsum("ij,ij->i", self.left, self.right)[X.indices]
        return np.asarray(found)

    def column(self, item: int) -> np.ndarray:
        """Weights with which all items predict one item."""
        if self.left is None or self.right is None:
            found = self.weights[:, [item]]
            return np.asarray(found.toarray() if scipy.sparse.issparse(found) else found)[:, 0].astype(float)
        found = self.left @ self.right[item]
        found[item] = 0.0
        return found.astype(float)

    def grown(self, at: np.ndarray, n_items: int) -> ItemModel:
        """With more items, whose weights are zero; the old ones are at these positions."""
        if self.left is not None and self.right is not None:
            sides = [np.zeros((n_items, side.shape[1]), side.dtype) for side in (self.left, self.right)]
            for more, side in zip(sides, (self.left, self.right), strict=True):
                more[at] = side
            return ItemModel(left=sides[0], right=sides[1])
        if scipy.sparse.issparse(self.weights):
            coo = self.weights.tocoo()
            shape = (n_items, n_items)
            return ItemModel(scipy.sparse.csr_array((coo.data, (at[coo.row], at[coo.col])), shape))
        weights = np.zeros((n_items, n_items), self.weights.dtype)
        weights[np.ix_(at, at)] = self.weights
        return ItemModel(weights)

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for a file."""
        if self.left is not None and self.right is not None:
            return {"left": self.left, "right": self.right}
        if scipy.sparse.issparse(self.weights):
            return {name: getattr(self.weights, name) for name in ("data", "indices", "indptr")}
        return {"weights": self.weights}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_items: int) -> ItemModel:
        """From :meth:`arrays`; a ValueError for inconsistent arrays."""
        if "data" in arrays:
            parts = arrays["data"], arrays["indices"], arrays["indptr"]
            return cls(scipy.sparse.csr_array(parts, (n_items, n_items)))
        found = cls(arrays.get("weights"), arrays.get("left"), arrays.get("right"))
        shapes = {a.shape for a in arrays.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2 or found.n_items != n_items:
            raise ValueError("the arrays of its item-to-item model are inconsistent")
        return found


def dense_gram(X: scipy.sparse.csr_array) -> np.ndarray:
    """``X^T X`` as a dense array."""
    gram = np.empty((X.shape[1], X.shape[1]))
    for first, last, block in gram_blocks(X):
        gram[first:last] = block
    return gram


def fit_ease(X: scipy.sparse.csr_array, regularization: float, gram: np.ndarray | None = None) -> ItemModel:
    """EASE with the matrix of all pairs of items, which may be given; takes ``16 n2^2`` bytes."""
    P = dense_gram(X) if gram is None else gram.copy()
    P[np.diag_indices_from(P)] += regularization
    factor, _ = scipy.linalg.lapack.dpotrf(P.T, lower=0, overwrite_a=1)  # P.T is in column-major order: no copy
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=0, overwrite_c=1)
    weights = np.triu(inverse, 1)
    weights += weights.T
    weights /= -np.diag(inverse)
    return ItemModel(weights.astype(np.float32))


def fit_local_ease(X: scipy.sparse.csr_array, regularizations: Sequence[float], neighbors: int = NEIGHBORS) -> list[ItemModel]:
    """EASE in which each item is predicted from its neighborhood only, with each of these regularizations.

    Column j of B solves the ridge regression of item j on the items of :func:`fit_neighbors`, a dense system of the sparse
    matrix ``X^T X``. It is EASE if all other items are neighbors.
    """
    near = scipy.sparse.csc_array(fit_neighbors(X, neighbors).weights)
    near.sort_indices()
    X, sizes = X.astype(np.float32), np.diff(near.indptr)
    gram = scipy.sparse.csr_array(X.T @ X)
    weights = np.empty((len(regularizations), near.nnz), np.float32)
    step = max(1, BLOCK // max(int(sizes.max(initial=0)), 1) ** 2)
    for first in range(0, len(sizes), step):
        some = np.arange(first, min(first + step, len(sizes)))
        k = max(int(sizes[some].max()), 1)
        systems, sides = np.zeros((len(some), k, k), np.float32), np.zeros((len(some), k), np.float32)
        for place, item in enumerate(some):
            at = near.indices[near.indptr[item] : near.indptr[item + 1]]
            rows = gram[at]
            systems[place, : len(at), : len(at)] = rows[:, at].toarray()
            sides[place, : len(at)] = rows[:, [item]].toarray()[:, 0]
        there = np.arange(k) < sizes[some, None]
        for found, regularization in zip(weights, regularizations, strict=True):
            ridge = systems + np.float32(regularization) * np.eye(k, dtype=np.float32)
            found[near.indptr[first] : near.indptr[some[-1] + 1]] = np.linalg.solve(ridge, sides[..., None])[..., 0][there]
    columns = (scipy.sparse.csc_array((found, near.indices, near.indptr), near.shape) for found in weights)
    return [ItemModel(scipy.sparse.csr_array(one)) for one in columns]


@dataclass(frozen=True)
class LowRankGram:
    """``X^T X`` as ``V diag(s)^2 V^T`` plus a diagonal.

    Attributes
    ----------
    s : (k,) array
        Leading singular values of X.
    V : (n2, k) array
        Right singular vectors.
    rest : (n2,) array
        Diagonal of ``X^T X - V diag(s)^2 V^T``.
    """

    s: np.ndarray
    V: np.ndarray
    rest: np.ndarray

    @classmethod
    def of(cls, observations: Observations, backend: Backend, rank: int, seed: int = 0) -> LowRankGram:
        """For the matrix X of the values of observations, which may be on a device or in partitions."""
        p, (n1, n2) = observations.values, observations.shape
        rank = min(rank, n1, n2)
        start = backend.random_normal(np.random.default_rng(seed), (n2, min(rank + OVERSAMPLING, n2)), backend.dtype(p))
        svd = truncated_svd(*observations.products(p), start, rank, backend, tol=SVD_TOL, restarts=SVD_RESTARTS)
        s, V = np.asarray(svd.s, float), backend.to_numpy(svd.V).astype(float)
        some = s > 1e-6 * s[0]
        s, V = s[some], V[:, some]
        total = backend.to_numpy(observations.squares(p)[1]).astype(float)
        return cls(s, V, np.maximum(total - (V * V) @ s**2, 0))

    def ease(self, regularization: float) -> ItemModel:
        """EASE of this matrix.

        With ``D = diag(rest) + regularization I``, the Woodbury identity gives ``P = D^-1 - L L^T``, and therefore
        ``B_ij = (L L^T)_ij / P_jj``.
        """
        D = self.rest + regularization
        scaled = self.V / D[:, None]
        C = np.diag(self.s**-2.0) + self.V.T @ scaled  # L L^T = scaled C^-1 scaled^T
        L = scipy.linalg.solve_triangular(np.linalg.cholesky(C), scaled.T, lower=True).T
        variances = 1 / D - np.einsum("ij,ij->i", L, L)  # diagonal of P
        return ItemModel(left=L.astype(np.float32), right=(L / variances[:, None]).astype(np.float32))


def fit_neighbors(X: scipy.sparse.csr_array, neighbors: int = NEIGHBORS, shrinkage: float = SHRINKAGE) -> ItemModel:
    """Item neighborhoods: shrunk cosine similarities of each item and its most similar ones."""
    n2 = X.shape[1]
    lengths = np.sqrt(X.multiply(X).sum(0))
    k = min(neighbors, n2 - 1)
    rows, cols, values = [], [], []
    for first, last, block in gram_blocks(X):
        block = block / (lengths[first:last, None] * lengths + shrinkage)
        block[np.arange(last - first), np.arange(first, last)] = 0
        near = np.argpartition(-block, k, axis=1)[:, :k] if k < n2 - 1 else np.tile(np.arange(n2), (last - first, 1))
        found = np.take_along_axis(block, near, 1)
        item = np.broadcast_to(np.arange(first, last)[:, None], near.shape)
        there = found > 0
        rows.append(near[there])
        cols.append(item[there])
        values.append(found[there].astype(np.float32))
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(cols))
    return ItemModel(scipy.sparse.csr_array(entries, (n2, n2)))


def gram_blocks(X: scipy.sparse.csr_array) -> Any:
    """Blocks of rows of ``X^T X``: first and last row, and the block as a dense array."""
    n2, columns = X.shape[1], X.tocsc()
    step = max(1, BLOCK // n2)
    for first in range(0, n2, step):
        last = min(first + step, n2)
        yield first, last, (columns[:, first:last].T @ X).toarray()


def matrix_observations(X: scipy.sparse.csr_array, backend: Backend, dtype: Any = np.float64) -> Observations:
    """The matrix X as observations on a backend."""
    pattern = backend.asindex(X.indptr.astype(np.int64)), backend.asarray(X.indices.astype(np.int32))
    return backend.make_observations(*pattern, backend.asarray(X.data.astype(dtype)), X.shape[1])
