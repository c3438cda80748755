"""Leading eigenpairs of the Gram matrices of unfoldings of a sparse tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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

        index = problem.indices
        counts = [problem.backend.to_numpy(c) for c in problem.counts()]
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
        self.order, self.pattern = order.data, (order.indices, order.indptr)
        self.shape = n, len(first)
        self.scale = 1 / np.prod([w[index[:, j]] for j, w in enumerate(roots)], axis=0)[self.order]

    def leading(self, p: np.ndarray, r: int, known: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Leading eigenvalues and eigenvectors of the Gram matrix without its diagonal, which holds the noise of the sampling.

        Eigenvectors are divided by the roots of the numbers of observations again. They are orthogonal to the columns of
        ``known``, if it is given.
        """
        import scipy.sparse as sp
        import scipy.sparse.linalg as spla

        n = self.n
        matrix = sp.csr_array((p[self.order] * self.scale, *self.pattern), self.shape)
        transposed = matrix.T.tocsr()
        diagonal = np.add.reduceat(np.append(matrix.data**2, 0.0), matrix.indptr[:-1]) * (np.diff(matrix.indptr) > 0)
        basis = np.zeros((n, 0)) if known is None else np.linalg.qr(self.root * known)[0]

        def gram(v: np.ndarray) -> np.ndarray:
            v = v.reshape(n, -1)
            v = v - basis @ (basis.T @ v)
            v = matrix @ (transposed @ v) - diagonal[:, None] * v
            return v - basis @ (basis.T @ v)

        if n <= DENSE or r >= n - 1:
            dense = (matrix @ transposed).toarray()
            dense[np.arange(n), np.arange(n)] -= diagonal
            dense = dense - basis @ (basis.T @ dense)
            values, vectors = np.linalg.eigh(dense - (dense @ basis) @ basis.T)
        else:
            first = np.random.default_rng(0).standard_normal(n)
            operator = spla.LinearOperator((n, n), gram, matmat=gram, dtype=np.float64)
            values, vectors = spla.eigsh(operator, r, which="LA", tol=1e-3, v0=first)
        vectors = vectors[:, ::-1][:, :r] / self.root
        return values[::-1][:r], np.where(self.observed[:, None], vectors, 0.0)


def _distinct(index: np.ndarray, shape: Sequence[int], modes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Distinct combinations of the indices of some modes as numbers, the last mode fastest, and that of each observation."""
    keys = np.zeros(len(index), np.int64)
    for k in modes:
        keys = keys * shape[k] + index[:, k]
    found, inverse = np.unique(keys, return_inverse=True)
    return found, inverse
