"""Plain functions that tests share: random data, dense twins, and comparisons measured in units of rounding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from lorank.backends import backend_of
from lorank.datasets import random_completion
from lorank.geometry import FixedRank, Tangent
from lorank.problems import Completion, MatrixProblem

DTYPES = [np.dtype(name) for name in ("float32", "float64", "complex64", "complex128")]

seeds = st.integers(0, 2**32 - 1)


def eps(dtype) -> float:
    """The rounding unit."""
    return float(np.finfo(dtype).eps)


def real_dtype(dtype) -> np.dtype:
    return np.empty(0, dtype).real.dtype


def host(a) -> np.ndarray:
    """As a NumPy array, wherever it is."""
    return backend_of(a).to_numpy(a)


def double(a) -> np.ndarray:
    """The same numbers in double precision, where the dense twins are computed."""
    a = host(a)
    return a.astype(np.result_type(a, np.float64))


def random_array(rng, shape, dtype) -> np.ndarray:
    """Standard normal entries; complex ones in both parts."""
    a = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    return a.astype(dtype)


def random_point(rng, shape, rank, dtype, backend=None, s=None) -> FixedRank:
    """Random orthonormal factors; singular values from 2 down to 1 unless given."""
    u, v = (np.linalg.qr(random_array(rng, (n, rank), np.result_type(dtype, np.float64)))[0].astype(dtype) for n in shape)
    s = np.linspace(2, 1, rank) if s is None else np.asarray(s)
    s = s.astype(real_dtype(dtype))
    return FixedRank(u, s, v) if backend is None else FixedRank(backend.asarray(u), s, backend.asarray(v), backend)


def on(backend, X) -> FixedRank:
    """The same point with a backend's own arrays."""
    return FixedRank(backend.asarray(host(X.U)), host(X.s), backend.asarray(host(X.V)), backend)


def skip_where_numpy_cannot_go(backend) -> None:
    """Functions of NumPy arrays are refused on a GPU (tests/backends/test_torch.py)."""
    if not getattr(backend, "in_main_memory", True):
        pytest.skip("functions of NumPy arrays cannot be used on a GPU")


def random_tangent(rng, X) -> Tangent:
    return Tangent.project(X, *(X.backend.asarray(random_array(rng, (n, X.rank), X.dtype)) for n in X.shape))


def random_mask(rng, shape, density=0.6) -> np.ndarray:
    """A pattern with at least one observation in each row and column."""
    n1, n2 = shape
    mask = rng.random(shape) < density
    mask[np.arange(n1), np.arange(n1) % n2] = True
    mask[np.arange(n2) % n1, np.arange(n2)] = True
    return mask


def random_problem(rng, shape, dtype, backend=None, density=0.6) -> Completion:
    """Completion of a random matrix, no row or column empty."""
    rows, cols = np.nonzero(random_mask(rng, shape, density))
    return Completion(rows, cols, random_array(rng, len(rows), dtype), shape, backend=backend)


class PlainSensing(MatrixProblem):
    """Dense matrices, and no more than a model needs: no split, no frame, no blocks."""

    def __init__(self, A, y):
        super().__init__(y, A.shape[1:], operator_scale=len(y))
        self.A = A.reshape(len(A), -1)

    def forward(self, left, right):
        return self.A.conj() @ (left @ right.conj().T).ravel()

    def adjoint(self, p):
        return (self.A.T @ p).reshape(self.shape)


def dense_data(problem) -> tuple[np.ndarray, np.ndarray]:
    """The observed entries as a dense matrix with zeros elsewhere, and the mask of what is observed."""
    y, mask = np.zeros(problem.shape, np.result_type(problem.dtype, np.float64)), np.zeros(problem.shape, bool)
    rows, cols = host(problem.rows), host(problem.cols)
    y[rows, cols], mask[rows, cols] = host(problem.y), True
    return y, mask


def dense_gradient(problem, X) -> np.ndarray:
    """``G = A*(A X - y)`` as a dense matrix in double precision."""
    y, mask = dense_data(problem)
    return np.where(mask, dense_point(X) - y, 0)


def dense_point(X) -> np.ndarray:
    """``U diag(s) V^H`` in double precision."""
    return (double(X.U) * double(X.s)) @ double(X.V).conj().T


def dense_tangent(xi) -> np.ndarray:
    """``U M V^H + Up V^H + U Vp^H`` in double precision."""
    U, V = double(xi.X.U), double(xi.X.V)
    return U @ double(xi.M) @ V.conj().T + double(xi.Up) @ V.conj().T + U @ double(xi.Vp).conj().T


def assert_close(actual, expected, dtype, factor=50.0, scale=None) -> None:
    """Differences of at most ``factor`` rounding units of ``scale`` (by default the largest entry expected)."""
    actual, expected = host(actual), host(expected)
    assert actual.shape == expected.shape
    scale = np.abs(expected).max(initial=0) if scale is None else scale
    off = np.abs(double(actual) - expected).max(initial=0)
    assert off <= factor * eps(dtype) * scale, f"off by {off:.2e}, {off / (eps(dtype) * (scale or 1)):.1f} units of rounding"


def assert_orthonormal(q, factor=50.0) -> None:
    q = host(q)
    assert_close(double(q).conj().T @ double(q), np.eye(q.shape[1]), q.dtype, factor)


def backend_pair(name, seed=0, weights=False, **options):
    """The same problem on the default backend and on another one, and its solution."""
    rng = np.random.default_rng(seed)
    problem, truth = random_completion(60, 45, 3, oversampling=4, seed=seed, **options)
    entries = problem.observations.host()
    rows, order = problem.rows, rng.permutation(problem.m)
    w = rng.uniform(0.5, 2, problem.m) if weights else None
    data = rows[order], entries.indices[order], entries.values[order], problem.shape
    return *(Completion(*data, weights=w, backend=b) for b in (None, name)), truth
