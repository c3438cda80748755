"""The retraction, against the truncated SVD of the dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers import (
    assert_close,
    assert_orthonormal,
    dense_point,
    dense_tangent,
    double,
    eps,
    host,
    random_array,
    random_point,
    random_tangent,
    seeds,
)
from lorank.geometry import FixedRank, Tangent, retract


@st.composite
def sizes(draw):
    """``(n1, n2), rank``, mostly with n < 2 r on one side at least."""
    rank = draw(st.integers(1, 6))
    return (draw(st.integers(rank, 20)), draw(st.integers(rank, 3 * rank))), rank


def size(xi, alpha) -> float:
    """``|X| + |alpha xi|``."""
    return xi.X.norm() + abs(alpha) * xi.norm()


def truncated(W, rank):
    """``H_r(W)``, and all singular values."""
    u, s, vh = np.linalg.svd(W, full_matrices=False)
    return (u[:, :rank] * s[:rank]) @ vh[:rank], s


def assert_retracts(xi, alpha, factor=100.0) -> FixedRank:
    """``retract(xi, alpha)`` is ``H_r(W)`` of the dense ``W = X + alpha xi``.

    Factors in normal form, singular values, optimality; and the matrix itself where it is determined. X and alpha xi may
    cancel, so rounding is measured in their sizes and not in W's.
    """
    Y, dtype, rank = retract(xi, alpha), xi.X.dtype, xi.X.rank
    W = dense_point(xi.X) + alpha * dense_tangent(xi)
    expected, s = truncated(W, rank)
    scale = size(xi, alpha)
    assert Y.dtype == Y.backend.dtype(Y.V) == dtype
    assert_orthonormal(Y.U)
    assert_orthonormal(Y.V)
    assert (np.diff(host(Y.s)) <= 0).all()
    assert_close(Y.s, s[:rank], dtype, factor, scale)
    off = np.linalg.norm(dense_point(Y) - W)
    assert off <= np.linalg.norm(expected - W) + factor * eps(dtype) * scale
    gap = s[rank - 1] - (s[rank] if rank < len(s) else 0.0)
    if gap > 0.05 * scale:  # how much H_r can change with W is one over the gap
        assert_close(dense_point(Y), expected, dtype, factor * scale / gap, scale)
    return Y


@given(dims=sizes(), seed=seeds, alpha=st.sampled_from([-3.0, -0.3, 0.0, 1e-3, 1.0]))
def test_equals_the_dense_truncated_svd(dims, seed, alpha, dtype, backend):
    rng = np.random.default_rng(seed)
    X = random_point(rng, *dims, dtype, backend)
    assert_retracts(random_tangent(rng, X), alpha)


@given(dims=sizes(), seed=seeds, alpha=st.sampled_from([-1.0, 0.1]))
def test_both_paths_agree(dims, seed, alpha, dtype, backend):
    """Householder, forced, and Gram/Cholesky, taken wherever the columns allow it."""
    shape, rank = dims
    assume(min(shape) >= 2 * rank)
    rng = np.random.default_rng(seed)
    xi = random_tangent(rng, random_point(rng, shape, rank, dtype, backend))
    assume(xi.bases is not None)
    fast = assert_retracts(xi, alpha)
    xi.bases = None
    safe = assert_retracts(xi, alpha)
    assert_close(fast.s, double(safe.s), dtype, scale=size(xi, alpha))


def test_well_conditioned_tangents_take_the_fast_path(dtype, backend):
    rng = np.random.default_rng(0)
    assert random_tangent(rng, random_point(rng, (40, 30), 3, dtype, backend)).bases is not None


def none(X, a):
    return X.backend.zeros(tuple(a.shape), X.dtype)


def own(X, a):
    return X.backend.copy(*X.backend.asarrays(a))


def zero(rng, xi):
    return 0.0 * xi


def no_left(rng, xi):
    return Tangent(xi.X, xi.M, none(xi.X, xi.Up), xi.Vp)


def no_right(rng, xi):
    return Tangent(xi.X, xi.M, xi.Up, none(xi.X, xi.Vp))


def one_zero_column(rng, xi):
    up = own(xi.X, xi.Up)
    up[:, 0] = 0
    return Tangent(xi.X, xi.M, up, xi.Vp)


def repeated_column(rng, xi):
    up = own(xi.X, xi.Up)
    up[:, -1] = up[:, 0]
    return Tangent(xi.X, xi.M, up, xi.Vp)


def nearly_dependent(rng, xi):
    """Columns that agree to a few units of rounding, on both sides."""
    noise = [(4 * eps(xi.X.dtype) * random_array(rng, a.shape, xi.X.dtype)).astype(xi.X.dtype) for a in (xi.Up, xi.Vp)]
    left, right = (a[:, :1] + xi.X.backend.asarray(b) for a, b in zip((xi.Up, xi.Vp), noise, strict=True))
    return Tangent.project(xi.X, left, right)


def wildly_scaled(rng, xi):
    scales = np.logspace(0, -6, xi.X.rank).astype(xi.X.real_dtype)
    left, right = (xi.X.backend.asarray(a) for a in (scales, scales[::-1]))
    return Tangent(xi.X, xi.M, xi.Up * left, xi.Vp * right)


SPECIAL = [zero, no_left, no_right, one_zero_column, repeated_column, nearly_dependent, wildly_scaled]


@pytest.mark.parametrize("make", SPECIAL)
@given(dims=sizes(), seed=seeds)
def test_rank_deficient_tangents(make, dims, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    xi = make(rng, random_tangent(rng, random_point(rng, *dims, dtype, backend)))
    assert_retracts(xi, -0.7)


@pytest.mark.parametrize("make", [zero, no_left, no_right, one_zero_column])
def test_zero_columns_take_the_householder_path(make, dtype, backend):
    rng = np.random.default_rng(1)
    xi = make(rng, random_tangent(rng, random_point(rng, (30, 20), 3, dtype, backend)))
    assert xi.bases is None


@pytest.mark.parametrize("alpha", [1e-30, 1e-12, eps(np.float32)])
def test_a_tiny_step_changes_x_by_that_much(alpha, dtype, backend):
    rng = np.random.default_rng(2)
    xi = random_tangent(rng, random_point(rng, (30, 20), 4, dtype, backend))
    Y = assert_retracts(xi, alpha)
    assert_close(xi.X.distance(Y), alpha * xi.norm(), dtype, scale=xi.X.norm())


def test_zero_tangent_gives_the_same_point(dtype, backend):
    rng = np.random.default_rng(3)
    X = random_point(rng, (12, 9), 3, dtype, backend)
    assert_close(dense_point(retract(0.0 * random_tangent(rng, X), -1.0)), dense_point(X), dtype)


# A numpy double is "strong" in numpy's promotion, a Python float is not: step rules return the latter, users may not.
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_a_numpy_step_length_keeps_the_precision(dtype, backend):
    rng = np.random.default_rng(5)
    xi = random_tangent(rng, random_point(rng, (12, 9), 3, dtype, backend))
    assert (xi * np.float64(0.5)).M.dtype == dtype
    assert retract(xi, np.float64(0.5)).dtype == dtype


def test_step_to_zero_matrix_stays_finite(dtype, backend):
    """``xi = X`` and ``alpha = -1`` lead to the zero matrix, which is no point of the manifold but must not break anything."""
    X = random_point(np.random.default_rng(4), (12, 9), 3, dtype, backend)
    xi = Tangent(X, np.diag(host(X.s)).astype(dtype), none(X, X.U), none(X, X.V))
    Y = retract(xi, -1.0)
    assert_orthonormal(Y.U)
    assert not Y.s.any()


@given(dims=sizes(), seed=seeds)
def test_step_length_may_be_moved_into_the_tangent(dims, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    xi = random_tangent(rng, random_point(rng, *dims, dtype, backend))
    one, other = retract(xi, -0.25), retract(-0.25 * xi, 1.0)
    assert_close(one.s, double(other.s), dtype, scale=size(xi, 0.25))


@given(seed=seeds, n=st.integers(12, 20), rank=st.integers(1, 4))
def test_zero_rows_stay_zero(seed, n, rank, dtype, backend):
    """Rows and columns that were never observed are zero in X and in xi: no step may put anything there."""
    rng = np.random.default_rng(seed)
    left, right = (random_array(rng, (n, rank), dtype) for _ in range(2))
    steps = [random_array(rng, (n, rank), dtype) for _ in range(2)]
    gone = rng.choice(n, 2, replace=False)
    for a in (left, right, *steps):
        a[gone] = 0
    left, right, *steps = (backend.asarray(a) for a in (left, right, *steps))
    X = FixedRank.from_factors(left, right, backend=backend)
    X.U[gone], X.V[gone] = 0, 0  # from_factors leaves rounding there
    xi = Tangent.project(X, *steps)
    if xi.bases is not None:
        Y = retract(xi, -0.5)
        assert not Y.U[gone].any()
        assert not Y.V[gone].any()
    xi.bases = None  # Householder reflections may leave rounding, but no more
    Y = retract(xi, -0.5)
    assert_close(Y.U[gone], np.zeros((2, rank)), dtype, 20, 1.0)
    assert_close(Y.V[gone], np.zeros((2, rank)), dtype, 20, 1.0)
