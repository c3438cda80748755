"""The truncated SVD from products, against numpy's of the dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import assert_close, assert_orthonormal, dense_point, double, eps, host, random_array, seeds
from lorank.geometry import FixedRank
from lorank.geometry.truncated_svd import truncated_svd

SPECTRA = {
    "well separated": lambda n: 2.0 ** -np.arange(n),
    "clustered": lambda n: np.where(np.arange(n) < 6, 1 - 1e-4 * np.arange(n), 0.3),
    "equal": lambda n: np.where(np.arange(n) < 6, 1.0, 0.2),
    "rank-deficient": lambda n: np.where(np.arange(n) < 2, 1.0 + np.arange(n)[::-1], 0.0),
    "flat": lambda n: np.linspace(1, 0.9, n),
}


def matrix_with(rng, shape, s, dtype):
    """A matrix with given singular values."""
    k = min(shape)
    u, v = (np.linalg.qr(random_array(rng, (n, k), np.result_type(dtype, np.float64)))[0] for n in shape)
    return ((u * s) @ v.conj().T).astype(dtype)


def svd_of(W, start, rank, backend, **options):
    """The truncated SVD, and how many products with W it took."""
    counts, W, start = [0], backend.asarray(W), backend.asarray(start)

    def times(v):
        counts[0] += 1
        return W @ v

    X = truncated_svd(times, lambda u: W.conj().T @ u, start, rank, backend, **options)
    return FixedRank(host(X.U), host(X.s), host(X.V)), counts[0]


def check(X, W, rank, factor=200.0, loose=0.0):
    """Orthonormal factors, and no worse an approximation than the best one; the singular values to the same accuracy."""
    s = np.linalg.svd(double(W), compute_uv=False)
    tolerance = factor * eps(W.dtype) + loose
    assert X.rank == rank
    assert X.dtype == W.dtype
    assert_orthonormal(X.U, 200)  # each restart adds a little rounding
    assert_orthonormal(X.V, 200)
    assert np.abs(X.s - s[:rank]).max() <= tolerance * s[0]
    best = np.linalg.norm(s[rank:])
    assert np.linalg.norm(dense_point(X) - W) <= best * (1 + tolerance) + tolerance * s[0]


@pytest.mark.parametrize("name", ["well separated", "clustered", "equal", "rank-deficient"])
@settings(max_examples=12)
@given(n1=st.integers(31, 48), n2=st.integers(31, 48), rank=st.integers(1, 6), extra=st.integers(0, 4), seed=seeds)
def test_against_dense(name, n1, n2, rank, extra, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    W = matrix_with(rng, (n1, n2), SPECTRA[name](min(n1, n2)), dtype)
    X, _ = svd_of(W, random_array(rng, (n2, rank + extra), dtype), rank, backend, tol=1e-10, restarts=40)
    # values within a cluster (six, 5e-4 wide) that the block cuts settle slowly, at hardly any cost in the approximation
    cut = name == "clustered" and rank + extra < 6
    check(X, W, rank, loose=1e-4 if cut else 1e-7)


def test_a_flat_spectrum_ends_and_is_nearly_optimal(dtype, backend):
    rng = np.random.default_rng(0)
    W = matrix_with(rng, (40, 40), SPECTRA["flat"](40), dtype)
    X, _ = svd_of(W, random_array(rng, (40, 8), dtype), 4, backend)
    check(X, W, 4, loose=1e-3)


def test_singular_vectors_of_separated_values(dtype, backend):
    rng = np.random.default_rng(1)
    W = matrix_with(rng, (50, 40), SPECTRA["well separated"](40), dtype)
    X, _ = svd_of(W, random_array(rng, (40, 6), dtype), 3, backend, tol=1e-12)
    u, _, vh = np.linalg.svd(double(W))
    assert_close(np.abs(u[:, :3].conj().T @ X.U), np.eye(3), dtype, 100)
    assert_close(np.abs(vh[:3] @ X.V), np.eye(3), dtype, 100)


@pytest.mark.parametrize("name", ["well separated", "equal"])
def test_start_at_the_solution_ends_at_once(name, backend):
    """The solver's own iterates are such starts: one Rayleigh-Ritz step must see that nothing is left to do."""
    rng = np.random.default_rng(2)
    W = matrix_with(rng, (50, 40), SPECTRA[name](40), np.float64)
    V = np.linalg.svd(W)[2].conj().T[:, :4]
    X, products = svd_of(W, V.copy(), 4, backend)
    check(X, W, 4)
    assert products <= 3  # the start and two Krylov blocks


def test_start_at_the_solution_of_an_exactly_low_rank_matrix(dtype, backend):
    """The Krylov space is exhausted by the start: nothing but rounding lies outside."""
    rng = np.random.default_rng(3)
    W = matrix_with(rng, (50, 40), np.where(np.arange(40) < 4, 1.0, 0.0), dtype)
    V = np.linalg.svd(double(W))[2].conj().T[:, :4].astype(dtype)
    check(svd_of(W, V, 4, backend)[0], W, 4)


@pytest.mark.parametrize("shape", [(6, 6), (12, 6), (6, 12), (1, 6), (6, 1), (1, 1)])
@pytest.mark.parametrize("extra", [0, 1, 5])
def test_block_as_large_as_the_matrix_or_larger(shape, extra, dtype, backend):
    rng = np.random.default_rng(4)
    W = random_array(rng, shape, dtype)
    for rank in {1, min(shape)}:
        X, _ = svd_of(W, random_array(rng, (shape[1], shape[1] + extra), dtype), rank, backend)
        check(X, W, rank)


@pytest.mark.parametrize(
    ("shape", "block", "rank"), [((5, 5), 3, 3), ((20, 5), 3, 2), ((5, 20), 3, 3), ((10, 10), 6, 4), ((20, 20), 11, 8)]
)
def test_block_over_half_of_the_matrix(shape, block, rank, dtype, backend):
    """No room for a second block, but the first does not hold the solution either."""
    rng = np.random.default_rng(5)
    W = random_array(rng, shape, dtype)
    check(svd_of(W, random_array(rng, (shape[1], block), dtype), rank, backend)[0], W, rank, loose=1e-6)


def test_zero_matrix(dtype, backend):
    W = np.zeros((30, 20), dtype)
    X, _ = svd_of(W, random_array(np.random.default_rng(6), (20, 3), dtype), 2, backend)
    assert not X.s.any()
    assert_orthonormal(X.V)


def test_dependent_columns_in_the_start(dtype, backend):
    rng = np.random.default_rng(7)
    W = matrix_with(rng, (40, 30), SPECTRA["well separated"](30), dtype)
    start = np.repeat(random_array(rng, (30, 1), dtype), 5, axis=1)
    check(svd_of(W, start, 3, backend, tol=1e-10)[0], W, 3, loose=1e-7)
