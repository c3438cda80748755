"""Leading eigenpairs of the Gram matrices of unfoldings of a sparse tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

DENSE = 300  # sides of Gram matrices up to which they are formed


class Unfolding:
    """The mode-k unfolding of ``A* p`` for vectors p of one number per observation; its pattern is computed once.

    Entries are divided by the roots of the numbers of observations (regularized), so that frequently observed indices have the
    same noise as others.

    Parameters
    ----------
    problem : TensorCompletion
    k : int
        Mode.
    """

    def __init__(self, problem: Any, k: int) -> None:
        import scipy.sparse as sp

        index = problem.indices
        counts = [problem.backend.to_numpy(c) for c in problem.counts()]
        roots = [np.sqrt((c + np.median(c) / 2) / (c.mean() or 1.0)) for c in counts]
        self.n, self.observed, self.root = problem.shape[k], counts[k] > 0, roots[k][:, None]
        columns = np.zeros(len(index), np.int64)
        for j, length in enumerate(problem.shape):
            if j != k:
                columns = columns * length + index[:, j]
        distinct, columns = np.unique(columns, return_inverse=True)
        order = sp.csr_array((np.arange(len(index)), (index[:, k], columns)), (self.n, len(distinct)))
        self.order, self.pattern = order.data, (order.indices, order.indptr)
        self.shape = self.n, len(distinct)
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
