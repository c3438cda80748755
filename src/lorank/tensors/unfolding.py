"""Leading eigenpairs of the Gram matrices of unfoldings of a sparse tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

DENSE = 300  # sides of Gram matrices up to which they are formed


def leading(problem: Any, p: np.ndarray, k: int, r: int, known: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenvalues and eigenvectors of the mode-k Gram matrix of ``A* p`` without its diagonal.

    The diagonal holds the noise of the sampling. Entries and eigenvectors are divided by the roots of the numbers of
    observations (regularized), so that frequently observed indices have the same noise as others.

    Parameters
    ----------
    problem : TensorCompletion
    p : (m,) array
        One number per observation.
    k : int
        Mode.
    r : int
        Number of eigenpairs.
    known : (n_k, q) array, optional
        Directions to which the eigenvectors are orthogonal.
    """
    import scipy.sparse as sp
    import scipy.sparse.linalg as spla

    n, index = problem.shape[k], problem.indices
    counts = [problem.backend.to_numpy(c) for c in problem.counts()]
    roots = [np.sqrt((c + np.median(c) / 2) / (c.mean() or 1.0)) for c in counts]
    scaled = p / np.prod([w[index[:, j]] for j, w in enumerate(roots)], axis=0)
    columns = np.zeros(len(p), np.int64)
    for j, length in enumerate(problem.shape):
        if j != k:
            columns = columns * length + index[:, j]
    distinct, columns = np.unique(columns, return_inverse=True)
    matrix = sp.csr_array((scaled, (index[:, k], columns)), (n, len(distinct)))
    diagonal = np.asarray((matrix * matrix).sum(1)).ravel()
    basis = np.zeros((n, 0)) if known is None else np.linalg.qr(roots[k][:, None] * known)[0]

    def gram(v: np.ndarray) -> np.ndarray:
        v = v.reshape(n, -1)
        v = v - basis @ (basis.T @ v)
        v = matrix @ (matrix.T @ v) - diagonal[:, None] * v
        return v - basis @ (basis.T @ v)

    if n <= DENSE or r >= n - 1:
        values, vectors = np.linalg.eigh(gram(np.eye(n)))
    else:
        first = np.random.default_rng(0).standard_normal(n)
        operator = spla.LinearOperator((n, n), gram, matmat=gram, dtype=np.float64)
        values, vectors = spla.eigsh(operator, r, which="LA", tol=1e-3, v0=first)
    vectors = vectors[:, ::-1][:, :r] / roots[k][:, None]
    return values[::-1][:r], np.where((counts[k] > 0)[:, None], vectors, 0.0)
