"""Leading eigenpairs of the Gram matrices of unfoldings of a sparse tensor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends import Observations, Vector

DENSE = 300  # sides of Gram matrices up to which they are formed


class Unfolding:
    """An unfolding of ``A* p`` for vectors p of one number per observation; its pattern is computed once.

    Entries are divided by the roots of the numbers of observations (regularized), so that frequently observed indices have the
    same noise as others.

    Parameters
    ----------
    problem : TensorCompletion
    modes : sequence of int
        The modes of the rows. Rows of several modes are those with observations, in lexicographic order, and they are columns
        where these are fewer.

    Attributes
    ----------
    transposed : bool
        Whether the rows are those of the other modes.
    rows : (n,) integer array or None
        The number of each row among all combinations of its indices; None for one mode, which has all rows.
    """

    def __init__(self, problem: Any, modes: Sequence[int]) -> None:
        import scipy.sparse as sp

        index, self.backend = problem.indices, problem.backend
        counts = [self.backend.to_numpy(c) for c in problem.counts()]
        roots = [np.sqrt((c + np.median(c) / 2) / (c.mean() or 1.0)) for c in counts]
        others = [j for j in range(len(problem.shape)) if j not in modes]
        first, columns = _distinct(index, problem.shape, others)
        if len(modes) == 1:
            self.rows, self.transposed, row, n = None, False, index[:, modes[0]], problem.shape[modes[0]]
        else:
            self.rows, row = _distinct(index, problem.shape, modes)
            self.transposed = len(first) < len(self.rows)
            if self.transposed:
                self.rows, row, modes, first, columns = first, columns, others, self.rows, row
            n = len(self.rows)
        product = np.ones(len(index))
        for k in modes:
            product *= roots[k][index[:, k]]
        self.n, self.observed, self.root = n, np.bincount(row, minlength=n) > 0, np.ones((n, 1))
        self.root[row, 0] = product
        order = sp.csr_array((np.arange(len(index)), (row, columns)), (n, len(first)))
        order.sort_indices()
        self.indices, self.indptr, self.shape = order.indices, order.indptr, (n, len(first))
        scale = 1 / np.prod([w[index[:, j]] for j, w in enumerate(roots)], axis=0)[order.data]
        self.order, self.scale = self.backend.asindex(self.backend.asarray(order.data)), self.backend.asarray(scale)

    @functools.cached_property
    def observations(self) -> Observations:
        """The pattern on a device, for products there."""
        asarray = self.backend.asarray
        indptr, indices = asarray(self.indptr.astype(np.int64)), asarray(self.indices.astype(np.int32))
        return self.backend.make_observations(indptr, indices, self.scale, self.shape[1])

    def leading(self, p: Vector, r: int, known: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Leading eigenvalues and eigenvectors of the Gram matrix without its diagonal, which holds the noise of the sampling.

        Eigenvectors are divided by the roots of the numbers of observations again. They are orthogonal to the columns of
        ``known``, if it is given.
        """
        import scipy.sparse.linalg as spla

        n = self.n
        values = self.backend.astype(p, np.float64)[self.order] * self.scale
        basis = np.zeros((n, 0)) if known is None else np.linalg.qr(self.root * known)[0]
        if n <= DENSE or r >= n - 1:
            matrix = self._matrix(values)
            dense = (matrix @ matrix.T).toarray()
            np.fill_diagonal(dense, 0.0)
            dense = dense - basis @ (basis.T @ dense)
            found, vectors = np.linalg.eigh(dense - (dense @ basis) @ basis.T)
        else:
            product, diagonal = self._gram_product(values)

            def gram(v: np.ndarray) -> np.ndarray:
                v = v.reshape(n, -1)
                v = v - basis @ (basis.T @ v)
                v = product(v) - diagonal[:, None] * v
                return v - basis @ (basis.T @ v)

            first = np.random.default_rng(0).standard_normal(n)
            operator = spla.LinearOperator((n, n), gram, matmat=gram, dtype=np.float64)
            found, vectors = spla.eigsh(operator, r, which="LA", tol=1e-3, v0=first)
        vectors = vectors[:, ::-1][:, :r] / self.root
        return found[::-1][:r], np.where(self.observed[:, None], vectors, 0.0)

    def _matrix(self, values: Vector) -> Any:
        import scipy.sparse as sp

        return sp.csr_array((self.backend.to_numpy(values), self.indices, self.indptr), self.shape)

    def _gram_product(self, values: Vector) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
        """``v -> M M^T v`` of a matrix M with these entries, and the diagonal of ``M M^T``."""
        backend = self.backend
        if backend.in_main_memory:  # SciPy's products with single vectors are the fastest there
            matrix = self._matrix(values)
            transposed = matrix.T.tocsr()
            return lambda v: matrix @ (transposed @ v), np.asarray((matrix * matrix).sum(1))
        times, adjoint_times = self.observations.times, self.observations.adjoint_times

        def product(v: np.ndarray) -> np.ndarray:
            return backend.to_numpy(times(values, adjoint_times(values, backend.asarray(v))))

        return product, backend.to_numpy(self.observations.squares(values)[0])


def _distinct(index: np.ndarray, shape: Sequence[int], modes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Distinct combinations of the indices of some modes as numbers, the last mode fastest, and that of each observation.

    Where 64 bits do not suffice, the numbers are those of the combinations of the first modes that occur.
    """
    keys, size = np.zeros(len(index), np.int64), 1
    for k in modes:
        if size * shape[k] > np.iinfo(np.int64).max:
            keys = np.unique(keys, return_inverse=True)[1]
            size = int(keys.max()) + 1
        keys, size = keys * shape[k] + index[:, k], size * shape[k]
    found, inverse = np.unique(keys, return_inverse=True)
    return found, inverse
