"""Starts against dense twins."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import host, on
from lorank.starts import STARTS, Staged, grow


def dense_residual(problem, X):
    """``P(y - X)`` as a dense matrix."""
    out = np.zeros(problem.shape, problem.dtype)
    rows, cols = host(problem.rows), host(problem.cols)
    out[rows, cols] = host(problem.y) - host(X.entries(rows, cols))
    return out


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_growing_adds_the_leading_pairs_with_the_best_step(dtype, backend):
    rng = np.random.default_rng(0)
    # strong pairs beyond rank 1, so that a rough computation finds them
    u, v = (
        np.linalg.qr(rng.standard_normal((n, 3)) + (1j * rng.standard_normal((n, 3)) if dtype == np.complex128 else 0))[0]
        for n in (30, 25)
    )
    truth = lr.FixedRank(u.astype(dtype), np.array([100.0, 60.0, 40.0]), v.astype(dtype))
    rows, cols = lr.datasets.sample_pattern(rng, (30, 25), 740)
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), (30, 25), backend=backend)
    X = on(backend, lr.FixedRank(truth.U[:, :1].copy(), truth.s[:1], truth.V[:, :1].copy()))
    Y = grow(problem, X, 2, np.random.default_rng(1))
    residual = dense_residual(problem, X)
    pairs = lr.FixedRank.from_dense(residual, 2).to_dense()
    rows, cols = host(problem.rows), host(problem.cols)
    sampled = pairs[rows, cols]
    step = np.vdot(sampled, residual[rows, cols]).real / np.linalg.norm(sampled) ** 2
    expected = host(X.to_dense()) + step * pairs
    Y = Y.numpy()
    assert np.linalg.norm(Y.to_dense() - expected) < 1e-2 * np.linalg.norm(pairs)
    assert Y.rank == 3
    np.testing.assert_allclose(Y.U.conj().T @ Y.U, np.eye(3), atol=1e-12)
    assert np.linalg.norm(dense_residual(problem, Y)) < 0.2 * np.linalg.norm(residual)


def test_growing_where_nothing_is_left():
    problem, truth = lr.datasets.random_completion(30, 25, 2, oversampling=5, seed=0)
    X = grow(problem, truth, 2, np.random.default_rng(0))
    assert X.is_finite()
    assert truth.distance(X) < 1e-8 * truth.norm()


def test_staged_is_better_than_spectral_on_data_with_a_mean():
    problem, truth = lr.datasets.random_completion(400, 300, 6, oversampling=4, factors="uniform", seed=1)
    staged, spectral = (STARTS[name](problem, 6, np.random.default_rng(0)) for name in ("staged", "spectral"))
    assert truth.distance(staged) < 0.5 * truth.distance(spectral)


def test_staged_at_rank_one_and_at_full_rank():
    problem, _ = lr.datasets.random_completion(40, 6, 3, oversampling=1.5, seed=1)
    for rank in (1, 2, 6):
        X = Staged()(problem, rank, np.random.default_rng(0))
        assert X.rank == rank
        assert X.is_finite()
