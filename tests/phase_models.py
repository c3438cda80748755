"""Phase retrieval problems with their dense twins, and a frame that counts: what the tests of phase retrieval share."""

from __future__ import annotations

import numpy as np

import lorank as lr
from helpers import double, random_array, random_point, real_dtype, skip_where_numpy_cannot_go
from lorank.geometry import FixedRank, Tangent

M, N = 40, 7
KINDS = ["matrix", "functions", "diffraction 1-D", "diffraction 2-D"]


def fourier(*sizes) -> np.ndarray:
    """The matrix of the discrete Fourier transform of an array of that shape, entry by entry."""
    whole = np.ones((1, 1))
    for n in sizes:
        k = np.arange(n)
        whole = np.kron(whole, np.exp(-2j * np.pi * np.outer(k, k) / n))
    return whole


def dense_diffraction(masks) -> np.ndarray:
    """The A of coded diffraction, in double precision."""
    F = fourier(*masks.shape[1:])
    return np.concatenate([F * double(mask).ravel() for mask in masks])


def make(kind, dtype=np.float64, backend=None, seed=0, **options):
    """A problem with random data, and its A in double precision."""
    rng = np.random.default_rng(seed)
    if kind in ("matrix", "functions"):
        A, y = random_array(rng, (M, N), dtype), rng.random(M).astype(real_dtype(dtype))
        if kind == "matrix":
            return lr.PhaseRetrieval(A, y, backend=backend, **options), double(A)
        options = {"dtype": dtype, "row_norms": 4, "check": True} | options
        skip_where_numpy_cannot_go(backend)
        pair = (lambda v: A @ v), (lambda w: A.conj().T @ w)
        return lr.PhaseRetrieval.from_functions(*pair, y, N, backend=backend, **options), double(A)
    masks = random_array(rng, (4, 9) if kind == "diffraction 1-D" else (4, 4, 3), dtype)
    y = rng.random(masks.shape).astype(real_dtype(dtype))
    return lr.PhaseRetrieval.coded_diffraction(masks, y, backend=backend, **options), dense_diffraction(masks)


def of_problem(kind, dtype) -> np.dtype:
    """What A and x are made of: Fourier transforms are complex."""
    return np.result_type(dtype, np.complex64) if kind.startswith("diffraction") else np.dtype(dtype)


def matrices(A) -> np.ndarray:
    """``A_i = a_i a_i^H``, where a_i^H is row i of A."""
    return np.array([np.outer(a.conj(), a) for a in A])


def inner_products(A, Z) -> np.ndarray:
    return np.array([np.vdot(a, Z) for a in matrices(A)])


def combination(A, p) -> np.ndarray:
    return sum(c * a for c, a in zip(p, matrices(A), strict=True))


def hermitian_point(rng, n, rank, dtype, backend=None) -> FixedRank:
    X = random_point(rng, (n, n), rank, dtype, backend)
    return FixedRank(X.U, X.s, X.U, backend)


def hermitian_tangent(rng, X) -> Tangent:
    a = X.backend.asarray(random_array(rng, X.U.shape, X.dtype))
    return Tangent.project(X, a, a)


class Counting:
    """A frame that counts its products, and the columns of the widest one."""

    def __init__(self, frame, exact=True):
        self.linear_map, self.exact, self.applied, self.adjoined, self.widest = frame, exact, 0, 0, 0

    def __getattr__(self, name):
        return getattr(self.linear_map, name)

    @property
    def products(self) -> int:
        return self.applied + self.adjoined

    def apply(self, v):
        self.applied, self.widest = self.applied + 1, max(self.widest, v.shape[1])
        return self.linear_map.apply(v)

    def adjoint(self, w):
        self.adjoined, self.widest = self.adjoined + 1, max(self.widest, w.shape[1])
        return self.linear_map.adjoint(w)

    def row_squares(self, d):
        assert self.exact, "exact row norms where probes were asked for"
        return self.linear_map.row_squares(d)


def count(problem, exact=True) -> Counting:
    problem.linear_map = Counting(problem.linear_map, exact)
    return problem.linear_map
