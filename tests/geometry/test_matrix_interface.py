"""A point behaves as the matrix it stands for: every operation against its dense twin."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given
from hypothesis import strategies as st

import lorank as lr
from helpers import assert_close, dense_point, double, host, on, random_array, random_point, seeds

SHAPE, RANK = (9, 7), 3


@pytest.fixture
def X(backend, dtype):
    return on(backend, random_point(np.random.default_rng(0), SHAPE, RANK, dtype))


def close(actual, expected, X, factor=100.0):
    assert_close(actual, expected, X.dtype, factor, scale=max(1.0, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("width", [None, 0, 1, 4])
def test_products_with_vectors_and_thin_arrays(X, width):
    rng, dense = np.random.default_rng(1), dense_point(X)
    for n, product, twin in (
        (SHAPE[1], lambda v: X @ v, lambda v: dense @ v),
        (SHAPE[0], lambda v: X.H @ v, lambda v: dense.conj().T @ v),
        (SHAPE[0], lambda v: X.T @ v, lambda v: dense.T @ v),
    ):
        v = random_array(rng, (n,) if width is None else (n, width), X.dtype)
        close(product(X.backend.asarray(v)), twin(double(v)), X)
        close(product(v), twin(double(v)), X)  # a NumPy array, wherever X is
    u = random_array(rng, (SHAPE[0],) if width is None else (width, SHAPE[0]), X.dtype)
    close(X.backend.asarray(u) @ X, double(u) @ dense, X)


def test_dtypes_mix_as_numpys_do(backend):
    rng = np.random.default_rng(2)
    for own in (np.float32, np.float64, np.complex64):
        X = on(backend, random_point(rng, SHAPE, RANK, own))
        for dtype in (np.float32, np.float64, np.complex64, np.complex128):
            v = random_array(rng, SHAPE[1], dtype)
            found = host(X @ v)
            assert found.dtype == np.result_type(own, dtype)
            assert_close(found, dense_point(X) @ double(v), own, 100.0)
        close(X @ np.arange(SHAPE[1]), dense_point(X) @ np.arange(SHAPE[1]), X, 1000)
        close(X @ list(range(SHAPE[1])), dense_point(X) @ np.arange(SHAPE[1]), X, 1000)


def test_transposes(X):
    dense = dense_point(X)
    close(X.T.to_dense(), dense.T, X)
    close(X.H.to_dense(), dense.conj().T, X)
    close(X.conj().to_dense(), dense.conj(), X)
    close(X.T.T.to_dense(), dense, X)
    assert (X.shape, X.T.shape, X.ndim, X.size, len(X)) == (SHAPE, SHAPE[::-1], 2, 63, 9)


def test_a_hermitian_point_stays_one(dtype):
    X = lr.FixedRank.semidefinite(random_array(np.random.default_rng(3), (6, 2), dtype))
    for Y in (X.T, X.H, X.conj()):
        assert Y.hermitian
    close(X.T.to_dense(), dense_point(X).T, X)
    close(X.H.to_dense(), dense_point(X), X)


def test_products_of_points(backend, dtype):
    rng = np.random.default_rng(4)
    for first, second in ((2, 3), (3, 2), (1, 1)):
        X = on(backend, random_point(rng, SHAPE, first, dtype))
        Y = on(backend, random_point(rng, (SHAPE[1], 5), second, dtype))
        Z = X @ Y
        assert isinstance(Z, lr.FixedRank)
        assert (Z.shape, Z.rank) == ((SHAPE[0], 5), min(first, second))
        close(Z.to_dense(), dense_point(X) @ dense_point(Y), X)


def test_products_with_sparse_matrices(dtype):
    X = random_point(np.random.default_rng(5), SHAPE, RANK, dtype)
    S = scipy.sparse.random_array((SHAPE[1], 4), density=0.5, rng=np.random.default_rng(6)).astype(dtype)
    close(X @ S, dense_point(X) @ S.toarray(), X)


INDICES = [
    0, -1, 8, np.int64(3), slice(None), slice(2, 5), slice(None, None, -2), slice(7, 3), slice(20, 30),
    [0, 3, 3], [-1, 0], np.array([1, 2], np.int32), np.array([], int), [], np.arange(9) % 2 == 0,
]  # fmt: skip


@pytest.mark.parametrize("row", INDICES, ids=str)
def test_rows_as_numpy_has_them(X, row):
    close(X[row], dense_point(X)[row], X)
    close(X[row, :], dense_point(X)[row, :], X)
    close(X[row, 2], dense_point(X)[row, 2], X)
    close(X[row, -3:], dense_point(X)[row, -3:], X)
    close(X.T[:, row], dense_point(X).T[:, row], X)
    close(X.T[1, row], dense_point(X).T[1, row], X)


def test_pairs_of_indices(X):
    dense = dense_point(X)
    rows, cols = [0, 4, -1, 4], [6, 0, -2, 0]
    close(X[rows, cols], dense[rows, cols], X)
    close(X[rows, 3], dense[rows, 3], X)
    close(X[np.ix_(rows, cols)], dense[np.ix_(rows, cols)], X)
    close(X[np.array(rows).reshape(2, 2), 0], dense[np.array(rows).reshape(2, 2), 0], X)
    assert abs(complex(X[3, 4]) - dense[3, 4]) < 1e-5
    assert [host(row).shape for row in X] == [(7,)] * 9


@given(seeds, st.integers(-12, 12), st.integers(-12, 12), st.integers(-3, 3).filter(bool))
def test_slices_of_any_kind(seed, start, end, stride):
    X = random_point(np.random.default_rng(seed), SHAPE, RANK, np.complex128)
    index = slice(start, end, stride)
    assert_close(X[index], dense_point(X)[index], np.complex128, 100.0, scale=1.0)
    assert_close(X[:, index], dense_point(X)[:, index], np.complex128, 100.0, scale=1.0)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (9, r"row 9 is outside of 0 \.\. 8"),
        (-10, "row -10 is outside"),
        ((0, 7), "column 7 is outside"),
        ([0, 99], "row 99 is outside"),
        ((0, 0, 0), "one or two indices, got 3"),
        (1.5, "row indices must be whole numbers, got float64"),
        (None, "row indices are whole numbers"),
        (Ellipsis, "row indices are whole numbers"),
        ("a", "row indices are whole numbers"),
        (slice(0.5, 2), "row slices take whole numbers"),
        ([True, False], "a mask of rows must have length 9, got 2"),
        (([0, 1], [0, 1, 2]), "cannot be broadcast"),
        (([[0], [1]], slice(None)), "must have one dimension"),
    ],
)
def test_wrong_indices_are_named(index, message):
    X = random_point(np.random.default_rng(0), SHAPE, RANK, np.float64)
    with pytest.raises(IndexError, match=message):
        X[index]


def test_wrong_factors_are_named():
    X = random_point(np.random.default_rng(0), SHAPE, RANK, np.float64)
    for product, message in (
        (lambda: X @ np.ones(9), "X @ v: shapes 9 x 7 and 9 do not fit, 7 is not 9"),
        (lambda: np.ones(7) @ X, "v @ X: shapes 7 and 9 x 7 do not fit"),
        (lambda: X @ X, "X @ Y: shapes 9 x 7 and 9 x 7 do not fit"),
        (lambda: X @ scipy.sparse.eye_array(3), "X @ S: shapes"),
        (lambda: X @ 3.0, r"v must be a vector or a matrix, got an array of shape \(\)"),
        (lambda: X @ np.ones((7, 1, 1)), "v must be a vector or a matrix"),
        (lambda: X @ np.array(["a"] * 7), "v must hold numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            product()


def test_as_an_array(backend, dtype):
    X = on(backend, random_point(np.random.default_rng(7), SHAPE, RANK, dtype))
    a = np.asarray(X)
    assert type(a) is np.ndarray
    assert a.dtype == dtype
    close(a, dense_point(X), X)
    assert np.array(X, dtype=np.complex128).dtype == np.complex128
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(X, copy=False)


def test_large_matrices_never_become_arrays_unasked():
    n = 100_000
    X = lr.FixedRank.zero((n, n), 2, float)
    for whole in (
        lambda: np.asarray(X),
        X.to_dense,
        lambda: X[:],
        lambda: X[:, : n // 2],
        lambda: X @ scipy.sparse.eye_array(n),
    ):
        with pytest.raises(ValueError, match=r"has [\d,]+ entries \(\d+\.\d GB\), over the limit of 50,000,000"):
            whole()
    assert X[3].shape == X[:, -1].shape == (n,)
    assert X[:5, 10:20].shape == (5, 10)
    assert (X @ np.ones(n)).shape == (n,)


def test_scipys_linear_operators(dtype):
    X = random_point(np.random.default_rng(8), (30, 20), RANK, dtype)
    operator, dense = scipy.sparse.linalg.aslinearoperator(X), dense_point(X)
    rng = np.random.default_rng(9)
    assert (operator.shape, operator.dtype) == ((30, 20), dtype)
    v, u = random_array(rng, (20, 2), dtype), random_array(rng, (30, 2), dtype)
    close(operator @ v, dense @ double(v), X)
    close(operator @ v[:, 0], dense @ double(v[:, 0]), X)
    close(operator.H @ u, dense.conj().T @ double(u), X)
    close(operator.T @ u, dense.T @ double(u), X)
    U, s, Vh = scipy.sparse.linalg.svds(X, k=RANK, v0=random_array(rng, 20, dtype))
    np.testing.assert_allclose(np.sort(s)[::-1], host(X.s), rtol=1e-4 if np.finfo(dtype).bits == 32 else 1e-10)
    close((U * s) @ Vh, dense, X, 1e4)
    shifted = operator + scipy.sparse.linalg.aslinearoperator(scipy.sparse.eye_array(30, 20).astype(dtype))
    close(shifted @ v, (dense + np.eye(30, 20)) @ double(v), X)
