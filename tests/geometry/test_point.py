"""Points in factored form, against the dense matrices that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import (
    assert_close,
    assert_orthonormal,
    dense_point,
    double,
    eps,
    host,
    random_array,
    random_point,
    random_tangent,
    seeds,
)
from lorank.geometry import FixedRank, retract


@st.composite
def sizes(draw):
    n1, n2 = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    return (n1, n2), draw(st.integers(1, min(n1, n2)))


@given(size=sizes(), seed=seeds)
def test_entries_dense_norm_and_conjugate_transpose(size, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    (n1, n2), rank = size
    X = random_point(rng, (n1, n2), rank, dtype, backend)
    dense = dense_point(X)
    rows, cols = rng.integers(0, n1, 30), rng.integers(0, n2, 30)
    assert_close(X.entries(rows, cols), dense[rows, cols], dtype, scale=2)
    assert host(X.entries(rows, cols)).dtype == dtype
    assert_close(X.to_dense(), dense, dtype, scale=2)
    assert_close(X.H.to_dense(), dense.conj().T, dtype, scale=2)
    assert_close(X.norm(), np.linalg.norm(dense), dtype)
    assert (X.shape, X.rank, X.dtype) == ((n1, n2), rank, dtype)
    assert X.H.shape == (n2, n1)


@given(size=sizes(), seed=seeds)
def test_from_factors(size, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    shape, width = size
    left, right = (random_array(rng, (n, width), dtype) for n in shape)
    dense = double(left) @ double(right).conj().T
    s, scale = np.linalg.svd(dense, compute_uv=False), np.linalg.norm(left) * np.linalg.norm(right)
    for rank in {width, (width + 1) // 2}:
        X = FixedRank.from_factors(*map(backend.asarray, (left, right)), None if rank == width else rank, backend)
        assert_orthonormal(X.U)
        assert_orthonormal(X.V)
        assert_close(X.s, s[:rank], dtype, scale=scale)
        off, best = np.linalg.norm(dense_point(X) - dense), np.linalg.norm(s[rank:])
        assert off <= best + 100 * eps(dtype) * scale


@given(size=sizes(), seed=seeds)
def test_from_dense_is_the_best_approximation(size, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    shape, rank = size
    a = random_array(rng, shape, dtype)
    X = FixedRank.from_dense(backend.asarray(a), rank, backend)
    s = np.linalg.svd(double(a), compute_uv=False)
    assert_orthonormal(X.U)
    assert_orthonormal(X.V)
    assert_close(X.s, s[:rank], dtype, scale=s[0])
    assert np.linalg.norm(dense_point(X) - a) <= np.linalg.norm(s[rank:]) + 100 * eps(dtype) * s[0]
    assert X.rank == rank


@given(size=sizes(), other_rank=st.integers(1, 6), seed=seeds)
def test_distance(size, other_rank, seed, dtype, backend):
    """Also between points of different ranks, with singular values far apart."""
    rng = np.random.default_rng(seed)
    shape, rank = size
    other_rank = min(other_rank, *shape)
    X = random_point(rng, shape, rank, dtype, backend)
    Y = random_point(rng, shape, other_rank, dtype, backend, s=np.logspace(1, -3, other_rank))
    expected, scale = np.linalg.norm(dense_point(X) - dense_point(Y)), X.norm() + Y.norm()
    assert_close(X.distance(Y), expected, dtype, scale=scale)
    assert_close(Y.distance(X), expected, dtype, scale=scale)


@pytest.mark.parametrize("relative", [1e-12, 1e-9, 1e-6])
def test_distance_of_close_points(relative, backend):
    """``sqrt(|X|^2 + |Y|^2 - 2 <X, Y>)`` would see nothing below 1e-8."""
    rng = np.random.default_rng(0)
    X = random_point(rng, (40, 30), 4, np.float64, backend)
    xi = random_tangent(rng, X)
    Y = retract(xi, relative * X.norm() / xi.norm())
    assert X.distance(Y) == pytest.approx(relative * X.norm(), rel=1e-2, abs=0)
    stretched = FixedRank(X.U, X.s * (1 + relative), X.V, backend)
    assert X.distance(stretched) == pytest.approx(relative * X.norm(), rel=1e-2, abs=0)


def test_distance_to_itself_is_rounding(dtype, backend):
    X = random_point(np.random.default_rng(1), (40, 30), 4, dtype, backend)
    assert X.distance(X) <= 20 * eps(dtype) * X.norm()
    turned = FixedRank(-X.U, X.s, -X.V, backend)  # the same matrix with other factors
    assert X.distance(turned) <= 20 * eps(dtype) * X.norm()


def test_norm_does_not_overflow_in_single_precision():
    X = random_point(np.random.default_rng(2), (5, 4), 2, np.float32, s=[3e30, 4e30])
    assert X.norm() == pytest.approx(5e30, rel=1e-6)


def test_to_dense_refuses_what_is_too_large():
    n = 10_000
    X = random_point(np.random.default_rng(3), (n, n), 1, np.float64)
    with pytest.raises(ValueError, match="100,000,000 entries"):
        X.to_dense()
    small = random_point(np.random.default_rng(3), (6, 5), 2, np.float64)
    with pytest.raises(ValueError, match="limit"):
        small.to_dense(limit=29)
    assert small.to_dense(limit=30).shape == small.to_dense(limit=None).shape == (6, 5)


@pytest.mark.parametrize(
    ("rows", "cols", "match"),
    [
        ([0, -1], [0, 0], r"rows\[1\] = -1"),
        ([0, 6], [0, 0], r"rows\[1\] = 6 is outside 0 .. 5"),
        ([0, 1], [5, 0], r"cols\[0\] = 5 is outside 0 .. 4"),
        ([0.0, 1.0], [0, 0], "rows must be integers"),
        ([True, False], [0, 0], "rows must be integers"),
        ([0, 1], [0], "same length"),
        ([0, 1], 0, "same length"),
    ],
)
def test_bad_indices(rows, cols, match):
    X = random_point(np.random.default_rng(4), (6, 5), 2, np.float64)
    with pytest.raises(ValueError, match=match):
        X.entries(rows, cols)


def test_entries_keep_the_shape_of_the_indices():
    X = random_point(np.random.default_rng(5), (6, 5), 2, np.complex128)
    rows, cols = np.meshgrid(np.arange(6), np.arange(5), indexing="ij")
    np.testing.assert_allclose(X.entries(rows, cols), X.to_dense(), atol=1e-14)
    assert X.entries(2, 3).shape == ()
    assert X.entries([], []).shape == (0,)


def test_entries_in_more_than_one_block(monkeypatch):
    monkeypatch.setattr("lorank.backends.numpy_backend.BLOCK", 7)
    X = random_point(np.random.default_rng(6), (6, 5), 2, np.float64)
    rows, cols = np.divmod(np.arange(30), 5)
    np.testing.assert_allclose(X.entries(rows, cols), X.to_dense().ravel(), atol=1e-14)


def test_zero_is_a_valid_point(dtype):
    X = FixedRank.zero((6, 5), 2, dtype)
    assert_orthonormal(X.U)
    assert_orthonormal(X.V)
    assert X.norm() == 0
    assert not X.to_dense().any()
    assert X.is_finite()


@pytest.mark.parametrize("name", ["U", "s", "V"])
def test_is_finite_looks_at_every_factor(name):
    X = random_point(np.random.default_rng(7), (6, 5), 2, np.float64)
    assert X.is_finite()
    getattr(X, name)[0] = np.nan
    assert not X.is_finite()


def test_repr_says_shape_rank_and_dtype():
    X = random_point(np.random.default_rng(8), (6, 5), 2, np.complex64)
    assert repr(X) == "FixedRank(6 x 5, rank 2, complex64)"
